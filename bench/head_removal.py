"""BLEU as heads are switched off: those of least importance first, and in random orders.

    python bench/head_removal.py MODEL --dev-source F --dev-target F --source F --reference F [--tokenised]
        [--pairs 200] [--sentences 300] [--step 3] [--seeds 3] [--picture heads.png]

Importance is |dL/dm| of Michel et al. (2019, section 4.1), summed over pairs of the dev set, and divided per layer as
they do; it is a first-order guess, and this is its test. Sentences of the test set are translated by the torch engine,
beam 1, with 0, 3, 6, ... of all heads of the model off. Last, one JSON line: the share of the heads that can go while
BLEU stays within 1 of the whole model's, by importance and on average over the random orders.
"""

import argparse
import json
import random
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import sacrebleu
from rich.progress import Progress
from texts import lines

from dragoman.attention.tap import Tap
from dragoman.bundle import open_bundle
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.decoding.translator import Translator
from dragoman.inspection.importance import head_importance
from dragoman.inspection.intervention import Off
from dragoman.inspection.interventions import edit_of

Head = tuple[str, int]


class Removal:
    """One model, one test set."""

    def __init__(self, given: argparse.Namespace) -> None:
        bundle = open_bundle(given.model)
        self.model, self.vocab = load_model(bundle).eval(), bundle.vocab
        self.source, self.reference = (lines(path)[: given.sentences] for path in (given.source, given.reference))
        self.tokenise = "none" if given.tokenised else "13a"
        search = SearchOptions(beam_size=1)
        self.translator = Translator(TorchEngine(self.model), self.vocab, search)

    def by_importance(self, source: Path, target: Path, pairs: int) -> list[Head]:
        """Least important first."""
        read, written = self.vocab.source.encode(lines(source)[:pairs]), self.vocab.target.encode(lines(target)[:pairs])
        found = head_importance(self.model, zip(read.rows(), written.rows(), strict=True), per_layer=True)
        return [(one.name, one.head) for one in sorted(found, key=lambda one: one.importance)]

    def bleu(self, off: Sequence[Head]) -> float:
        removed = [
            Off(where=name, heads=tuple(head for _, head in heads))
            for name, heads in groupby(sorted(off), key=lambda head: head[0])
        ]
        with Tap(self.model, edit_of(self.model, removed)):
            hypotheses = self.translator.translate(self.source)
        return float(sacrebleu.corpus_bleu(hypotheses, [self.reference], tokenize=self.tokenise, force=True).score)


def kept(curve: dict[int, float], num_heads: int) -> float:
    """The largest share of the heads whose removal, and that of all smaller ones, costs no more than 1 BLEU."""
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


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    for name in ("--dev-source", "--dev-target", "--source", "--reference"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--tokenised", action="store_true", help="the references are: BLEU must not tokenise again")
    parser.add_argument("--pairs", type=int, default=200, help="of the dev set, to measure importance by")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--picture", type=Path)
    return parser.parse_args()


def main() -> None:
    given = options()
    removal = Removal(given)
    orders = {"importance": removal.by_importance(given.dev_source, given.dev_target, given.pairs)}
    heads = sorted(orders["importance"])
    for seed in range(given.seeds):
        orders[f"random {seed}"] = random.Random(seed).sample(heads, len(heads))
    counts = [*range(0, len(heads), given.step), len(heads)]
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
    if given.picture:
        draw(curves, len(heads), given.picture)
    shares = [kept(curve, len(heads)) for name, curve in curves.items() if name != "importance"]
    values = {
        "heads": len(heads),
        "bleu_whole": round(ends[0], 2),
        "removable_by_importance": round(kept(curves["importance"], len(heads)), 3),
        "removable_at_random": round(sum(shares) / len(shares), 3),
    }
    print(json.dumps({"bench": "head_removal", "values": values}))


if __name__ == "__main__":
    main()
