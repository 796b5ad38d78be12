"""`dragoman align --search`: the ranking of all heads, what it is worth, and the winner kept in the model."""

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final, get_args

from dragoman.bundle.writing import store_alignment_heads
from dragoman.cli.align_head import as_options, said
from dragoman.cli.align_links import Heads, Work
from dragoman.cli.progress import shown
from dragoman.data.alignment import AlignmentHead, Measure, Rows
from dragoman.data.moses import Gold
from dragoman.inspection.aer_grid import AlignmentGrid
from dragoman.inspection.aligner import attentions
from dragoman.inspection.aligner_search import (
    Agreeing,
    Direction,
    by_agreement,
    by_gold,
    diagonal_share,
    held_out,
    ranked,
)

SHOWN: Final = 10
NAMED: Final = 3
"""So many heads that are as good as the best are named."""
ENOUGH: Final = 50
"""Of fewer pairs, many heads are equally right by chance."""


def searched(work: Work, picture: Path | None, gold_name: str) -> Heads:
    """The best heads, after the ranking has been printed."""
    if not any(direction.whole for direction in work.directions):
        raise ValueError("no pair has words on both sides: there is nothing to search by")
    return _by_gold(work, work.gold, picture, gold_name) if work.gold is not None else _by_agreement(work)


def store(work: Work, heads: Heads) -> None:
    """Each head in its own model; a direction without one keeps what it has."""
    for bundle, own in zip(work.bundles, heads, strict=True):
        if own:
            stored = store_alignment_heads(bundle.folder, own)
            print(f"stored in {stored.folder}, whose hash is now {stored.sha256[:12]}", file=sys.stderr)


def _by_gold(work: Work, gold: Sequence[Gold], picture: Path | None, gold_name: str) -> Heads:
    with shown() as progress:
        sides = [gold, [one.swapped() for one in gold]]
        grids = [by_gold(*side, progress) for side in zip(work.directions, sides, strict=False)]
    for bundle, direction, found in zip(work.bundles, work.directions, grids, strict=True):
        print(f"{bundle.folder}\n\n{_of_grid(direction, found)}")
    if picture is not None:
        about = f"Gold: {Path(gold_name).name}, {len(gold):,} pairs; model {work.bundles[0].sha256[:12]}."
        _draw(grids[0], picture, about)
    return [(found.best(),) for found in grids]


def _of_grid(direction: Direction, found: AlignmentGrid) -> str:
    names = attentions(direction.inspector.model)
    best, num_pairs = found.best(), len(direction.whole)
    rows = sorted(found.scores.items(), key=lambda item: item[1].aer)[:SHOWN]
    table = ["layer  head  rows     measure      AER  95 % interval  precision  recall"]
    for head, score in rows:
        low, high = score.interval()
        interval = f"[{100 * low:.1f}, {100 * high:.1f}]"
        table.append(
            f"{_short(head, names)}  {100 * score.aer:5.1f}  {interval:>13}  {100 * score.precision:9.1f}  "
            f"{100 * score.recall:6.1f}"
        )
    half = (
        f"Chosen on one half of them and scored on the other, both ways: AER {100 * held_out(found):.1f}."
        if num_pairs > 1
        else "One pair is an anecdote."
    )
    return "\n".join(
        [
            *table,
            "",
            f"Best of {len(found.scores)}: {said(best)}.",
            *_ties([said(head) for head, score in found.scores.items() if score.aer == found.scores[best].aer][1:]),
            *_few(num_pairs),
            f"It was chosen on these {num_pairs:,} pairs, and the best of many looks better than it is.",
            half,
            "Report it on other pairs. To align by it:",
            f"  {as_options(best, names)}",
            "",
        ]
    )


def _by_agreement(work: Work) -> Heads:
    forward, backward = work.directions
    with shown() as progress:
        found = ranked(by_agreement(forward, backward, progress))
        near = diagonal_share(forward, found[0].forward, progress)
    print(_of_agreement(work, found, near))
    return [(found[0].forward,), (found[0].backward,)]


def _of_agreement(work: Work, found: list[Agreeing], near: float) -> str:
    there, back = (attentions(direction.inspector.model) for direction in work.directions)
    table = [f"{'forward':35}{'backward':35}agree", f"{_HEAD}    {_HEAD}"]
    for pair in found[:SHOWN]:
        table.append(f"{_both(pair, there, back)}    {100 * pair.share:5.1f}")
    best, num_pairs = found[0], len(work.directions[0].whole)
    return "\n".join(
        [
            *table,
            "",
            f"Best of {len(found):,} pairs of heads:",
            f"  forward   {said(best.forward)}",
            f"  backward  {said(best.backward)}",
            *_ties([_both(one, there, back) for one in found if one.share == best.share][1:]),
            *_few(num_pairs),
            f"They were chosen on these {num_pairs:,} pairs of lines, and the best of many looks better",
            "than it is. Nobody said what is right: heads can agree and be wrong, as those",
            f"do that follow the diagonal; {100 * near:.0f} % of the forward links lie on it.",
            "To align by the forward one:",
            f"  {as_options(best.forward, there)}",
            "",
        ]
    )


def _ties(others: list[str]) -> list[str]:
    """Those that are as good as the best, which is the first of them and no more."""
    if not others:
        return []
    more = f"  and {len(others) - NAMED} more"
    named = [f"  {other}" for other in others[:NAMED]] + [more] * (len(others) > NAMED)
    return ["These are as good, and the first was taken; other pairs may tell them apart:", *named]


def _few(num_pairs: int) -> list[str]:
    if num_pairs >= ENOUGH:
        return []
    counted = f"{num_pairs} pair{'s' * (num_pairs > 1)}"
    return [f"Warning: {counted} can hardly tell heads apart: search with {ENOUGH} or more."]


_HEAD: Final = "layer  head  rows     measure  "


def _short(head: AlignmentHead, names: list[str]) -> str:
    which = "mean" if head.head is None else str(head.head)
    return f"{names.index(head.layer):5}  {which:>4}  {head.rows:7}  {head.measure:9}"


def _both(pair: Agreeing, there: list[str], back: list[str]) -> str:
    return f"{_short(pair.forward, there)}    {_short(pair.backward, back)}"


def _draw(found: AlignmentGrid, path: Path, text: str) -> None:
    """One panel for each row convention and measure."""
    from matplotlib.figure import Figure

    from dragoman.inspection.plots import aer_grid, save

    panels = list(product(get_args(Rows), get_args(Measure)))
    num_layers, num_columns = found.panel(*panels[0])[1].shape
    size = (2 * max(4.8, 0.6 * num_columns + 1.6), 2 * max(2.4, 0.42 * num_layers + 1.6))
    axes = Figure(figsize=size, layout="constrained").subplots(2, 2)
    for ax, (rows, measure) in zip(axes.flat, panels, strict=True):
        aer_grid(found, rows, measure, ax, text=text)
    save(axes[0, 0], path)
