"""Whatever ends a run, the next one goes on from its last checkpoint to bitwise the same weights."""

import ctypes
import errno
import gc
import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from dragoman.training.checkpoint import Checkpoints, read_manifest, split_state
from dragoman.training.config import CHECKPOINTS
from dragoman.training.parallel import Group
from dragoman.training.signals import SAVE, Terminated
from dragoman.training.trainer import Trainer

pytestmark = pytest.mark.slow

CONFIG = {
    "stop": {"updates": 17},
    "checkpoints": {"every": 4, "keep": 2},
    "snapshots": {"every": 3, "average": 3},
    "validate_every": 5,
    "ema": 0.9,
    "log_every": 3,
    "schedule": {"factors": ["warmup", "linear"], "rate": 0.01, "warmup": 5},
}


class Killed(BaseException):
    """What a test ends a run with: nothing catches it."""


def killed_at(update: int) -> Callable[[Any], None]:
    def on_event(event: Any) -> None:
        if event["event"] == "update" and event["update"] >= update:
            raise Killed

    return on_event


def killed(made: Trainer) -> None:
    """Run until the test kills it. What was being written is let through: the scripts in tests/chaos do not wait."""
    with pytest.raises(Killed):
        made.run()
    made.checkpoints.finish()


def scored(model: Any) -> dict[str, Any]:
    """Better with every validation until the third, then worse: the best is not the last."""
    total = sum(weight.double().sum().item() for weight in model.parameters())
    return {"loss": 1.0, "bleu": total, "samples": [("a", "b", "c")]}


def whole(trainer: Trainer) -> dict[str, Any]:
    """The state to compare, without the clock."""
    tensors, numbers = split_state(trainer.state_dict())
    del (
        numbers["trainer"]["elapsed"],
        numbers["budget"]["measurements"],
        numbers["window"]["since"],
        numbers["window"]["skipped"],
    )
    return {**numbers, **{name: tensor.clone() for name, tensor in tensors.items()}}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    assert one.keys() == other.keys()
    return all(
        torch.equal(value, other[name]) if isinstance(value, Tensor) else value == other[name]
        for name, value in one.items()
    )


@pytest.fixture
def straight(trainer: Callable[..., Trainer], tmp_path: Path) -> dict[str, Any]:
    """The end of a run that nobody disturbed."""
    made = trainer(CONFIG, scored, folder=tmp_path / "straight")
    made.run()
    return whole(made)


@pytest.mark.parametrize("update", [1, 4, 6, 9, 13, 16])
def test_a_run_that_was_killed_ends_with_bitwise_the_same_state(
    trainer: Callable[..., Trainer], straight: dict[str, Any], tmp_path: Path, update: int
) -> None:
    config = CONFIG | {"log_every": 1}
    killed(trainer(config, scored, folder=tmp_path / "killed", on_event=killed_at(update)))
    again = trainer(CONFIG, scored, folder=tmp_path / "killed")
    again.run()
    assert same(whole(again), straight)
    resumed = [event["update"] for event in again.told if event["event"] == "resumed"]  # type: ignore[attr-defined]
    assert resumed == [(update - 1) // 4 * 4] * (update > 4)


def test_a_resumed_run_mixes_in_the_weights_that_it_began_with(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    changes = {"parent": "the parent", "parent_share": 0.5}
    straight = trainer(CONFIG, scored, folder=tmp_path / "straight", **changes).run()
    config = CONFIG | {"log_every": 1}
    killed(trainer(config, scored, folder=tmp_path / "killed", on_event=killed_at(13), **changes))
    resumed = trainer(CONFIG, scored, folder=tmp_path / "killed", **changes).run()
    assert same(dict(straight.weights), dict(resumed.weights))


def test_every_part_of_the_state_is_needed(
    trainer: Callable[..., Trainer], straight: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: a checkpoint that forgets Adam's memory."""
    complete = Trainer.state_dict
    monkeypatch.setattr(Trainer, "state_dict", lambda self: {**complete(self), "optimizer": {}})
    killed(trainer(CONFIG | {"log_every": 1}, scored, folder=tmp_path / "killed", on_event=killed_at(9)))
    again = trainer(CONFIG, scored, folder=tmp_path / "killed")
    again.run()
    monkeypatch.undo()
    assert not same(whole(again), straight)


def test_a_finished_run_makes_no_further_update(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    first = trainer(CONFIG, scored)
    outcome = first.run()
    again = trainer(CONFIG, scored)
    other = again.run()
    assert other.updates == outcome.updates == 17
    assert other.which == outcome.which
    assert all(torch.equal(weight, other.weights[name]) for name, weight in outcome.weights.items())
    assert not [event for event in again.told if event["event"] == "update"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("updates", [14, 20])
def test_another_number_of_updates_is_where_a_resumed_run_ends(trainer: Callable[..., Trainer], updates: int) -> None:
    killed(trainer(CONFIG | {"log_every": 1}, scored, on_event=killed_at(13)))
    assert trainer(CONFIG | {"stop": {"updates": updates}}, scored).run().updates == updates


def test_the_last_few_are_kept(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    trainer(CONFIG, scored).run()
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) == ["update-000000016", "update-000000017"]


def test_what_is_written_is_the_state_when_it_was_saved(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    made = trainer(CONFIG, scored)
    tensors, _ = split_state(made.state_dict())
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    made.checkpoints.save(0, made.state_dict())
    for tensor in tensors.values():
        tensor.fill_(7.0)  # training goes on while it is written
    made.checkpoints.finish()
    saved, _ = made.checkpoints.newest()
    assert saved is not None
    made.checkpoints.load(saved, made.state_dict())
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors.items())


def test_sigterm_saves_after_the_update_and_ends(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    def on_event(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Terminated) as ended:
        trainer(CONFIG | {"log_every": 1}, scored, on_event=on_event).run()
    assert ended.value.saved
    # Heard while update 7 was told, and so agreed on in update 8.
    assert read_manifest(tmp_path / CHECKPOINTS / "update-000000008").update == ended.value.update == 8


def test_ctrl_c_saves_after_the_update_and_interrupts(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    def on_event(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 7:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trainer(CONFIG | {"log_every": 1}, scored, on_event=on_event).run()
    assert read_manifest(tmp_path / CHECKPOINTS / "update-000000008").update == 8


@pytest.mark.parametrize("update", [8, 16])
def test_ctrl_c_during_a_validation_saves_before_the_next_update(
    trainer: Callable[..., Trainer], tmp_path: Path, update: int
) -> None:
    made = trainer(CONFIG | {"stop": {"updates": 16}, "validate_every": 8, "checkpoints": {"every": 1000}}, scored)

    def interrupt(model: Any) -> Any:
        if made.update == update:
            os.kill(os.getpid(), signal.SIGINT)
        return scored(model)

    made.validate = interrupt
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert read_manifest(tmp_path / CHECKPOINTS / f"update-{update:09}").update == update


def test_auto_saves_within_a_minute_and_then_ten_times_per_run(trainer: Callable[..., Trainer]) -> None:
    told: list[Any] = []
    seconds = iter(range(0, 10_000, 7))  # the clock moves by 7 s with each reading
    config = {"stop": {"updates": 200}, "validate_every": 200, "checkpoints": {"every": "auto"}}
    trainer(config, scored, on_event=told.append, clock=lambda: float(next(seconds))).run()
    saved = [event["checkpoint"] * 7 for event in told if event["event"] == "saved"]
    assert saved[0] <= 70
    assert max(later - earlier for earlier, later in pairwise(saved)) <= 147
    assert 10 <= len(saved) <= 13


@pytest.mark.parametrize("by", ["signal", "file"])
def test_sigusr1_or_a_file_saves_and_goes_on(trainer: Callable[..., Trainer], tmp_path: Path, by: str) -> None:
    told: list[Any] = []

    def on_event(event: Any) -> None:
        told.append(event)
        if event["event"] == "update" and event["update"] == 5:
            os.kill(os.getpid(), signal.SIGUSR1) if by == "signal" else (tmp_path / SAVE).touch()

    trainer(CONFIG | {"log_every": 1, "checkpoints": {"every": None, "keep": 9}}, scored, on_event=on_event).run()
    # The signal comes before the validation of update 5; the file is looked for with the next update.
    assert [event["checkpoint"] for event in told if event["event"] == "saved"] == [5 if by == "signal" else 6]
    assert told[-1]["event"] == "end"
    assert not (tmp_path / SAVE).exists()


def test_handlers_are_given_back(trainer: Callable[..., Trainer]) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)
    trainer({"stop": {"updates": 1}}).run()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)) == before


def test_a_change_of_threads_is_said(trainer: Callable[..., Trainer]) -> None:
    killed(trainer(CONFIG | {"log_every": 1}, scored, on_event=killed_at(6)))
    num_threads = torch.get_num_threads()
    torch.set_num_threads(num_threads + 1)
    try:
        again = trainer(CONFIG, scored)
        again.run()
    finally:
        torch.set_num_threads(num_threads)
    resumed = next(event for event in again.told if event["event"] == "resumed")  # type: ignore[attr-defined]
    assert (resumed["then"], resumed["now"]) == ((1, num_threads), (1, num_threads + 1))


def saved_twice(trainer: Callable[..., Trainer], folder: Path) -> Checkpoints:
    made = trainer({"stop": {"updates": 5}, "checkpoints": {"every": 2, "keep": 3}, "ema": 0.9}, scored, folder=folder)
    made.run()
    return made.checkpoints


def test_a_damaged_checkpoint_is_named_and_put_aside(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    checkpoints = saved_twice(trainer, tmp_path)
    file = tmp_path / CHECKPOINTS / "update-000000005" / "__0_0.distcp"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)
    saved, wrong = checkpoints.newest()
    assert saved is not None
    assert saved.update == 4
    assert len(wrong) == 1
    assert "update-000000005/__0_0.distcp: the content of the file has changed" in wrong[0]
    assert (tmp_path / CHECKPOINTS / "damaged-update-000000005").is_dir()


@pytest.mark.parametrize("harm", ["missing manifest", "missing file", "renamed", "swapped", "cut", "empty"])
def test_every_damage_is_noticed(trainer: Callable[..., Trainer], tmp_path: Path, harm: str) -> None:
    checkpoints = saved_twice(trainer, tmp_path)
    last, other = (tmp_path / CHECKPOINTS / f"update-00000000{number}" for number in (5, 4))
    tensors = last / "__0_0.distcp"
    match harm:
        case "missing manifest":
            (last / "manifest.json").unlink()
        case "missing file":
            tensors.unlink()
        case "renamed":
            last.rename(tmp_path / CHECKPOINTS / "update-000000009")
        case "swapped":
            shutil.copy(other / tensors.name, tensors)
        case "cut":
            os.truncate(tensors, 100)
        case "empty":
            os.truncate(last / "manifest.json", 0)
    saved, wrong = checkpoints.newest()
    assert saved is not None
    assert saved.update == 4
    assert len(wrong) == 1


def test_if_none_is_whole_the_run_does_not_silently_begin_anew(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    checkpoints = saved_twice(trainer, tmp_path)
    for folder in (tmp_path / CHECKPOINTS).iterdir():
        (folder / ".metadata").write_bytes(b"")
    with pytest.raises(ValueError, match=r"no checkpoint is intact.*remove"):
        checkpoints.newest()


def in_use() -> int:
    """Bytes that the C library has given out."""
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    kind = type("Kind", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in names.split()]})
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is None:
        pytest.skip("this C library does not say how much memory is in use")
    function.restype = kind
    found = function()
    return int(found.uordblks + found.hblkhd)


def test_what_was_copied_to_be_saved_is_given_free_at_once(trainer: Callable[..., Trainer]) -> None:
    """And not when Python happens to look for circles, which may take until the machine has no memory left."""
    made = trainer(CONFIG, scored)
    tensors = {"a": torch.zeros(5_000_000)}
    made.checkpoints.save(0, tensors)
    made.checkpoints.finish()
    gc.collect()
    gc.disable()
    try:
        before = in_use()
        for update in range(1, 4):
            made.checkpoints.save(update, tensors)
            made.checkpoints.finish()
        assert [result.error for result in made.checkpoints.results] == [None] * 4
        assert in_use() - before < 10_000_000
    finally:
        gc.enable()


def test_that_none_is_whole_is_said_without_promising_an_older_one(
    trainer: Callable[..., Trainer], tmp_path: Path
) -> None:
    checkpoints = saved_twice(trainer, tmp_path)
    for folder in (tmp_path / CHECKPOINTS).iterdir():
        (folder / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"the file is missing; .*the file is missing\)"):
        checkpoints.newest()


@pytest.mark.parametrize("free", [5_000_000, 10**12])
def test_on_a_full_disk_it_is_said_what_is_needed_and_what_is_free(
    trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    """What torch says of it is about positions in a file."""

    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598")

    made = trainer(CONFIG, scored)
    monkeypatch.setattr(FileSystemWriter, "write_data", refused)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    made.checkpoints.save(0, {"a": torch.zeros(2_000_000)})
    made.checkpoints.finish()
    problem = made.checkpoints.results.popleft().error
    assert problem is not None
    if free < 8_000_000:
        assert problem.startswith("no space left in ")
        assert problem.endswith("/checkpoints (5 MB are free): free 8 MB for a checkpoint")
    else:
        assert "unexpected pos" in problem


@contextmanager
def failing_at(point: int) -> Iterator[list[str]]:
    """Every write, fsync and rename is counted; that of this number fails as on a full disk. Lists what was passed."""
    passed: list[str] = []

    def reach(what: str) -> None:
        passed.append(what)
        if len(passed) == point:
            raise OSError(errno.ENOSPC, "No space left on device")

    class Failing(io.FileIO):
        def write(self, data: Any) -> int:
            reach("write")
            return super().write(data)

    def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if "b" in mode and set(mode) & set("wxa"):
            return io.BufferedWriter(Failing(file, mode.replace("b", "")))
        return real_open(file, mode, *rest, **named)

    real_open, real_sync, real_rename, real_replace = io.open, os.fsync, os.rename, os.replace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opened)
        patch.setattr(os, "fsync", lambda handle: (reach("fsync"), real_sync(handle))[1])
        patch.setattr(os, "rename", lambda *paths: (reach("rename"), real_rename(*paths))[1])
        patch.setattr(os, "replace", lambda *paths: (reach("replace"), real_replace(*paths))[1])
        yield passed


def test_a_full_disk_at_any_point_of_a_save_costs_nothing_but_that_save(
    trainer: Callable[..., Trainer], tmp_path: Path
) -> None:
    made = trainer(CONFIG, scored)
    checkpoints = made.checkpoints
    checkpoints.save(0, made.state_dict())
    checkpoints.finish()
    checkpoints.results.clear()
    with failing_at(0) as passed:
        checkpoints.save(1, made.state_dict())
        checkpoints.finish()
    assert {"write", "fsync", "rename", "replace"} <= set(passed)
    assert checkpoints.results.popleft().error is None
    for point in range(1, len(passed) + 1):
        with failing_at(point):
            checkpoints.save(1 + point, made.state_dict())
            checkpoints.finish()
        result = checkpoints.results.popleft()
        saved, wrong = checkpoints.newest()
        assert saved is not None, point
        assert not wrong
        is_there = saved.update == 1 + point
        assert is_there >= (result.error is None), f"{point}: said to be saved, and is not"
        assert result.error is None or "No space left" in result.error
        assert not list((tmp_path / CHECKPOINTS).glob(".*"))


def test_a_group_of_one_has_no_second_process_group() -> None:
    assert Group().new_process_group() is None
