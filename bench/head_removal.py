"""Measure BLEU as heads are switched off: the least important first, and in random orders.

    python bench/head_removal.py MODEL --dev-source F --dev-target F --source F --reference F [--tokenised]
        [--pairs 200] [--sentences 300] [--step 3] [--seeds 3] [--picture heads.png]

Importance is |dL/dm| of Michel et al. (2019, section 4.1), summed over pairs of the dev set and normalised per layer
as they do: a first-order estimate, which this script tests. The torch engine translates sentences of the test set with
beam 1 and 0, 3, 6, ... heads off. The last line has the share of heads that can be removed while BLEU stays within 1 of
the full model's, by importance and on average over the random orders.
"""

import argparse
import random
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from report import option_parser, print_values
from rich.progress import Progress
from texts import read_lines

from dragoman.attention.tap import Sight, Tap
from dragoman.bundle import open_bundle
from dragoman.decoding.decode_loop import next_log_probabilities
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.inspection.intervene import edit_of
from dragoman.inspection.interventions import HeadsOff
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.translation.translator import Translator

Head = tuple[str, int]


class Removal:
    """One model and one test set."""

    def __init__(self, options: argparse.Namespace) -> None:
        bundle = open_bundle(options.model)
        self.model, self.vocab = load_model(bundle).eval(), bundle.vocab
        self.source, self.reference = (
            read_lines(path)[: options.sentences] for path in (options.source, options.reference)
        )
        self.tokenise = "none" if options.tokenised else "13a"
        search = SearchOptions(beam_size=1)
        self.translator = Translator(TorchEngine(self.model), self.vocab, search)

    def by_importance(self, source: Path, target: Path, pairs: int) -> list[Head]:
        """Return all heads, the least important first."""
        sources = self.vocab.source.encode(read_lines(source)[:pairs])
        targets = self.vocab.target.encode(read_lines(target)[:pairs])
        total: dict[str, torch.Tensor] = {}
        for row, target_row in zip(sources.rows(), targets.rows(), strict=True):
            for name, slope in slopes(self.model, row, target_row).items():
                total[name] = total.get(name, torch.zeros_like(slope)) + slope
        shares = {name: slope / slope.norm().clamp_min(1e-30) for name, slope in total.items()}
        importance = {(name, head): value for name, of_name in shares.items() for head, value in enumerate(of_name)}
        return sorted(importance, key=lambda head: importance[head])

    def bleu(self, off: Sequence[Head]) -> float:
        removed = [
            HeadsOff(where=name, heads=tuple(head for _, head in heads))
            for name, heads in groupby(sorted(off), key=lambda head: head[0])
        ]
        with Tap(self.model, edit_of(self.model, removed)):
            hypotheses = self.translator.translate(self.source)
        return float(sacrebleu.corpus_bleu(hypotheses, [self.reference], tokenize=self.tokenise, force=True).score)


def slopes(model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int]) -> dict[str, torch.Tensor]:
    """Return |dL/dm| of a mask m of 1 on each head's weights, L the pair's -log p."""
    masks: dict[str, torch.Tensor] = {}

    def mask(seen: Sight) -> torch.Tensor:
        if seen.name not in masks:
            masks[seen.name] = seen.weights.new_ones(seen.weights.shape[1], requires_grad=True)
        return seen.weights * masks[seen.name][:, None, None]

    with torch.enable_grad(), Tap(model, edit=mask):
        forced = torch.tensor([target])
        log_probabilities = next_log_probabilities(model(torch.tensor([source]), shifted(forced))[0])
        loss = -log_probabilities.gather(1, forced[0][:, None]).sum()
        gradients = torch.autograd.grad(loss, list(masks.values()))
    return {name: slope.abs().double() for name, slope in zip(masks, gradients, strict=True)}


def removable(curve: dict[int, float], num_heads: int) -> float:
    """Return the largest share of heads whose removal, like that of any smaller share, costs at most 1 BLEU."""
    counts = sorted(curve)
    good = [count for count in counts if all(curve[other] >= curve[0] - 1.0 for other in counts if other <= count)]
    return max(good) / num_heads


def draw(curves: dict[str, dict[int, float]], num_heads: int, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        strong = name == "importance"
        axes.plot(
            [count / num_heads for count in curve],
            list(curve.values()),
            color="black" if strong else "0.6",
            linewidth=2.0 if strong else 1.0,
            marker="o" if strong else None,
            markersize=4,
            label="least important first" if strong else "in random order" if name == "random 0" else None,
        )
    axes.set(xlabel="share of all heads switched off", ylabel="BLEU, beam 1", ylim=(0, None))
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)


def parse() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("model", type=Path)
    for name in ("--dev-source", "--dev-target", "--source", "--reference"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--tokenised", action="store_true", help="the references are tokenised: BLEU must not do it")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of the dev set for the importance")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--picture", type=Path)
    return parser.parse_args()


def main() -> None:
    options = parse()
    removal = Removal(options)
    orders = {"importance": removal.by_importance(options.dev_source, options.dev_target, options.pairs)}
    heads = sorted(orders["importance"])
    for seed in range(options.seeds):
        orders[f"random {seed}"] = random.Random(seed).sample(heads, len(heads))
    counts = [*range(0, len(heads), options.step), len(heads)]
    ends = {count: removal.bleu(heads[:count]) for count in (0, len(heads))}
    curves: dict[str, dict[int, float]] = {}
    with Progress() as progress:
        task = progress.add_task("remove", total=len(orders) * len(counts))
        for name, order in orders.items():
            curves[name] = {}
            for count in counts:
                curves[name][count] = ends[count] if count in ends else removal.bleu(order[:count])
                progress.advance(task)
    for name, curve in curves.items():
        print(f"{name:12}", " ".join(f"{count}:{bleu:.1f}" for count, bleu in curve.items()))
    if options.picture:
        draw(curves, len(heads), options.picture)
    shares = [removable(curve, len(heads)) for name, curve in curves.items() if name != "importance"]
    values = {
        "heads": len(heads),
        "bleu_whole": ends[0],
        "removable_by_importance": removable(curves["importance"], len(heads)),
        "removable_at_random": sum(shares) / len(shares),
    }
    print_values("head_removal", values)


if __name__ == "__main__":
    main()
