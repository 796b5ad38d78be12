"""The training loop: updates, validations, checkpoints and the choice of the best weights."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from dragoman.data.batches import Batch, Reader
from dragoman.data.loader import load_batches
from dragoman.data.order import updates
from dragoman.device import describe_device, is_cpu, is_out_of_memory, peak_memory
from dragoman.io.durable import write_durably
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import PAD
from dragoman.training.allocator import release_free_memory
from dragoman.training.averages import (
    MovingAverage,
    Snapshots,
    Weights,
    average_files,
    copy_to_host_memory,
    copy_weights,
    mix_in,
    set_weights,
)
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.config import CHECKPOINTS, LOWER_IS_BETTER, TrainingConfig
from dragoman.training.gradients import LESS_MEMORY, ExchangeMemoryError, Gradients
from dragoman.training.optimizer import Adam
from dragoman.training.parallel import Group, full_tensor, gather_weights
from dragoman.training.schedule import SchedulePoint, learning_rate
from dragoman.training.signals import SAVE, SignalRequests, Terminated
from dragoman.training.stateful import Stateful
from dragoman.training.time_budget import TimeBudget, checkpoint_interval, is_due
from dragoman.training.update_guard import UpdateGuard

Event = dict[str, Any]
"""A log entry: the key `event` is its type."""

RELEASE_S: Final = 20.0
"""Seconds between releases of free memory. oneDNN compiles kernels for each new batch shape, which fragment the heap;
without releases, memory use grows for hours."""

REPORT_S: Final = 0.5
"""Seconds between `progress` events, which displays show and the log leaves out."""

FIRST_LOGGED: Final = (1, 2, 5, 10, 20)
"""The first updates to log if `log_every` is larger: on a slow machine, the first `log_every` updates take minutes."""

MICROBATCHES: Final = ".microbatches"
"""A file in the run folder: the number of microbatches to start again with after memory ran out in an exchange."""

Validate = Callable[[Seq2Seq[Any, Any]], Mapping[str, Any]]
"""A validation function: every process calls it with the same weights and gets the same scores, by name."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of training: the weights with the best validation, and their scores."""

    weights: Weights
    which: str
    """The name of the weights, such as `update 4,000`."""
    scores: Mapping[str, Any]
    updates: int
    seconds: float
    stop_reason: str
    is_still_improving: bool = False
    """True if the last validation was the best."""


@dataclass
class BestValidation(Stateful):
    """The best validation so far: weights, scores and the number of later validations."""

    weights: Weights
    """The weights that were validated; before the first validation, the initial weights."""
    which: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict)
    since: int = 0
    """The number of validations since the best validation."""
    state_fields = ("weights", "which", "scores", "since")

    def is_beaten_by(self, scores: Mapping[str, Any], metric: str) -> bool:
        """Return True if these scores are better: a lower loss or error rate, or higher BLEU, ties broken by loss."""
        if not self.scores:
            return True
        new, old = scores[metric], self.scores[metric]
        if metric == "loss" or new == old:
            return bool(scores["loss"] < self.scores["loss"])
        return bool(new < old if metric in LOWER_IS_BETTER else new > old)


class Trainer(Stateful):
    """The trainer of a run. Every process of the group creates a trainer with the same arguments."""

    state_fields = ("update", "elapsed", "num_microbatches")

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        reader: Reader,
        config: TrainingConfig,
        validate: Validate,
        folder: Path,
        seed: int = 1,
        group: Group | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
        d_model: int = 512,
        clock: Callable[[], float] = time.monotonic,
        on_step: Callable[[int, str], None] = lambda *_: None,
        parent: str = "",
        parent_share: float = 0.0,
    ) -> None:
        """Create the trainer.

        `parent` names the initial weights if they are trained: they are validated first, and count for `parent_share`
        in all weights that are validated and kept.
        """
        self.group = group or Group()
        if config.batches_per_update % self.group.world_size:
            shared = f"{self.group.world_size} processes cannot share {config.batches_per_update} batches evenly"
            raise ValueError(f"{shared}: make training.batches_per_update a multiple of the number of processes")
        self.full_model, self.reader, self.config, self.validate = model, reader, config, validate
        is_sharded = config.parallel != "ddp" and self.group.world_size > 1
        self.model = deepcopy(model) if is_sharded else model  # validation needs a model with all its weights
        self.on_event, self.d_model, self.clock, self.parent = on_event, d_model, clock, parent
        self.update, self.elapsed, self.begin = 0, 0.0, clock()
        self.gradients = Gradients(self.model, config, self.group, seed)
        self.on_step = on_step
        self.gradients.on_step = lambda doing: on_step(self.update, doing)
        self.device = describe_device(self.gradients.device)
        """The kind of device that computes, and its name."""
        self.num_microbatches = self.gradients.num_microbatches
        """Microbatches per batch in all processes; a process out of memory uses more until the next update."""
        self.optimizer = Adam(self.model, config.optimizer)
        self.average = MovingAverage(self.model, config.ema) if config.ema else None
        self.snapshots = Snapshots(folder / "snapshots", config.snapshots.average)
        self.guard, self.budget = UpdateGuard(config.guard), TimeBudget(config.stop)
        self.best, self.window = BestValidation(copy_to_host_memory(model)), _LogWindow()
        self.parent_share, self.parent_weights = parent_share, copy_to_host_memory(model) if parent_share else {}
        self.recent = _LogWindow()
        """The updates since the last `progress` event."""
        self.saved_at = 0.0
        """The elapsed seconds at the newest checkpoint."""
        self.microbatches_file = folder / MICROBATCHES
        self.requests = SignalRequests(folder / SAVE, self._on_interrupt)
        self.is_save_requested = self.is_end_requested = False
        self.checkpoints = Checkpoints(folder / CHECKPOINTS, config.checkpoints.keep, self.group, self.device)

    def run(self) -> TrainingResult:
        """Train until a stop condition is met; resume from the newest checkpoint if there is one."""
        self.resume()
        own = updates(self.config.batches_per_update, self.group.world_size, self.group.rank, self.update)
        indices = (index for indices in own for index in indices)
        self.model.train()
        loader = closing(load_batches(self.reader, indices, self._num_loader_workers))
        with self.requests.handle(), loader as batches:
            if self.parent and not self.best.scores:
                self._validate_parent()
            while not (reason := self.stop_reason()):
                try:
                    self._step(batches)
                except (RuntimeError, MemoryError) as error:
                    if self.group.world_size > 1 or not is_out_of_memory(error):
                        raise  # several processes start again
                    raise ValueError(f"memory ran out in update {self.update:,}: {LESS_MEMORY}") from error
        self.checkpoints.finish()
        self._report_checkpoints()
        if self.group.is_first:
            self.microbatches_file.unlink(missing_ok=True)
        return self.finish(reason)

    @property
    def _num_loader_workers(self) -> int:
        chosen = self.config.loader_workers
        return int(not is_cpu(self.gradients.device)) if chosen == "auto" else chosen

    @property
    def _components(self) -> dict[str, Stateful]:
        names = ("best", "window", "guard", "budget", "snapshots", *(["average"] if self.average else []))
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """Return the complete training state: live tensors, and values that JSON represents exactly."""
        return {
            "trainer": super().state_dict() | {"precision": self.config.precision},
            "model": {name: weight.detach() for name, weight in self.model.named_parameters()},
            "optimizer": self.optimizer.state_dict(),
            **{name: component.state_dict() for name, component in self._components.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore all values except tensors, which a checkpoint loads in place."""
        super().load_state_dict({name: state["trainer"][name] for name in self.state_fields})
        self.begin, self.saved_at = self.clock() - self.elapsed, self.elapsed
        self.recent = _LogWindow(since=self.elapsed)
        self.gradients.num_microbatches = self.num_microbatches
        for name, component in self._components.items():
            component.load_state_dict(state[name])

    def resume(self) -> None:
        """Load the newest checkpoint, if there is one."""
        manifest, errors = self.checkpoints.newest()
        for error in errors:
            self._emit("damaged", checkpoint=error)
        if manifest is None:
            if self.group.is_first:
                self.snapshots.clear()
            if self.config.pieces == "auto":
                self._try_longest()
        else:
            self.load_state_dict(manifest.state)
            self.checkpoints.load(manifest, self.state_dict())
            now, then = (self.group.world_size, torch.get_num_threads()), (manifest.processes, manifest.threads)
            changes: dict[str, Any] = {} if now == then else {"now": now, "then": then}
            if manifest.device != self.device:
                changes |= {"device": self.device, "device_then": manifest.device}
            self._emit("resumed", last=self.budget.last, **changes)
        self._read_microbatches()

    def _read_microbatches(self) -> None:
        """Use the number of microbatches that a process without memory has left for this start, if it is larger."""
        is_noted = self.group.is_first and self.microbatches_file.exists()
        count = self.group.broadcast_from_first(int(self.microbatches_file.read_text()) if is_noted else 0)
        if count > self.num_microbatches:
            self.num_microbatches = count
            self._set_microbatches(count)

    def _try_longest(self) -> None:
        """Find the number of microbatches with which the longest batch fits into memory, before the first update."""
        self.gradients.try_batch(self.reader.longest())
        self.num_microbatches = max(self.group.all_gather(self.gradients.num_microbatches))
        self._set_microbatches(self.num_microbatches)

    def stop_reason(self) -> str:
        """Return the reason to stop, or an empty string to continue."""
        if self.budget.is_over(self.update, self.elapsed):
            return "all updates are made" if self.update >= self.config.stop.updates else "the time is up"
        if self.config.stop.patience and self.best.since >= self.config.stop.patience:
            return f"{self.best.since} validations brought nothing better"
        return ""

    def _step(self, batches: Iterator[Batch]) -> None:
        """Make one update; then take a snapshot, validate and save a checkpoint, each if due."""
        before = self.elapsed
        self.make_update(batches)
        if self.guard.is_exhausted:
            left_out = f"{self.guard.num_rejected} updates in a row were left out (see log.jsonl)"
            raise ValueError(f"{left_out}: lower training.schedule.rate, or inspect the data with dragoman peek")
        if self.recent.num and (self.update == 1 or self.elapsed - self.recent.since >= REPORT_S):
            self._emit("progress", last=self.budget.last, **self.recent.summary(self.elapsed))
            self.recent = _LogWindow(since=self.elapsed)
        if self.budget.plan(self.update, self.elapsed):
            self._emit("planned", last=self.budget.last)
        if is_cpu(self.gradients.device) and self._is_due(RELEASE_S, before):
            release_free_memory()
        if self._is_due(self.config.snapshots.every, before):
            weights = gather_weights(copy_weights(self.model))
            if self.group.is_first:
                self.snapshots.save(weights, self.update)
        if self.budget.is_over(self.update, self.elapsed) or self._is_due(self.config.validate_every, before):
            with self._validated_weights():
                self._validate(f"update {self.update:,}")
            self._share_requests()
        self._save_checkpoint(before)

    def _is_due(self, every: int | float | None, before: float) -> bool:
        return is_due(every, self.update, self.elapsed, before)

    def _save_checkpoint(self, before: float) -> None:
        """Save a checkpoint if due or requested; raise KeyboardInterrupt or Terminated if stopping was requested."""
        every = self.config.checkpoints.every
        is_last = bool(every) and bool(self.stop_reason())  # what follows, such as scoring, may be killed as well
        if every == "auto":
            interval = checkpoint_interval(self.budget.expected_seconds(self.update, self.elapsed))
            is_due = self.elapsed - self.saved_at >= (interval if self.saved_at else min(60.0, interval))
        else:
            is_due = self._is_due(every, before)
        if self.is_save_requested or is_last or is_due:
            self.on_step(self.update, "saving a checkpoint")
            self.checkpoints.save(self.update, self.state_dict())
            self.saved_at = self.elapsed
        self.checkpoints.poll()
        if self.is_end_requested:
            self.checkpoints.finish()
        saved = self._report_checkpoints()
        if self.is_end_requested:
            raise KeyboardInterrupt if self.requests.is_interrupted else Terminated(self.update, saved)

    def _report_checkpoints(self) -> bool:
        """Emit an event for each finished checkpoint; return True if the last checkpoint was saved."""
        saved = False
        while self.checkpoints.results:
            result = self.checkpoints.results.popleft()
            saved = result.error is None
            self._emit("saved" if saved else "not saved", checkpoint=result.update, reason=result.error)
        return saved

    def make_update(self, batches: Iterator[Batch]) -> None:
        """Make one update, or leave it out if the guard rejects it."""
        self.update += 1
        rate = learning_rate(self.config.schedule, SchedulePoint(self.update, self.budget.last, self.d_model))
        self.optimizer.set_rate(rate)
        self.on_step(self.update, "reading batches")
        own = [next(batches) for _ in range(self.config.batches_per_update // self.group.world_size)]
        try:
            total = self.gradients.of_update(own)
        except ExchangeMemoryError as error:
            write_durably(self.microbatches_file, str(error.num_microbatches).encode())
            raise
        loss, target_tokens, tokens = self.reduce(total, own)
        gradient = self.scale_gradient(target_tokens)
        rejection = self.guard.check(loss / target_tokens, gradient)
        if rejection is None:
            self.optimizer.step()
            if self.average:
                self.average.update(self.model)
            for window in (self.window, self.recent):
                window.add(loss, target_tokens, tokens, gradient)
        else:
            names = self.group.all_gather([str(batch) for batch in own])
            self._emit("left out", reason=rejection, batches=[name for part in names for name in part])
        self.optimizer.zero_grad()
        every = self.config.log_every
        is_logged = self.update % every == 0 or (self.update in FIRST_LOGGED and every > FIRST_LOGGED[-1])
        if is_logged and self.window.num:
            self._emit("update", rate=rate, **self.window.summary(self.elapsed))
            self.window = _LogWindow(since=self.elapsed)

    def reduce(self, total: float, own: list[Batch]) -> tuple[float, float, float]:
        """Return the loss, the target tokens and all tokens of an update, summed over all processes.

        The same all-reduce shares the first process's clock and the signals that any process has received.
        """
        target = float(sum((batch.target != PAD).sum() for batch in own))
        source = float(sum((batch.source != PAD).sum() for batch in own))
        now = self.clock() - self.begin if self.group.is_first else 0.0
        if self.group.is_first:
            self.requests.check_file()
        is_short_of_memory = self.gradients.num_microbatches > self.num_microbatches
        requests = map(float, (self.requests.take_saves(), self.requests.end, is_short_of_memory))
        self.on_step(self.update, "waiting for the others")
        numbers = self.group.all_reduce([total, target, source, now, *requests])
        loss, target, source, self.elapsed, num_saves, num_ends, num_short_of_memory = numbers
        self.is_save_requested, self.is_end_requested = num_saves > 0, num_ends > 0
        if num_short_of_memory:
            self.num_microbatches *= 2
        if num_short_of_memory or self.num_microbatches > self.gradients.num_microbatches:
            self._set_microbatches(max(self.num_microbatches, self.gradients.num_microbatches))
        return loss, target, target + source

    def _share_requests(self) -> None:
        """Share the signals that any process has received during a validation, after which no update may follow."""
        requests = [float(self.requests.take_saves()), float(self.requests.end)]
        num_saves, num_ends = self.group.all_reduce(requests)
        self.is_save_requested |= num_saves > 0
        self.is_end_requested |= num_ends > 0

    def _set_microbatches(self, count: int) -> None:
        self.gradients.num_microbatches = count
        self._emit("pieces", pieces=self.num_microbatches)

    def scale_gradient(self, tokens: float) -> float:
        """Divide the gradient by the number of tokens and clip it; return the norm before clipping."""
        # The processes' sums were averaged, where their sum is meant.
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        torch._foreach_mul_(gradients, self.group.world_size / tokens)
        clip = self.config.optimizer.clip or float("inf")
        return full_tensor(torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip, foreach=True)).item()

    @contextmanager
    def _validated_weights(self) -> Iterator[None]:
        """Put the weights to validate into the full model within the block: the moving average, if it is enabled.

        Those of the parent are mixed in.
        """
        if self.average is None and self.full_model is self.model and not self.parent_share:
            yield
            return
        own = copy_to_host_memory(self.full_model)
        set_weights(self.full_model, gather_weights(self.average.weights if self.average else copy_weights(self.model)))
        self._mix_in_parent()
        try:
            yield
        finally:
            set_weights(self.full_model, own)

    def _validate(self, which: str) -> None:
        self._emit("validating")
        self.on_step(self.update, "validating")
        begin = self.clock()
        scores = self.validate(self.full_model)
        self.model.train()
        if is_best := self.best.is_beaten_by(scores, self.config.stop.metric):
            numbers = {name: score for name, score in scores.items() if isinstance(score, int | float)}
            self.best = BestValidation(copy_to_host_memory(self.full_model), which, numbers)
        else:
            self.best.since += 1
        took = self.group.broadcast_from_first(self.clock() - begin)  # all processes must plan the same last update
        self._emit("validation", which=which, best=is_best, took=took, **scores)
        self.budget.validation_seconds = took
        self.window.skipped += took
        self.recent.skipped += took

    def _mix_in_parent(self) -> None:
        if self.parent_share:
            mix_in(self.full_model, self.parent_weights, self.parent_share)

    def _validate_parent(self) -> None:
        """Validate the initial weights, so that they are kept if no update improves them; no time for training."""
        began = self.clock()
        self._validate(self.parent)
        self.begin += self.clock() - began
        self.window, self.recent = _LogWindow(), _LogWindow()

    def finish(self, reason: str) -> TrainingResult:
        """Validate the average of the snapshots, load the best weights into the model, and return the result."""
        snapshots = self.group.broadcast_from_first(self.snapshots.intact())
        num_damaged = len(self.snapshots.files) - len(snapshots)
        if num_damaged > 0:
            self._emit("damaged", snapshots=num_damaged)
        if len(snapshots) > 1:
            set_weights(self.full_model, average_files(snapshots))
            self._mix_in_parent()
            self._validate(f"the average of {len(snapshots)} snapshots")
        best = self.best
        set_weights(self.full_model, best.weights)
        peak = peak_memory(self.gradients.device)
        self._emit("end", why=reason, kept=best.which, **({} if peak is None else {"peak_memory": peak}))
        return TrainingResult(best.weights, best.which, best.scores, self.update, self.elapsed, reason, best.since == 0)

    def _on_interrupt(self) -> None:
        """Emit an event in a thread: the signal may have come in the middle of another event."""
        threading.Thread(target=self._emit, args=("stopping",)).start()

    def _emit(self, event: str, **fields: Any) -> None:
        if self.group.is_first:
            self.on_event({"event": event, "update": self.update, "seconds": round(self.elapsed, 3), **fields})


@dataclass
class _LogWindow(Stateful):
    """Sums over the updates since the last `update` event."""

    since: float = 0.0
    """The elapsed seconds at the last `update` event."""
    skipped: float = 0.0
    """The seconds spent on validation since then."""
    loss: float = 0.0
    target_tokens: float = 0.0
    tokens: float = 0.0
    gradient: float = 0.0
    num: int = 0
    state_fields = ("since", "skipped", "loss", "target_tokens", "tokens", "gradient", "num")

    def add(self, loss: float, target_tokens: float, tokens: float, gradient: float) -> None:
        self.loss, self.target_tokens = self.loss + loss, self.target_tokens + target_tokens
        self.tokens, self.gradient, self.num = self.tokens + tokens, self.gradient + gradient, self.num + 1

    def summary(self, elapsed: float) -> dict[str, float]:
        took = max(1e-9, elapsed - self.since - self.skipped)
        means = {"loss": self.loss / self.target_tokens, "gradient": self.gradient / self.num}
        return means | {"tokens_per_second": self.tokens / took}
