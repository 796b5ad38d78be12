"""The training loop: updates, validations, and the weights to keep. Validation comes in as a callable."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.data.batches import Batch, Reader
from dragoman.data.loader import Loader
from dragoman.data.order import updates
from dragoman.data.vocab import PAD
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.allocator import give_back_memory
from dragoman.training.average import MovingAverage, copied, put
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.config import CHECKPOINTS, TrainingConfig
from dragoman.training.gradients import Gradients
from dragoman.training.guard import Guard
from dragoman.training.optimizer import adam, set_rate
from dragoman.training.pace import Pace, is_due
from dragoman.training.parallel import Group, full, whole
from dragoman.training.schedule import Place, rate
from dragoman.training.snapshots import Snapshots, mean
from dragoman.training.state import numbers, restore, tensors
from dragoman.training.watchdog import Watchdog
from dragoman.training.wishes import SAVE, Agreed, Terminated, Wishes, heard

Event = dict[str, Any]
"""Something that happened, as it goes into the log: `event` says what."""

GIVE_BACK_S: Final = 20.0
"""How often memory that lies free is given back. oneDNN compiles products for every new shape of batch and forgets
those that were not used for long; what it keeps lies scattered, and the holes between grow for hours."""

Validate = Callable[[Seq2Seq[Any, Any]], Mapping[str, Any]]
"""Every process calls it, with the same weights; each gets the same scores, by name."""


@dataclass(frozen=True)
class Outcome:
    """The weights that training ends with: those with the best validation."""

    weights: Mapping[str, Tensor]
    which: str
    """In words: `best, after update 4,000`."""
    scores: Mapping[str, Any]
    updates: int
    seconds: float
    why: str
    """Why it stopped."""


@dataclass
class Best:
    """The best validation so far."""

    which: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    since: int = 0
    """Validations since then."""

    def beaten_by(self, scores: Mapping[str, Any], metric: str) -> bool:
        """A loss is better when it is lower, anything else when it is higher; of equals, that with the lower loss."""
        if not self.scores:
            return True
        new, old = scores[metric], self.scores[metric]
        if metric == "loss" or new == old:
            return bool(scores["loss"] < self.scores["loss"])
        return bool(new > old)


class Trainer:
    """One run. Every process of the group makes one, with the same arguments."""

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        reader: Reader,
        config: TrainingConfig,
        validate: Validate,
        folder: Path,
        seed: int = 1,
        group: Group | None = None,
        tell: Callable[[Event], None] = lambda _: None,
        num_workers: int = 0,
        d_model: int = 512,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group = group or Group()
        if config.batches_per_update % self.group.size:
            raise ValueError(
                f"batches_per_update {config.batches_per_update} cannot be shared by {self.group.size} processes: "
                "make it a multiple of their number"
            )
        self.plain, self.reader, self.config, self.validate, self.tell = model, reader, config, validate, tell
        is_shared_out = config.parallel == "fsdp" and self.group.size > 1
        self.model = deepcopy(model) if is_shared_out else model  # validated is a model that is whole
        self.num_workers, self.d_model, self.clock = num_workers, d_model, clock
        self.gradients = Gradients(self.model, config, self.group, seed)
        self.optimizer = adam(self.model, config.optimizer)
        self.moving = MovingAverage(self.model, config.ema) if config.ema else None
        self.snapshots = Snapshots(folder / "snapshots", config.snapshots.average)
        self.guard, self.pace, self.best = Guard(config.guard), Pace(config.stop), Best()
        self.update, self.elapsed, self.begin = 0, 0.0, clock()
        self.recent = _Recent()
        self.wishes, self.agreed = Wishes(folder / SAVE), Agreed(pieces=self.gradients.pieces)
        self.checkpoints = Checkpoints(folder / CHECKPOINTS, config.checkpoints.keep, self.group)
        self.watchdog = Watchdog(folder, self.group)

    def run(self) -> Outcome:
        """Train until it is enough, from the newest checkpoint on if there is one."""
        self._resume()
        share = updates(self.config.batches_per_update, self.group.size, self.group.rank, self.update)
        indices = (index for indices in share for index in indices)
        self.model.train()
        with heard(self.wishes), self.watchdog, Loader(self.reader, indices, self.num_workers) as batches:
            while not (why := self._enough()):
                self._next(batches)
        self.checkpoints.finish()
        self._tell_news()
        return self._end(why)

    def _resume(self) -> None:
        saved, wrong = self.checkpoints.newest()
        for told in wrong:
            self._say("damaged", checkpoint=told)
        if saved is None:
            if self.group.is_first:
                self.snapshots.clear()
            if self.config.pieces == "auto":
                self._try_longest()
            return
        restore(self, saved.numbers)
        self.checkpoints.load(saved, tensors(self))
        now, then = (self.group.size, torch.get_num_threads()), (saved.processes, saved.threads)
        self._say("resumed", last=self.pace.last, **({} if now == then else {"now": now, "then": then}))

    def _try_longest(self) -> None:
        """See before the first update whether memory is enough for the batch that takes most of it."""
        self.gradients.try_out(self.reader.longest())
        self.agreed = replace(self.agreed, pieces=max(self.group.gathered(self.gradients.pieces)))
        self._cut_into(self.agreed.pieces)

    def _enough(self) -> str:
        """Why there is no further update; empty if there is one."""
        if self.pace.is_over(self.update, self.elapsed):
            return "all updates are made" if self.update >= self.config.stop.updates else "the time is up"
        if self.config.stop.patience and self.best.since >= self.config.stop.patience:
            return f"{self.best.since} validations brought nothing better"
        return ""

    def _next(self, batches: Iterator[Batch]) -> None:
        """One update and what follows from it."""
        before = self.elapsed
        self._make(batches)
        if self.guard.enough:
            raise ValueError(
                f"{self.guard.in_a_row} updates in a row were left out (see log.jsonl): lower training.schedule.rate, "
                "or look at the data with dragoman peek"
            )
        if self.pace.plan(self.update, self.elapsed):
            self._say("planned", last=self.pace.last)
        self.watchdog.beat(self.update, 3)
        if is_due(GIVE_BACK_S, self.update, self.elapsed, before):
            give_back_memory()
        over = self.pace.is_over(self.update, self.elapsed)
        if is_due(self.config.snapshots.every, self.update, self.elapsed, before):
            weights = whole(copied(self.model))
            if self.group.is_first:
                self.snapshots.save(weights, self.update)
        if over or is_due(self.config.validate_every, self.update, self.elapsed, before):
            with self._averaged():
                self._validated(f"update {self.update:,}")
        self._keep_safe(before)

    def _keep_safe(self, before: float) -> None:
        """Save the state if it is time to, or if it was asked for; and end, if that was."""
        every = self.config.checkpoints.every
        ends = bool(every) and bool(self._enough())  # what follows, such as scoring, may be killed as well
        if self.agreed.save or ends or is_due(every, self.update, self.elapsed, before):
            self.checkpoints.save(tensors(self), numbers(self))
        self.checkpoints.look()
        if self.agreed.end:
            self.checkpoints.finish()
        saved = self._tell_news()
        if self.agreed.end:
            raise Terminated(self.update, saved)

    def _tell_news(self) -> bool:
        """Say what became of checkpoints; whether the last of them is safe."""
        good = False
        while self.checkpoints.news:
            news = self.checkpoints.news.popleft()
            good = news.problem is None
            self._say("saved" if good else "not saved", checkpoint=news.update, reason=news.problem)
        return good

    def _make(self, batches: Iterator[Batch]) -> None:
        """Make one update, or leave it out."""
        self.update += 1
        learning_rate = rate(self.config.schedule, Place(self.update, self.pace.last, self.d_model))
        set_rate(self.optimizer, learning_rate)
        self.watchdog.beat(self.update, 0)
        share = [next(batches) for _ in range(self.config.batches_per_update // self.group.size)]
        self.watchdog.beat(self.update, 1)
        total = self.gradients.of(share)
        self.watchdog.beat(self.update, 2)
        loss, tokens, read = self._sums(total, share)
        gradient = self._scaled(tokens)
        objection = self.guard.objection(loss / tokens, gradient)
        if objection is None:
            self.optimizer.step()
            if self.moving:
                self.moving.update(self.model)
            self.recent.add(loss, tokens, read, gradient)
        else:
            named = self.group.gathered([str(batch) for batch in share])
            self._say("left out", reason=objection, batches=[name for part in named for name in part])
        self.optimizer.zero_grad()
        if self.update % self.config.log_every == 0 and self.recent.num:
            self._say("update", rate=learning_rate, **self.recent.summary(self.elapsed))
            self.recent = _Recent(since=self.elapsed)

    def _sums(self, total: float, share: list[Batch]) -> tuple[float, float, float]:
        """Loss, target tokens and all tokens of the update; and the first process's clock becomes everyone's.

        What one process was asked for, or needs, becomes known to all with the same sum.
        """
        written = float(sum((batch.target != PAD).sum() for batch in share))
        read = float(sum((batch.source != PAD).sum() for batch in share))
        now = self.clock() - self.begin if self.group.is_first else 0.0
        if self.group.is_first:
            self.wishes.look()
        mine = [
            float(self.wishes.new_saves()),
            float(self.wishes.end),
            float(self.gradients.pieces > self.agreed.pieces),
        ]
        loss, tokens, others, self.elapsed, *asked = self.group.sums([total, written, read, now, *mine])
        self.agreed = self.agreed.after(*asked)
        if self.agreed.pieces > self.gradients.pieces or asked[2]:
            self._cut_into(max(self.agreed.pieces, self.gradients.pieces))
        return loss, tokens, tokens + others

    def _cut_into(self, pieces: int) -> None:
        self.gradients.pieces = pieces
        self._say("pieces", pieces=self.agreed.pieces)

    def _scaled(self, tokens: float) -> float:
        """Make the gradient that of the loss per token, clip it, and say how long it was before."""
        weights = [weight for weight in self.model.parameters() if weight.grad is not None]
        # The processes' sums were averaged, where their sum is meant.
        torch._foreach_mul_([weight.grad for weight in weights if weight.grad is not None], self.group.size / tokens)
        clip = self.config.optimizer.clip
        return full(torch.nn.utils.clip_grad_norm_(weights, clip or float("inf"), foreach=True)).item()

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Within it, the plain model has the weights to be validated: those of the moving average, if there is one."""
        if self.moving is None and self.plain is self.model:
            yield
            return
        own = copied(self.plain)
        put(whole(self.moving.weights if self.moving else copied(self.model)), self.plain)
        try:
            yield
        finally:
            put(own, self.plain)

    def _validated(self, which: str) -> None:
        begin = self.clock()
        scores = self.validate(self.plain)
        self.model.train()
        if better := self.best.beaten_by(scores, self.config.stop.metric):
            self.best = Best(which, scores, copied(self.plain))
        else:
            self.best.since += 1
        took = self.clock() - begin
        self._say("validation", which=which, best=better, took=took, **scores)
        self.recent.skipped += took

    def _end(self, why: str) -> Outcome:
        """Try the average of the snapshots as well, and keep what validates best."""
        snapshots = self.group.said_by_first(self.snapshots.intact())
        lost = len(self.snapshots.written) - len(snapshots)
        if lost > 0:
            self._say("damaged", snapshots=lost)
        if len(snapshots) > 1:
            put(mean(snapshots), self.plain)
            self._validated(f"the average of {len(snapshots)} snapshots")
        put(self.best.weights, self.plain)
        self._say("end", why=why, kept=self.best.which)
        return Outcome(self.best.weights, self.best.which, self.best.scores, self.update, self.elapsed, why)

    def _say(self, event: str, **fields: Any) -> None:
        if self.group.is_first:
            self.tell({"event": event, "update": self.update, "seconds": round(self.elapsed, 3), **fields})


@dataclass
class _Recent:
    """Sums over the updates made since the last line of the log."""

    since: float = 0.0
    """When that was."""
    skipped: float = 0.0
    """Seconds that were not training."""
    loss: float = 0.0
    tokens: float = 0.0
    read: float = 0.0
    gradient: float = 0.0
    num: int = 0

    def add(self, loss: float, tokens: float, read: float, gradient: float) -> None:
        self.loss, self.tokens, self.read = self.loss + loss, self.tokens + tokens, self.read + read
        self.gradient, self.num = self.gradient + gradient, self.num + 1

    def summary(self, elapsed: float) -> dict[str, float]:
        took = max(1e-9, elapsed - self.since - self.skipped)
        return {
            "loss": self.loss / self.tokens,
            "gradient": self.gradient / self.num,
            "tokens_per_second": self.read / took,
        }
