"""Implementation of `dragoman align MODEL`: align in one or both directions, and rank all heads."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final, get_args

from dragoman.alignment.aligner import Aligner, require_short_lines
from dragoman.alignment.head_names import describe_head
from dragoman.alignment.links import Links, swap
from dragoman.alignment.moses import Gold
from dragoman.alignment.symmetrise import Symmetrisation, symmetrise_all
from dragoman.alignment.words import filled_pairs
from dragoman.attention.tap import cross_attentions
from dragoman.bundle import Bundle
from dragoman.bundle.alignment_head import AlignmentHead, Measure, Rows
from dragoman.bundle.writing import store_alignment_heads
from dragoman.cli.progress import show_progress
from dragoman.cli.verbosity import print_note
from dragoman.inspection.head_ranking import ENOUGH, HeadRanking, rank_heads
from dragoman.inspection.head_search import AlignmentGrid, HeadAgreement, diagonal_share, rank_agreement, score_heads
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.trace import Trace
from dragoman.io.progress import Progress

Heads = list[tuple[AlignmentHead, ...]]
"""Alignment heads of each direction; an empty tuple means the model's stored heads or, without any, the guess."""

RANKED: Final = 10
"""Number of heads, or pairs of heads, that a ranking shows."""
NAMED: Final = 3
"""Number of heads listed as tied with the best head."""
_COLUMNS: Final = "layer  head  rows     measure  "


class AlignRun:
    """A run of `dragoman align`: one or two models, and the sentence pairs to align.

    The second model, from --reverse, translates from target to source.
    """

    def __init__(self, bundles: list[Bundle], sources: list[str], targets: list[str], gold: list[Gold] | None) -> None:
        self.bundles, self.gold = bundles, gold
        self.pairs = [(sources, targets), (targets, sources)][: len(bundles)]
        self.inspectors = [Inspector.of(bundle) for bundle in bundles]
        self.names = [cross_attentions(inspector.model) for inspector in self.inspectors]
        for inspector, pair in zip(self.inspectors, self.pairs, strict=True):
            require_short_lines(inspector.model, inspector.vocab, *pair)

    def links(self, heads: Heads, method: Symmetrisation) -> dict[str, list[Links]]:
        """Return the links of all sentence pairs by name: `model`, or `forward`, `backward` and the symmetrised links.

        The last entry is the result. Each link is a pair of indices: source word, target word.
        """
        with show_progress() as progress:
            by_direction = []
            for bundle, inspector, of_model, pair in zip(self.bundles, self.inspectors, heads, self.pairs, strict=True):
                aligner = Aligner(inspector.model, inspector.vocab, of_model or bundle.info.alignment_heads)
                warn_of_guess(aligner, str(bundle.folder))
                by_direction.append(aligner.links(*pair, progress))
        if len(by_direction) == 1:
            return {"model": by_direction[0]}
        forward, backward = by_direction[0], [swap(links) for links in by_direction[1]]
        return {"forward": forward, "backward": backward, method: symmetrise_all(forward, backward, method)}

    def store(self, heads: Heads) -> None:
        """Store the chosen heads in the models; a model without a chosen head stays unchanged."""
        for bundle, of_model in zip(self.bundles, heads, strict=True):
            if of_model:
                stored = store_alignment_heads(bundle.folder, of_model)
                print_note(f"stored in {stored.folder}, new hash {stored.sha256[:12]}")

    def search_heads(self, picture: Path | None, gold_name: str) -> Heads:
        """Print a ranking of all heads, and return the best head of each direction.

        Heads are ranked by AER on the gold links or, without gold links, by agreement of the two directions. `picture`
        is a file for a plot of the AER.
        """
        filled = filled_pairs(*self.pairs[0])
        if not filled:
            raise ValueError("every sentence pair has an empty side: give text in --source and --target")
        if self.gold is None:
            return self._search_by_agreement(len(filled))
        gold = [self.gold[i] for i in filled]
        with show_progress() as progress:
            traces = self._traces(progress, "search by gold")
            golds = (gold, [links.swapped() for links in gold])
            grids = [score_heads(*of_direction) for of_direction in zip(traces, golds, strict=False)]
        rankings = [rank_heads(grid, names) for grid, names in zip(grids, self.names, strict=True)]
        for bundle, names, ranking in zip(self.bundles, self.names, rankings, strict=True):
            print(f"{bundle.folder}\n\n{_describe_ranking(ranking, names)}")
        if picture is not None:
            text = f"Gold: {gold_name}, {len(self.gold):,} pairs; model {self.bundles[0].sha256[:12]}."
            _draw(grids[0], picture, text)
        return [(ranking.heads[0].head,) for ranking in rankings]

    def _traces(self, progress: Progress, task: str) -> list[Iterator[Trace]]:
        """Return an iterator of traces for each direction; the traces are computed on demand."""
        directions = zip(self.inspectors, self.pairs, strict=True)
        return [inspector.trace_pairs(*pair, progress, task) for inspector, pair in directions]

    def _search_by_agreement(self, num_pairs: int) -> Heads:
        with show_progress() as progress:
            there, back = self._traces(progress, "search by agreement")
            ranking = rank_agreement(there, back)
            near = diagonal_share(self._traces(progress, "compare with the diagonal")[0], ranking[0].forward)
        print(_describe_agreement(ranking, self.names, num_pairs, near))
        return [(ranking[0].forward,), (ranking[0].backward,)]


def warn_of_guess(aligner: Aligner, model: str) -> None:
    """Print a warning on standard error if no alignment head is stored and the aligner uses a guess."""
    if aligner.is_guess:
        guess = f"links come from a guess,\n  {describe_head(aligner.heads[0])};"
        remedy = "dragoman align --search --store finds and stores a better head"
        print_note(f"{model} has no alignment head stored: {guess}\n  {remedy}")


def _describe_ranking(ranking: HeadRanking, names: list[str]) -> str:
    lines = [f"{_COLUMNS}    AER  95 % interval  precision  recall"]
    for each in ranking.heads[:RANKED]:
        interval = f"[{100 * each.low:.1f}, {100 * each.high:.1f}]"
        rates = f"{100 * each.precision:9.1f}  {100 * each.recall:6.1f}"
        lines.append(f"{_cells(each.head, names)}  {100 * each.aer:5.1f}  {interval:>13}  {rates}")
    best, *others = [each.head for each in ranking.tied()]
    lines += ["", f"Best of {len(ranking.heads)}: {describe_head(best)}."]
    lines += _ties([describe_head(head) for head in others])
    lines += _doubts(ranking.num_pairs)
    if ranking.held_out_aer is not None:
        rate = 100 * ranking.held_out_aer
        lines.append(f"Chosen on one half of the pairs and scored on the other, both ways: AER {rate:.1f}.")
    return "\n".join([*lines, "Report AER on other pairs. Align with:", f"  {_as_options(best, names)}", ""])


def _describe_agreement(ranking: list[HeadAgreement], names: list[list[str]], num_pairs: int, near: float) -> str:
    there, back = names

    def cells(pair: HeadAgreement) -> str:
        return f"{_cells(pair.forward, there)}    {_cells(pair.backward, back)}"

    best = ranking[0]
    lines = [f"{'forward':35}{'backward':35}agree", f"{_COLUMNS}    {_COLUMNS}"]
    lines += [f"{cells(pair)}    {100 * pair.share:5.1f}" for pair in ranking[:RANKED]]
    lines += ["", f"Best of {len(ranking):,} pairs of heads:"]
    lines += [f"  forward   {describe_head(best.forward)}", f"  backward  {describe_head(best.backward)}"]
    lines += _ties([cells(pair) for pair in ranking if pair.share == best.share][1:])
    lines += [*_doubts(num_pairs), "Without gold links, heads can agree and be wrong, as heads do that"]
    lines.append(f"follow the diagonal; {100 * near:.0f} % of the forward links lie on the diagonal.")
    return "\n".join([*lines, "To align with the forward head:", f"  {_as_options(best.forward, there)}", ""])


def _ties(others: list[str]) -> list[str]:
    """Return output lines that list the heads with the same score as the best head."""
    if not others:
        return []
    more = f"  and {len(others) - NAMED} more"
    named = [f"  {other}" for other in others[:NAMED]] + [more] * (len(others) > NAMED)
    return ["These heads tie with the best; other pairs may separate them:", *named]


def _doubts(num_pairs: int) -> list[str]:
    few = f"Warning: {num_pairs} pairs are too few to compare heads: search with {ENOUGH} or more."
    chosen = f"Chosen on these {num_pairs:,} pairs: the score of the best of many heads is optimistic."
    return [few, chosen] if num_pairs < ENOUGH else [chosen]


def _cells(head: AlignmentHead, names: list[str]) -> str:
    which = "mean" if head.head is None else str(head.head)
    return f"{names.index(head.layer):5}  {which:>4}  {head.rows:7}  {head.measure:9}"


def _as_options(head: AlignmentHead, names: list[str]) -> str:
    which = "mean" if head.head is None else head.head
    return f"--layer {names.index(head.layer)} --head {which} --rows {head.rows} --measure {head.measure}"


def _draw(grid: AlignmentGrid, path: Path, text: str) -> None:
    """Plot the AER of all heads, in one panel for each combination of --rows and --measure."""
    from matplotlib.figure import Figure

    from dragoman.inspection.plots import aer_grid, save

    panels = list(product(get_args(Rows), get_args(Measure)))
    num_layers, num_columns = grid.panel(*panels[0])[1].shape
    size = (2 * max(4.8, 0.6 * num_columns + 1.6), 2 * max(2.4, 0.42 * num_layers + 1.6))
    axes = Figure(figsize=size, layout="constrained").subplots(2, 2)
    for ax, (rows, measure) in zip(axes.flat, panels, strict=True):
        aer_grid(grid, rows, measure, ax, text=text)
    save(axes[0, 0], path)
