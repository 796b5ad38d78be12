"""Weights put aside: the last few, whole or not at all, and their average."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dragoman.training.averages import Snapshots, average_files


def weights(number: int) -> dict[str, Tensor]:
    torch.manual_seed(number)
    return {"matrix": torch.randn(3, 5), "bias": torch.randn(4)}


def taken(folder: Path, keep: int, *updates: int) -> Snapshots:
    snapshots = Snapshots(folder / "snapshots", keep)
    for update in updates:
        snapshots.save(weights(update), update)
    return snapshots


def test_the_last_few_are_kept_in_their_order(tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 3, 80, 90, 100, 1000)
    files = snapshots.intact()
    assert [file.name for file in files] == [f"update-{update:09}.safetensors" for update in (90, 100, 1000)]
    assert sorted((tmp_path / "snapshots").iterdir()) == files
    assert torch.equal(load_file(files[1])["matrix"], weights(100)["matrix"])


def test_their_mean_is_that_of_the_files(tmp_path: Path) -> None:
    average = average_files(taken(tmp_path, 3, 1, 2, 4).intact())
    for name in ("matrix", "bias"):
        expected = torch.stack([weights(number)[name].double() for number in (1, 2, 4)]).mean(dim=0)
        assert torch.equal(average[name], expected.float())


@pytest.mark.parametrize("harm", ["a flipped bit", "a missing end", "no file"])
def test_a_damaged_one_has_no_part_in_the_mean(harm: str, tmp_path: Path) -> None:
    snapshots = taken(tmp_path, 3, 1, 2, 3)
    victim = snapshots.intact()[1]
    content = bytearray(victim.read_bytes())
    if harm == "no file":
        victim.unlink()
    elif harm == "a missing end":
        victim.write_bytes(content[:-1])
    else:
        content[-3] ^= 4
        victim.write_bytes(content)
    left = snapshots.intact()
    assert [file.name[-13:-12] for file in left] == ["1", "3"]
    expected = (weights(1)["bias"].double() + weights(3)["bias"].double()) / 2
    assert torch.equal(average_files(left)["bias"], expected.float())


def test_those_of_an_earlier_run_have_no_part_in_it(tmp_path: Path) -> None:
    taken(tmp_path, 5, 1, 2)
    snapshots = Snapshots(tmp_path / "snapshots", 5)
    snapshots.clear()
    snapshots.save(weights(3), 3)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["update-000000003.safetensors"]
    assert snapshots.intact() == list((tmp_path / "snapshots").iterdir())


def test_one_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = taken(tmp_path, 3, 1)

    def full(_: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("dragoman.io.durable.os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        snapshots.save(weights(2), 2)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["update-000000001.safetensors"]
