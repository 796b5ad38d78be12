"""What memory does not hold is cut up: the same pairs in the same order, and gradients that are the same sums."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.training.gradients import split_batch
from dragoman.training.loss import Objective
from dragoman.training.trainer import Trainer

WORDS = (
    "[enforce fail at alloc_cpu.cpp:128] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."
)


class Narrow(Objective):
    """Has memory for so many rows at a time, and keeps a record of what it has read."""

    room = 2
    read: list[int]
    words = WORDS

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        if source.shape[0] > self.room:
            raise RuntimeError(self.words)
        self.read.append(source.shape[0])
        return super().forward(source, target)


def narrow(made: Trainer, room: int, words: str = WORDS) -> Narrow:
    objective = Narrow(made.model, made.config.loss)
    objective.room, objective.words, objective.read = room, words, []
    made.gradients.objective = objective
    return objective


@pytest.mark.parametrize(("rows", "pieces", "sizes"), [(7, 3, [3, 2, 2]), (4, 4, [1, 1, 1, 1]), (3, 8, [1, 1, 1])])
def test_rows_are_cut_evenly_and_none_is_lost(rows: int, pieces: int, sizes: list[int]) -> None:
    source, target = torch.arange(rows * 5).view(rows, 5), torch.arange(rows * 2).view(rows, 2)
    parts = list(split_batch(source, target, pieces))
    assert [part[0].shape[0] for part in parts] == sizes
    assert torch.equal(torch.cat([part[0] for part in parts]), source)
    assert torch.equal(torch.cat([part[1] for part in parts]), target)


def test_pieces_have_the_gradients_of_the_whole(trainer: Callable[..., Trainer]) -> None:
    whole, cut_up = trainer({}), trainer({"pieces": 3})
    for made in (whole, cut_up):
        made.model.eval()  # each piece draws a dropout of its own
    share = [whole.reader(index) for index in (2, 3)]
    assert cut_up.gradients.of_update(share) == pytest.approx(whole.gradients.of_update(share), rel=1e-6)
    for one, other in zip(whole.model.parameters(), cut_up.model.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-6)


def test_a_failed_allocation_cuts_finer_and_the_update_is_made(trainer: Callable[..., Trainer]) -> None:
    made = trainer({"stop": {"updates": 4}, "batches_per_update": 2})
    objective = narrow(made, room=2)
    made.run()
    told = [(event["update"], event["pieces"]) for event in made.told if event["event"] == "pieces"]  # type: ignore[attr-defined]
    assert told == [(1, 2), (2, 4)]
    assert max(objective.read) <= 2
    assert len([event for event in made.told if event["event"] == "update"]) == 4  # type: ignore[attr-defined]


def test_the_same_batches_make_the_same_updates_however_they_are_cut(trainer: Callable[..., Trainer]) -> None:
    """Without dropout, to the last digits: nothing is read twice, nothing left out."""
    still = {"stop": {"updates": 6}, "batches_per_update": 2}

    def losses(pieces: Any, room: int) -> list[float]:
        made = trainer(still | {"pieces": pieces})
        for module in made.model.modules():
            if hasattr(module, "rate"):
                module.rate = 0.0
        narrow(made, room)
        made.run()
        return [event["loss"] for event in made.told if event["event"] == "update"]  # type: ignore[attr-defined]

    assert losses(1, room=2) == pytest.approx(losses(1, room=99), rel=1e-5)


def test_auto_tries_the_longest_batch_first(trainer: Callable[..., Trainer]) -> None:
    made = trainer({"stop": {"updates": 1}, "pieces": "auto"})
    longest = max(made.reader.batches, key=lambda batch: batch.source.shape[0])  # type: ignore[attr-defined]
    made.reader.longest = lambda: longest  # type: ignore[method-assign]
    narrow(made, room=3)
    before = [weight.detach().clone() for weight in made.model.parameters()]
    made.resume()
    assert made.gradients.num_microbatches == made.num_microbatches == 2
    assert all(weight.grad is None for weight in made.model.parameters())
    assert all(torch.equal(weight, old) for weight, old in zip(made.model.parameters(), before, strict=True))
    assert [(event["event"], event["pieces"]) for event in made.told] == [("pieces", 2)]  # type: ignore[attr-defined]


def test_batches_are_cut_down_to_single_rows(trainer: Callable[..., Trainer]) -> None:
    made = trainer({"stop": {"updates": 3}})
    objective = narrow(made, room=1)
    made.run()
    assert set(objective.read) == {1}
    assert len([event for event in made.told if event["event"] == "update"]) == 3  # type: ignore[attr-defined]


def test_memory_for_less_than_one_row_is_an_error_for_the_user(trainer: Callable[..., Trainer]) -> None:
    made = trainer({"stop": {"updates": 1}})
    narrow(made, room=0)
    with pytest.raises(ValueError, match="single pair"):
        made.run()


def test_memory_that_runs_out_outside_of_the_gradients_is_an_error_for_the_user(
    trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer({"stop": {"updates": 3}})

    def step() -> None:
        raise RuntimeError(WORDS)

    monkeypatch.setattr(made.optimizer, "step", step)
    with pytest.raises(ValueError, match="memory ran out in update 1"):
        made.run()


def test_other_errors_are_not_taken_for_a_lack_of_memory(trainer: Callable[..., Trainer]) -> None:
    made = trainer({"stop": {"updates": 1}})
    narrow(made, room=0, words="something else")
    with pytest.raises(RuntimeError, match="something else"):
        made.run()
    assert made.gradients.num_microbatches == 1


def test_a_resumed_run_cuts_as_it_did(trainer: Callable[..., Trainer]) -> None:
    settings = {"stop": {"updates": 3}, "checkpoints": {"every": 1}}
    first = trainer(settings)
    narrow(first, room=2)
    first.run()
    again = trainer(settings)
    again.run()
    assert again.gradients.num_microbatches == again.num_microbatches == first.gradients.num_microbatches > 1
