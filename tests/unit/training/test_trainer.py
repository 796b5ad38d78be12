"""The loop: what an update is, what validation sees, what is kept, and when it ends."""

import math
import multiprocessing
import operator
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.data.batches import Batch, Reader
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import PAD
from dragoman.training.averages import average_files, copy_weights
from dragoman.training.loss import Objective
from dragoman.training.parallel import Group
from dragoman.training.randomness import seed_batch
from dragoman.training.trainer import BestValidation, Event, Trainer

Make = Callable[..., Trainer]
Weights = Mapping[str, Tensor]


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(weight, other[name]) for name, weight in one.items())


def events(trainer: Trainer, kind: str) -> list[Event]:
    return [event for event in trainer.told if event["event"] == kind]  # type: ignore[attr-defined]


@dataclass
class Course:
    """Every update's weights, by listening."""

    trainer: Trainer | None = None

    def __post_init__(self) -> None:
        self.weights: list[Weights] = []

    def __call__(self, event: Event) -> None:
        if event["event"] == "update":
            assert self.trainer is not None
            self.weights.append(copy_weights(self.trainer.model))


def course(make: Make, config: Mapping[str, Any], **changes: Any) -> list[Weights]:
    listening = Course()
    listening.trainer = make(config, on_event=listening, **changes)
    listening.trainer.run()
    return listening.weights


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Slow(Reader):
    """Takes a second for each batch."""

    def __init__(self, batches: list[Batch], clock: Clock) -> None:
        self.batches, self.clock = batches, clock

    def __call__(self, index: int) -> Batch:
        self.clock.now += 1.0
        return self.batches[index % len(self.batches)]


class SlowHere(Reader):
    """Batches from a list, slowly, so that workers start before the run is over; a worker gets the list itself."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return partial, (operator.getitem, self.batches)

    def __call__(self, index: int) -> Batch:
        time.sleep(0.1)
        return self.batches[index]


def tensors(batch: Batch) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(batch.source).long(), torch.from_numpy(batch.target).long()


def by_hand(make: Make, batches: list[Batch], config: Mapping[str, Any], by_tokens: bool = True) -> Trainer:
    """A trainer whose first update was made step by step."""
    trainer = make(config)
    losses = []
    for index, batch in enumerate(batches):
        seed_batch(3, index)
        source, target = tensors(batch)
        loss = Objective(trainer.model, trainer.config.loss)(source, target)
        losses.append(loss if by_tokens else loss / int((target != PAD).sum()))
    total = torch.stack(losses).sum()
    tokens = sum(int((batch.target != PAD).sum()) for batch in batches)
    (total / (tokens if by_tokens else len(batches))).backward()
    if trainer.config.optimizer.clip:
        norm = torch.stack([weight.grad.pow(2).sum() for weight in trainer.model.parameters()]).sum().sqrt()
        for weight in trainer.model.parameters():
            weight.grad *= trainer.config.optimizer.clip / norm
    for group in trainer.optimizer.param_groups:
        group["lr"] = 0.01 / 5  # the first of five updates of warm-up
    trainer.optimizer.step()
    return trainer


# With a large epsilon Adam's first update is nearly in proportion to the gradient, and shows its length.
PROPORTIONAL = {"epsilon": 10.0}


def test_an_update_is_made_with_the_gradient_of_all_its_batches_per_token(trainer: Make, batches: list[Batch]) -> None:
    config = {"batches_per_update": 4, "stop": {"updates": 1}, "optimizer": PROPORTIONAL}
    made = trainer(config)
    before = copy_weights(made.model)
    found = made.run().weights
    expected = copy_weights(by_hand(trainer, batches[:4], config).model)
    wrong = copy_weights(by_hand(trainer, batches[:4], config, by_tokens=False).model)
    for name, weight in found.items():
        torch.testing.assert_close(weight - before[name], expected[name] - before[name], rtol=1e-3, atol=2e-9)
    assert any((found[name] - wrong[name]).abs().max() > 1e-6 for name in found), "the batches are too much alike"


def test_gradients_are_clipped_and_their_length_before_that_is_told(trainer: Make, batches: list[Batch]) -> None:
    config = {"stop": {"updates": 1}, "optimizer": PROPORTIONAL | {"clip": 0.125}}
    made = trainer(config)
    found = made.run().weights
    expected = copy_weights(by_hand(trainer, batches[:1], config).model)
    for name, weight in found.items():
        torch.testing.assert_close(weight, expected[name], rtol=0.0, atol=1e-7)
    free = trainer({"stop": {"updates": 1}, "optimizer": PROPORTIONAL})
    assert not same(free.run().weights, found)
    lengths = [events(run, "update")[0]["gradient"] for run in (made, free)]
    assert lengths[0] == lengths[1] > 0.125


@pytest.mark.slow
def test_the_same_seed_gives_bitwise_the_same_weights(trainer: Make) -> None:
    config = {"stop": {"updates": 12}, "batches_per_update": 2}
    first, again = (trainer(config).run().weights for _ in range(2))
    assert same(first, again)
    assert not same(first, trainer(config, seed=4).run().weights)


@pytest.mark.slow
def test_loader_workers_change_nothing_about_the_weights(trainer: Make, batches: list[Batch]) -> None:
    config = {"stop": {"updates": 30}, "batches_per_update": 2}
    workers: list[object] = []

    def validate(_: object) -> Mapping[str, Any]:
        workers.extend(multiprocessing.active_children())
        return {"loss": 1.0, "bleu": 0.0, "samples": []}

    reader = SlowHere([replace(batches[index % len(batches)], index=index) for index in range(100)])
    ahead = trainer({**config, "loader_workers": 1}, validate, reader=reader).run()
    assert workers
    assert not multiprocessing.active_children()
    assert same(ahead.weights, trainer(config).run().weights)


def test_the_moving_average_is_validated_and_kept_and_training_does_not_notice(trainer: Make) -> None:
    config = {"stop": {"updates": 6, "metric": "loss"}, "validate_every": 1}
    seen: list[Weights] = []

    def validate(model: Seq2Seq[Any, Any]) -> dict[str, float]:
        seen.append(copy_weights(model))
        model.eval()
        return {"loss": -float(len(seen))}

    plain = course(trainer, {"stop": {"updates": 6}})
    with_average = course(trainer, config | {"ema": 0.5}, validate=validate)
    assert all(same(one, other) for one, other in zip(plain, with_average, strict=True))
    average = copy_weights(trainer(config).model)
    for n, weights in enumerate(plain, 1):
        decay = min(0.5, (1 + n) / (10 + n))
        average = {name: decay * average[name] + (1 - decay) * weights[name] for name in weights}
        for name in weights:
            torch.testing.assert_close(seen[n - 1][name], average[name], rtol=0.0, atol=1e-6)
    made = trainer(config | {"ema": 0.5}, validate=validate)
    assert same(made.run().weights, seen[-1])
    assert same(copy_weights(made.model), seen[-1])


def test_weights_come_back_even_if_validation_fails(trainer: Make) -> None:
    def validate(_: Seq2Seq[Any, Any]) -> dict[str, float]:
        raise RuntimeError("no luck")

    made = trainer({"stop": {"updates": 3}, "ema": 0.5}, validate=validate)
    with pytest.raises(RuntimeError, match="no luck"):
        made.run()
    assert same(copy_weights(made.model), course(trainer, {"stop": {"updates": 3}})[-1])


def test_the_average_of_the_last_snapshots_is_tried_in_the_end(trainer: Make, tmp_path: Path) -> None:
    config = {"stop": {"updates": 9}, "snapshots": {"every": 2, "average": 3}}
    seen: list[Weights] = []

    def validate(model: Seq2Seq[Any, Any]) -> dict[str, float]:
        seen.append(copy_weights(model))
        return {"bleu": float(len(seen)), "loss": 1.0}

    made = trainer(config, validate=validate)
    outcome = made.run()
    assert same(outcome.weights, average_files(sorted((tmp_path / "snapshots").iterdir())))
    after = course(trainer, {"stop": {"updates": 9}})
    assert same(seen[0], after[8])
    expected = {name: (after[3][name] + after[5][name] + after[7][name]) / 3 for name in after[0]}
    for name, weight in outcome.weights.items():
        torch.testing.assert_close(weight, expected[name], rtol=0.0, atol=1e-6)
    assert outcome.which == "the average of 3 snapshots"


def test_weights_that_are_validated_have_a_share_of_the_parent_and_training_does_not_notice(trainer: Make) -> None:
    config = {"stop": {"updates": 6, "metric": "loss"}, "validate_every": 3, "snapshots": {"every": 3, "average": 2}}
    seen: list[Weights] = []

    def validate(model: Seq2Seq[Any, Any]) -> dict[str, float]:
        seen.append(copy_weights(model))
        return {"loss": -float(len(seen))}

    plain = course(trainer, {"stop": {"updates": 6}})
    mixed = course(trainer, config, validate=validate, parent="the parent", parent_share=0.25)
    assert all(same(one, other) for one, other in zip(plain, mixed, strict=True))
    seen.clear()
    made = trainer(config, validate, parent="the parent", parent_share=0.25)
    first = copy_weights(made.model)
    outcome = made.run()
    both = {name: (plain[2][name] + plain[5][name]) / 2 for name in first}
    assert len(seen) == 4
    assert same(seen[0], first)
    for found, own in zip(seen[1:], (plain[2], plain[5], both), strict=True):
        for name, weight in found.items():
            torch.testing.assert_close(weight, 0.75 * own[name] + 0.25 * first[name], rtol=0.0, atol=1e-6)
    assert same(outcome.weights, seen[-1])


def test_a_damaged_snapshot_is_told_and_left_out(trainer: Make, tmp_path: Path) -> None:
    def validate(_: Seq2Seq[Any, Any]) -> dict[str, float]:
        (tmp_path / "snapshots" / "update-000000004.safetensors").write_bytes(b"?")
        return {"bleu": 0.0, "loss": 1.0}

    made = trainer({"stop": {"updates": 7}, "snapshots": {"every": 2, "average": 3}}, validate=validate)
    made.run()
    assert [event["snapshots"] for event in events(made, "damaged")] == [1]
    assert events(made, "validation")[-1]["which"] == "the average of 2 snapshots"


@pytest.mark.parametrize(("metric", "best"), [("loss", 3), ("bleu", 2), ("chrf", 4)])
def test_what_validates_best_by_the_metric_is_kept(metric: str, best: int, trainer: Make) -> None:
    course_of = {"loss": [3.0, 2.0, 1.0, 1.0], "bleu": [1.0, 9.0, 8.0, 7.0], "chrf": [5.0, 5.0, 4.0, 6.0]}
    scripted = iter([dict(zip(course_of, scores, strict=True)) for scores in zip(*course_of.values(), strict=True)])
    seen: list[Weights] = []

    def validate(model: Seq2Seq[Any, Any]) -> dict[str, float]:
        seen.append(copy_weights(model))
        return next(scripted)

    config = {"stop": {"updates": 8, "metric": metric}, "validate_every": 2}
    made = trainer(config, validate=validate)
    outcome = made.run()
    assert outcome.which == f"update {2 * best}"
    assert same(outcome.weights, seen[best - 1])
    assert outcome.scores == {name: scores[best - 1] for name, scores in course_of.items()}
    assert same(copy_weights(made.model), outcome.weights)
    assert events(made, "end")[0]["kept"] == outcome.which


def test_the_first_validation_is_the_best_so_far_and_of_equals_the_one_with_the_lower_loss() -> None:
    best = BestValidation({})
    assert best.is_beaten_by({"bleu": 0.0, "loss": 9.0}, "bleu")
    best = BestValidation({}, "update 1", {"bleu": 7.0, "loss": 3.0})
    assert not best.is_beaten_by({"bleu": 7.0, "loss": 3.0}, "bleu")
    assert best.is_beaten_by({"bleu": 7.0, "loss": 2.9}, "bleu")
    assert not best.is_beaten_by({"bleu": 6.9, "loss": 1.0}, "bleu")
    assert best.is_beaten_by({"bleu": 7.1, "loss": 5.0}, "bleu")


@pytest.mark.parametrize(
    ("metric", "worse", "better"), [("per", 9.1, 8.9), ("wer", 9.1, 8.9), ("exact", 8.9, 9.1), ("f1", 8.9, 9.1)]
)
def test_an_error_rate_is_better_if_it_is_lower(metric: str, worse: float, better: float) -> None:
    best = BestValidation({}, "update 1", {metric: 9.0, "loss": 3.0})
    assert best.is_beaten_by({metric: better, "loss": 4.0}, metric)
    assert not best.is_beaten_by({metric: worse, "loss": 2.0}, metric)


def test_patience_ends_a_run_that_gets_no_better(trainer: Make) -> None:
    scores = iter([1.0, 3.0, 2.0, 3.0, 2.5, 9.0])
    made = trainer(
        {"stop": {"updates": 60, "patience": 3}, "validate_every": 2},
        validate=lambda _: {"bleu": next(scores), "loss": 1.0},
    )
    outcome = made.run()
    assert (outcome.updates, outcome.stop_reason) == (10, "3 validations brought nothing better")
    assert outcome.which == "update 4"
    assert [event["best"] for event in events(made, "validation")] == [True, True, False, False, False]


@pytest.mark.slow
def test_a_time_limit_plans_fewer_updates_and_is_kept(trainer: Make, batches: list[Batch]) -> None:
    clock = Clock()
    config = {"stop": {"updates": 10_000, "time": "100s"}, "schedule": {"factors": ["linear"], "warmup": 0}}
    made = trainer(config, reader=Slow(batches, clock), clock=clock)
    outcome = made.run()
    assert (outcome.updates, outcome.seconds, outcome.stop_reason) == (97, 97.0, "the time is up")
    assert [(event["update"], event["last"]) for event in events(made, "planned")] == [(2, 97)]
    rates = [event["rate"] for event in events(made, "update")]
    assert rates[10:] == pytest.approx([1.0 - n / 98 for n in range(11, 98)])


def test_the_clock_may_end_a_run_between_two_plans(trainer: Make, batches: list[Batch]) -> None:
    clock = Clock()

    def validate(_: Seq2Seq[Any, Any]) -> dict[str, float]:
        clock.now += 60.0
        return {"bleu": 0.0, "loss": 1.0}

    config = {"stop": {"updates": 10_000, "time": "100s"}, "validate_every": 55}
    outcome = trainer(config, validate=validate, reader=Slow(batches, clock), clock=clock).run()
    assert outcome.stop_reason == "the time is up"
    assert (outcome.updates, outcome.seconds) == (56, 116.0)  # the validation began in time, and is not cut off


def test_what_is_due_by_the_clock_comes_by_the_clock(trainer: Make, batches: list[Batch]) -> None:
    clock = Clock()
    config = {
        "stop": {"updates": 35},
        "validate_every": "10s",
        "snapshots": {"every": "15s", "average": 2},
    }
    made = trainer(config, reader=Slow(batches, clock), clock=clock)
    made.run()
    assert [event["update"] for event in events(made, "validation")] == [10, 20, 30, 35, 35]
    assert [info.file[-14:-12] for info in made.snapshots.files] == ["15", "30"]


def test_memory_that_lies_free_is_given_back_now_and_then(
    trainer: Make, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, given = Clock(), list[float]()
    begin = clock.now
    monkeypatch.setattr("dragoman.training.trainer.release_free_memory", lambda: given.append(clock.now))
    trainer({"stop": {"updates": 65}}, reader=Slow(batches, clock), clock=clock).run()
    assert [(at - begin) // 20 for at in given] == [1, 2, 3]


def test_tokens_per_second_count_both_sides_without_padding_and_no_validation(
    trainer: Make, batches: list[Batch]
) -> None:
    clock = Clock()

    def validate(_: Seq2Seq[Any, Any]) -> dict[str, float]:
        clock.now += 50.0
        return {"bleu": 0.0, "loss": 1.0}

    config = {"stop": {"updates": 6}, "log_every": 3, "validate_every": 2}
    made = trainer(config, validate=validate, reader=Slow(batches, clock), clock=clock)
    made.run()
    tokens = [sum(int((side != PAD).sum()) for side in (batch.source, batch.target)) for batch in batches]
    assert [event["tokens_per_second"] for event in events(made, "update")] == pytest.approx(
        [sum(tokens[:3]) / 3, sum(tokens[3:6]) / 3]
    )
    assert [event["took"] for event in events(made, "validation")] == [50.0] * 3
    assert [event["seconds"] for event in events(made, "update")] == [53.0, 106.0]


def test_the_log_tells_the_loss_of_what_was_learned_from(trainer: Make, batches: list[Batch]) -> None:
    made = trainer({"stop": {"updates": 2}, "log_every": 2})
    made.run()
    expected, tokens = 0.0, 0
    weights = iter([copy_weights(trainer({}).model), course(trainer, {"stop": {"updates": 1}})[0]])
    for index, batch in enumerate(batches[:2]):
        other = trainer({})
        other.model.load_state_dict(next(weights), strict=False)
        seed_batch(3, index)
        expected += Objective(other.model, other.config.loss)(*tensors(batch)).item()
        tokens += int((batch.target != PAD).sum())
    (event,) = events(made, "update")
    assert event["loss"] == pytest.approx(expected / tokens, rel=1e-5)
    assert event["rate"] == pytest.approx(0.01 * 2 / 5)
    kinds = [event["event"] for event in made.told]  # type: ignore[attr-defined]
    assert kinds == ["progress", "update", "validating", "validation", "end"]
    assert events(made, "end")[0]["why"] == "all updates are made"


def test_the_first_updates_are_logged_although_the_log_is_sparse(trainer: Make) -> None:
    made = trainer({"stop": {"updates": 60}, "log_every": 50})
    made.run()
    assert [event["update"] for event in events(made, "update")] == [1, 2, 5, 10, 20, 50]


def test_progress_is_reported_from_the_first_update_on_and_twice_a_second(trainer: Make, batches: list[Batch]) -> None:
    clock = Clock()
    made = trainer({"stop": {"updates": 4}, "log_every": 50}, reader=Slow(batches, clock), clock=clock)
    made.run()
    progress = events(made, "progress")
    assert [event["update"] for event in progress] == [1, 2, 3, 4]
    assert {event["last"] for event in progress} == {4}
    assert all(event["loss"] > 0 and event["tokens_per_second"] > 0 for event in progress)
    quick = trainer({"stop": {"updates": 40}}, clock=Clock())
    quick.run()
    assert [event["update"] for event in events(quick, "progress")] == [1]


class Poisoned(Objective):
    """Gives no number for the batches of these numbers, counted as they come."""

    bad: frozenset[int] = frozenset()
    count = 0

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self.count += 1
        return super().forward(source, target) * (torch.nan if self.count in self.bad else 1.0)


def poisoned(made: Trainer, *bad: int) -> Trainer:
    made.gradients.objective = Poisoned(made.model, made.config.loss)
    made.gradients.objective.bad = frozenset(bad)
    return made


def test_an_update_that_was_left_out_is_not_in_the_logs_means(trainer: Make) -> None:
    made = poisoned(trainer({"stop": {"updates": 9}, "log_every": 3}), 2, 4, 5, 6)
    made.run()
    lines = events(made, "update")
    assert [event["update"] for event in lines] == [3, 9]  # from 4 to 6 there was nothing to tell
    assert all(math.isfinite(event[name]) for event in lines for name in ("loss", "gradient", "tokens_per_second"))
    assert [event["update"] for event in events(made, "left out")] == [2, 4, 5, 6]


def test_too_many_bad_updates_in_a_row_end_the_run(trainer: Make) -> None:
    made = poisoned(trainer({"stop": {"updates": 50}, "guard": {"most": 3}}), 2, 3, 4, 6, 7, 8, 9, 10)
    with pytest.raises(ValueError, match=r"4 updates in a row were left out .* lower training\.schedule\.rate"):
        made.run()
    assert made.update == 9


def test_bfloat16_learns_about_the_same(trainer: Make) -> None:
    exact, rough = (trainer({"stop": {"updates": 20}, "precision": name}) for name in ("float32", "bfloat16"))
    for made in (exact, rough):  # batches are filled up in bfloat16, so that other numbers would be dropped
        for module in made.model.modules():
            for rate in {"rate", "dropout"} & vars(module).keys():
                setattr(module, rate, 0.0)
    assert not same(exact.run().weights, rough.run().weights)
    losses = [[event["loss"] for event in events(made, "update")] for made in (exact, rough)]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[0][-1] < 0.9 * losses[0][0]
    assert all(weight.dtype == torch.float32 for weight in rough.model.parameters())


def test_batches_that_cannot_be_shared_evenly_are_refused(trainer: Make) -> None:
    with pytest.raises(ValueError, match=r"make training\.batches_per_update a multiple"):
        trainer({"batches_per_update": 3}, group=Group(0, 2))


def test_snapshots_of_an_earlier_run_are_gone(trainer: Make, tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "update-000000001.safetensors").write_bytes(b"old")
    trainer({"stop": {"updates": 2}, "snapshots": {"every": 2}}).run()
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["update-000000002.safetensors"]


def test_a_parent_is_validated_before_the_first_update_and_kept_if_nothing_is_better(
    trainer: Make,
) -> None:
    losses = iter([1.0, 2.0, 3.0])
    config = {"stop": {"updates": 4, "metric": "loss"}, "validate_every": 2}
    made = trainer(config, validate=lambda _: {"loss": next(losses), "samples": []}, parent="the parent")
    first = copy_weights(made.model)
    outcome = made.run()
    validations = [(event["update"], event["best"]) for event in events(made, "validation")]
    assert validations == [(0, True), (2, False), (4, False)]
    assert (outcome.which, outcome.scores["loss"]) == ("the parent", 1.0)
    assert same(outcome.weights, first)


def test_the_validation_of_a_parent_takes_no_training_time(trainer: Make) -> None:
    now = 100.0

    def validate(_: object) -> dict[str, object]:
        nonlocal now
        now += 50.0
        return {"loss": 1.0, "samples": []}

    config = {"stop": {"updates": 3, "metric": "loss", "time": "20s"}, "validate_every": 3}
    outcome = trainer(config, validate=validate, parent="the parent", clock=lambda: now).run()
    assert (outcome.updates, outcome.seconds) == (3, 0.0)
