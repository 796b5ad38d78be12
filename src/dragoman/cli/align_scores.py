"""The scores that `dragoman align --gold` prints. This module does not import torch."""

import sys
from collections.abc import Sequence

from dragoman.alignment.error_rate import alignment_score, diagonal_score
from dragoman.alignment.links import Links
from dragoman.alignment.moses import Gold


def print_scores(
    links: dict[str, list[Links]], gold: Sequence[Gold], sources: Sequence[str], targets: Sequence[str]
) -> None:
    """Print AER, precision and recall of each kind of links on standard error."""
    scores = {name: alignment_score(of_pairs, gold) for name, of_pairs in links.items()}
    for name, score in {"diagonal": diagonal_score(sources, targets, gold), **scores}.items():
        low, high = score.interval()
        rates = f"precision {100 * score.precision:5.1f}  recall {100 * score.recall:5.1f}"
        print(f"{name:20}AER {100 * score.aer:5.1f} [{100 * low:.1f}, {100 * high:.1f}]  {rates}", file=sys.stderr)
    print(f"in percent, 95 % intervals, {len(gold):,} pairs; diagonal uses no model", file=sys.stderr)
