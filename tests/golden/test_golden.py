"""The committed bundles of every released format: they open, translate the same, and no damage to them goes unseen."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle import open_bundle
from dragoman.bundle.file_names import MANIFEST
from dragoman.decoding.engine import search
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.io.durable import DamageError
from dragoman.translation.translator import Translator

HERE = Path(__file__).parent
GOLDEN = ["v1", "v1-recurrent", "v1-convolutional"]
BOTH_HAVE = ["model.safetensors", "config.json", "card.json", "README.md"]


def files(folder: Path) -> list[str]:
    manifest = json.loads((folder / MANIFEST).read_text())["manifest"]
    return [MANIFEST, *(info["file"] for info in manifest["files"])]


@pytest.fixture(params=GOLDEN)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / request.param, tmp_path / "copy"))


def refused(folder: Path, file: str) -> str:
    with pytest.raises(
        DamageError, match=r"copy the whole bundle again|a folder that dragoman train has written"
    ) as error:
        open_bundle(folder)
    assert str(error.value).startswith(f"{folder / file}: ")
    assert "\n" not in str(error.value)
    return str(error.value)


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


@pytest.mark.parametrize("name", GOLDEN)
def test_it_opens_and_translates_as_on_the_day_it_was_made(name: str) -> None:
    expected = json.loads((HERE / name / "expected.json").read_text(encoding="utf-8"))
    bundle = open_bundle(HERE / name)
    assert bundle.sha256 == expected["sha256"]
    assert (bundle.info.source_language, bundle.info.target_language) == ("en", "de")
    assert bundle.card.data[0].pairs == 48
    texts = list(expected["translations"])
    assert Translator.load(HERE / name).translate(texts) == list(expected["translations"].values())
    engine, options = TorchEngine(load_model(bundle)), SearchOptions.model_validate(bundle.info.search)
    assert options.beam_size == 3
    for text, score in expected["scores"].items():
        ids = bundle.vocab.source.encode([text]).ids.tolist()
        assert search(engine, [ids], options)[0].best.score == pytest.approx(score, abs=1e-4)


def test_the_two_bundles_hold_every_layout_there_is() -> None:
    one, other = (open_bundle(HERE / name) for name in GOLDEN[:2])
    assert (one.vocab.joint, other.vocab.joint) == (True, False)
    assert (one.info.model.tie, other.info.model.tie) == ("all", "none")
    assert len(b"".join(array.tobytes() for array in one.weights().values())) > 76_000 - 4_000
    assert (HERE / "v1-recurrent" / "model.safetensors").stat().st_size < 2.2 * one.card.sizes["parameters"]


def test_a_hundred_single_bit_flips_are_all_found_and_named(folder: Path) -> None:
    random, flips = np.random.default_rng(3), 0
    while flips < 100:
        for file in files(folder):
            bit = int(random.integers(0, 8 * (folder / file).stat().st_size))
            flip(folder / file, bit)
            refused(folder, file)
            flip(folder / file, bit)
            flips += 1
    open_bundle(folder)


def test_without_verification_a_flip_in_the_weights_goes_unseen(folder: Path) -> None:
    """That the tests above can fail at all."""
    flip(folder / "model.safetensors", 8 * ((folder / "model.safetensors").stat().st_size - 7))
    assert open_bundle(folder, verify=False).folder == folder
    refused(folder, "model.safetensors")


def test_twenty_truncations_are_all_found_and_named(folder: Path) -> None:
    random = np.random.default_rng(4)
    for file in files(folder):
        content = (folder / file).read_bytes()
        for size in random.integers(1, len(content), 4).tolist():
            (folder / file).write_bytes(content[:size])
            refused(folder, file)
        (folder / file).write_bytes(content)
    open_bundle(folder)


def damaged(folder: Path) -> Iterator[str]:
    """Each file in turn, for a test to damage; then it is mended."""
    for file in files(folder):
        content = (folder / file).read_bytes()
        yield file
        (folder / file).write_bytes(content)


def test_a_deleted_file_is_found_and_named(folder: Path) -> None:
    for file in damaged(folder):
        (folder / file).unlink()
        assert "missing" in refused(folder, file)


def test_an_empty_file_is_found_and_named(folder: Path) -> None:
    for file in damaged(folder):
        (folder / file).write_bytes(b"")
        refused(folder, file)


@pytest.mark.parametrize("file", BOTH_HAVE)
def test_a_file_of_the_other_bundle_is_found_and_named(folder: Path, file: str) -> None:
    other = next(HERE / name for name in GOLDEN if (HERE / name / file).read_bytes() != (folder / file).read_bytes())
    shutil.copy(other / file, folder / file)
    refused(folder, file)


def test_the_manifest_of_the_other_bundle_is_found(tmp_path: Path) -> None:
    shutil.copytree(HERE / "v1", tmp_path / "copy")
    shutil.copy(HERE / "v1-recurrent" / MANIFEST, tmp_path / "copy" / MANIFEST)
    refused(tmp_path / "copy", "model.safetensors")
