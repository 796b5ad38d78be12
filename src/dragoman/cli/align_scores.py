"""The scores that `dragoman align --gold` prints. This module does not import torch."""

import sys
from collections.abc import Sequence

from dragoman.alignment.error_rate import alignment_score
from dragoman.alignment.links import Links, diagonal
from dragoman.alignment.moses import Gold


def print_scores(
    links: dict[str, list[Links]], gold: Sequence[Gold], sources: Sequence[str], targets: Sequence[str]
) -> None:
    """Print AER, precision and recall of each kind of links on standard error."""
    pairs = zip(sources, targets, strict=True)
    baseline = [diagonal(len(source.split()), len(target.split())) for source, target in pairs]
    for name, of_pairs in {"diagonal": baseline, **links}.items():
        score = alignment_score(of_pairs, gold)
        low, high = score.interval()
        rates = f"precision {100 * score.precision:5.1f}  recall {100 * score.recall:5.1f}"
        print(f"{name:20}AER {100 * score.aer:5.1f} [{100 * low:.1f}, {100 * high:.1f}]  {rates}", file=sys.stderr)
    print(f"in percent, 95 % intervals, {len(gold):,} pairs; diagonal uses no model", file=sys.stderr)
