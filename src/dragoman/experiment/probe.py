"""The probe: a few validation pairs, traced at the beginning and at each validation, to show how attention develops.

The target is the reference (teacher forcing), so that snapshots are comparable: the model's own translations change
between snapshots. `dragoman evolve` draws the snapshots.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.experiment.held_out import TextPairs
from dragoman.experiment.validator import lengths
from dragoman.inspection.evolution import PROBE, ProbeSnapshot, save_snapshot
from dragoman.inspection.inspector import Inspector
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import Vocab
from dragoman.training.trainer import Event

LONGEST: Final = 64
"""The maximum tokens per side: attention maps of longer pairs would be too large to read."""


class Probe:
    """A training callback that traces a few sentence pairs with the validated weights."""

    def __init__(self, sets: Sequence[TextPairs], vocab: Vocab, model: Seq2Seq[Any, Any], run: Path) -> None:
        self.inspector = Inspector(model, vocab)
        inspectors = [(Inspector(model, vocab.to(pairs.language)), pairs) for pairs in sets]
        self.tokens = [
            (inspector.tokenize_source(source), inspector.tokenize_target(target))
            for inspector, pairs in inspectors
            for source, target in zip(pairs.source, pairs.target, strict=True)
        ]
        self.run = run

    def __call__(self, event: Event) -> None:
        """Save a snapshot at each validation and at the beginning, where snapshots of an earlier run are removed."""
        if event["event"] == "begin":
            shutil.rmtree(self.run / PROBE, ignore_errors=True)
            self._save(ProbeSnapshot(update=0, which="before the first update"))
        elif event["event"] == "validation":
            is_average = event["which"] != f"update {event['update']:,}"
            fields = {name: event[name] for name in ("update", "which", "best", "loss", "bleu", "chrf")}
            self._save(ProbeSnapshot(is_average=is_average, **fields))

    def _save(self, snapshot: ProbeSnapshot) -> None:
        if not self.tokens:
            return
        model = self.inspector.model
        was_training = model.training
        model.eval()
        captured = [self.inspector.capture(read, forced, alternatives=1) for read, forced in self.tokens]
        save_snapshot(snapshot, [replace(trace, norms={}) for trace in captured], self.run)
        model.train(was_training)


def choose_pairs(pairs: TextPairs, vocab: Vocab, count: int, longest: int | None) -> TextPairs:
    """Return `count` pairs, spread over the corpus, each with a length near the median.

    Pairs with an empty side and pairs that are too long for a picture or for the model are skipped.
    """
    shorter, longer = np.sort(lengths(pairs, vocab), axis=0)
    # What is left of an empty side is its EOS.
    fitting = np.flatnonzero((shorter > 1) & (longer <= min(LONGEST, longest or LONGEST)))
    count = min(count, len(fitting))
    if not count:
        return pairs.first(0)
    far = np.abs(longer - np.median(longer[fitting]))
    rows = [int(part[far[part].argmin()]) for part in np.array_split(fitting, count)]
    return pairs.select(rows)
