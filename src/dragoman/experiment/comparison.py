"""The comparison at the end of a run that began with a trained model: BLEU before and after. Does not import torch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.metrics import compare
from dragoman.experiment.held_out import TextPairs
from dragoman.experiment.log import Event
from dragoman.experiment.parent import KEPT
from dragoman.recipes.recipe import InitSection

_UNRELATED: Final = 2.0
"""A BLEU of the parent on old text below which the two sides are hardly translations of each other."""


@dataclass(frozen=True)
class ComparedScore:
    """BLEU on a test set before and after training."""

    test_set: str
    num_pairs: int
    before: float
    after: float
    p_value: float | None
    """The p-value of a paired bootstrap; None if both translations are equal."""


def compare_scores(
    test_sets: Sequence[TextPairs],
    before: Sequence[Sequence[str]],
    after: Sequence[Sequence[str]],
    reading: MetricOptions,
) -> list[ComparedScore]:
    """Return BLEU before and after for each test set, with the p-value of a paired bootstrap (Koehn, 2004)."""
    rows = []
    for pairs, old, new in zip(test_sets, before, after, strict=True):
        (first,), (second,) = compare([old, new], [pairs.target], ["bleu"], reading)
        p_value = None if first.value == second.value else second.p_value
        rows.append(ComparedScore(pairs.name, len(pairs), first.value, second.value, p_value))
    return rows


def describe_comparison(rows: Sequence[ComparedScore]) -> str:
    """Return the comparison as a sentence for the model card."""
    parts = [f"{row.before:.1f} and {row.after:.1f} on {row.test_set}{_p_value(row)}" for row in rows]
    return f"BLEU of the parent and of this model: {'; '.join(parts)}."


def _p_value(row: ComparedScore) -> str:
    return "" if row.p_value is None else f" (p = {row.p_value:.3f})"


def comparison_event(rows: Sequence[ComparedScore], init: InitSection, is_parent_kept: bool) -> Event:
    """Return the `comparison` event: a row for each test set, and notes about how to read them."""
    notes = []
    if is_parent_kept:
        notes.append("no validation was better than that of the parent: the model has the parent's weights")
    if init.keep is None:
        advice = "--keep OLD.SOURCE OLD.TARGET, or --keep-source TEXT, mixes in old text and measures it"
        notes.append(f"without old text, other sentences are likely to be translated worse than before: {advice}")
    elif init.keep.target is None:
        notes.append(f"the references of {KEPT} are the parent's own translations: a high BLEU means few changes")
    elif low := [row.before for row in rows if row.test_set == KEPT and row.before < _UNRELATED]:
        check = "check that --keep names the source first, in the languages of the model"
        notes.append(f"the parent translates the old text with a BLEU of only {low[0]:.1f}: {check}")
    return {"event": "comparison", "rows": [asdict(row) for row in rows], "notes": notes}
