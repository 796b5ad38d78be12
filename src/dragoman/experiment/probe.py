"""The probe: a few dev pairs, traced before the first update and at each validation, to see attention come to be.

The target is the reference (teacher forcing), so that moments can be compared: what a model writes by itself changes
from one to the next. `dragoman evolve` draws what is kept here.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.data.vocab import Vocab
from dragoman.experiment.validator import Pairs, lengths
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.moments import PROBE, Moment, save_moment
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.trainer import Event

LONGEST: Final = 64
"""Of tokens on either side: a map grows with their square, and a longer one could not be read."""


class Probe:
    """Listens to a training: whenever a validation is told, it traces with the weights that were validated."""

    def __init__(self, pairs: Pairs, vocab: Vocab, model: Seq2Seq[Any, Any], run: Path) -> None:
        self.inspector = Inspector(model, vocab)
        self.tokens = [
            (self.inspector.read(source), self.inspector.forced(target))
            for source, target in zip(pairs.source, pairs.target, strict=True)
        ]
        self.run = run

    def __call__(self, event: Event) -> None:
        """What was traced for an earlier training in the same folder goes when this one begins."""
        if event["event"] == "begin":
            shutil.rmtree(self.run / PROBE, ignore_errors=True)
            self._keep(Moment(update=0, which="before the first update"))
        elif event["event"] == "validation":
            self._keep(_moment(event))

    def _keep(self, moment: Moment) -> None:
        if not self.tokens:
            return
        model = self.inspector.model
        was_training = model.training
        model.eval()
        captured = [self.inspector.capture(read, forced, alternatives=1) for read, forced in self.tokens]
        save_moment(moment, [replace(trace, norms={}) for trace in captured], self.run)
        model.train(was_training)


def chosen(pairs: Pairs, vocab: Vocab, count: int, longest: int | None) -> Pairs:
    """So many pairs, spread over all there are: of each stretch the one nearest to the median length.

    Pairs with nothing on one side have no part in it, nor have those that are too long for a picture or the model.
    """
    shorter, longer = np.sort(lengths(pairs, vocab), axis=0)
    # What is left of an empty side is its EOS.
    fitting = np.flatnonzero((shorter > 1) & (longer <= min(LONGEST, longest or LONGEST)))
    count = min(count, len(fitting))
    if not count:
        return pairs.first(0)
    far = np.abs(longer - np.median(longer[fitting]))
    rows = [int(stretch[far[stretch].argmin()]) for stretch in np.array_split(fitting, count)]
    return Pairs(pairs.name, [pairs.source[row] for row in rows], [pairs.target[row] for row in rows])


def _moment(event: Event) -> Moment:
    return Moment(
        update=event["update"],
        which=event["which"],
        is_average=event["which"] != f"update {event['update']:,}",
        best=event["best"],
        loss=event["loss"],
        bleu=event["bleu"],
        chrf=event["chrf"],
    )
