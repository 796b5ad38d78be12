"""Measure what training a parent on few pairs gains, and what it forgets: the demo on captions of Multi30k.

    python bench/finetune.py FOLDER [--sizes 500 1000 5000 29000] [--kinds scratch alone keep] [--time 4m]
        [--lines 1000] [--set KEY=VALUE]

For each size, three models for the same time: `scratch` (dragoman train), `alone` (with --from demo) and `keep` (with
old pairs of Tatoeba as --keep, too). The smaller sets are parts of the larger ones. Models that are finished are not
trained again. Other options go to the trainings that begin with the demo. BLEU is that of `dragoman evaluate` on the
first --lines lines of test_2016_flickr, the new text, and of Tatoeba's test_2021, the old text, with 95 % intervals,
and with paired bootstrap tests against the demo and against training from scratch. FOLDER/finetune.png shows both.
Needs idle cores for three times --time per size.

Values: `TEST_MODEL` is the BLEU, with `_low` and `_high`; `TEST_MODEL_vs_demo` and `..._vs_scratch` are differences,
with `_p`.
"""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

DRAGOMAN = [sys.executable, "-m", "dragoman"]
KINDS = {"scratch": "from scratch", "alone": "--from demo", "keep": "--from demo --keep"}
TESTS = {"new": "multi30k/test_2016_flickr", "old": "tatoeba-en-de/test_2021"}
COLOURS = {"scratch": "#777777", "alone": "#ee6677", "keep": "#4477aa"}


def write_texts(folder: Path, data: Path, sizes: list[int], lines: int) -> None:
    """Write the new pairs of each size, the old pairs and the test sets."""
    sides = [read_lines(data / f"multi30k/train.{code}.gz") for code in ("en", "de")]
    rows = list(zip(*sides, strict=True))
    random.Random(1).shuffle(rows)
    if max(sizes) > len(rows):
        raise SystemExit(f"Multi30k has {len(rows):,} pairs: give --sizes up to that")
    for number, code in enumerate(("en", "de")):
        for size in sizes:
            if not (folder / f"{size}.{code}").exists():
                write_lines(folder / f"{size}.{code}", [row[number] for row in rows[:size]])
        if not (folder / f"kept.{code}").exists():
            write_lines(folder / f"kept.{code}", read_lines(data / f"tatoeba-en-de/train.{code}.gz"))
        for name, path in TESTS.items():
            write_lines(folder / f"{name}.{code}", read_lines(data / f"{path}.{code}.gz")[:lines])


def train(folder: Path, size: int, kind: str, time: str, options: list[str]) -> None:
    """Train a model, unless it is finished."""
    out = folder / f"{kind}-{size}"
    if (out / "bundle").exists() and not (out / "checkpoints").exists():
        return
    text = ["--source", f"{size}.en", "--target", f"{size}.de", "--out", out.name, "--time", time]
    parent = [] if kind == "scratch" else ["--from", "demo"]
    keep = ["--keep", "kept.en", "kept.de"] if kind == "keep" else []
    own = [] if kind == "scratch" else options
    subprocess.run([*DRAGOMAN, "train", "--quiet", *text, *parent, *keep, *own], cwd=folder, check=True)


class Difference(NamedTuple):
    """The BLEU of a model less that of a baseline, and the p-value of a paired bootstrap."""

    value: float
    p_value: float


class Score(NamedTuple):
    """The BLEU of a model, its 95 % interval, and the differences from each baseline."""

    value: float
    low: float
    high: float
    differences: dict[str, Difference]


Scores = dict[str, dict[str, Score]]
"""The scores by test set and model."""


def evaluate(folder: Path, sizes: list[int], kinds: list[str], test: str) -> dict[str, Score]:
    """Return the score of each model on a test set; each model translates it once."""
    models = ["demo", *(f"{kind}-{size}" for size in sizes for kind in kinds)]
    files = {name: f"{test}.{name}.de" for name in models}
    outputs = [part for file in files.values() for part in ("--output", file)]
    found = run_evaluate(folder, models, test, ["--source", f"{test}.en", *outputs])
    differences: dict[str, dict[str, Difference]] = {name: {} for name in models}
    compare(found, "demo", differences)
    for size in sizes if kinds[0] == "scratch" and len(kinds) > 1 else ():
        trained = [f"{kind}-{size}" for kind in kinds]  # the first is the baseline
        of_size = run_evaluate(folder, [files[name] for name in trained], test, [])
        compare(dict(zip(trained, of_size.values(), strict=True)), "scratch", differences)
    return {
        name: Score(score["value"], score["low"], score["high"], differences[name]) for name, score in found.items()
    }


def run_evaluate(folder: Path, systems: list[str], test: str, options: list[str]) -> dict[str, dict[str, float]]:
    """Return the BLEU of each system as `dragoman evaluate` reports it; the first system is the baseline."""
    files = ["--reference", f"{test}.de", "--metrics", "bleu", "--json", f"{test}.json", *options]
    subprocess.run([*DRAGOMAN, "evaluate", *systems, *files], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    report = json.loads((folder / f"{test}.json").read_text(encoding="utf-8"))
    return {name: system["scores"][0] for name, system in zip(systems, report["systems"], strict=True)}


def compare(scores: dict[str, dict[str, float]], baseline: str, differences: dict[str, dict[str, Difference]]) -> None:
    """Add the differences of all other systems from the first."""
    first, *others = scores
    for name in others:
        difference = scores[name]["value"] - scores[first]["value"]
        differences[name][baseline] = Difference(difference, scores[name]["p_value"])


def print_table(scores: Scores, sizes: list[int], kinds: list[str]) -> None:
    """Print BLEU on new and old text by model, in Markdown."""
    columns = [f"{column}, {test}" for test in TESTS for column in ("BLEU [95 %]", "less demo (p)", "less scratch (p)")]
    print(f"| pairs | model | {' | '.join(columns)} |\n|{'---|' * (2 + len(columns))}")
    print(f"| 0 | demo | {' | '.join(cell for test in TESTS for cell in cells(scores[test]['demo']))} |")
    for size in sizes:
        for kind in kinds:
            row = [cell for test in TESTS for cell in cells(scores[test][f"{kind}-{size}"])]
            print(f"| {size:,} | {KINDS[kind]} | {' | '.join(row)} |")


def cells(score: Score) -> list[str]:
    """Return the cells of a table: the score, and the difference from each baseline."""
    found = [score.differences.get(baseline) for baseline in ("demo", "scratch")]
    differences = ["" if one is None else f"{one.value:+.1f} ({one.p_value:.3f})" for one in found]
    return [f"{score.value:.1f} [{score.low:.1f}, {score.high:.1f}]", *differences]


def draw(scores: Scores, sizes: list[int], kinds: list[str], path: Path) -> None:
    """Draw BLEU on new and old text by the number of pairs, with 95 % intervals."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    titles = {"new": "captions, the new text", "old": "Tatoeba, the old text"}
    for axes, (test, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
        demo = scores[test]["demo"]
        axes.axhline(demo.value, color="#bbbbbb", linestyle="--", label="demo")
        axes.axhspan(demo.low, demo.high, color="#bbbbbb", alpha=0.25, linewidth=0)
        for shift, kind in zip((0.96, 1.0, 1.04), kinds, strict=False):
            found = [scores[test][f"{kind}-{size}"] for size in sizes]
            values = [score.value for score in found]
            ends = [[s.value - s.low for s in found], [s.high - s.value for s in found]]
            errors = [[max(0.0, end) for end in side] for side in ends]  # few lines: the mean of resamples differs
            places = [size * shift for size in sizes]  # beside each other
            axes.errorbar(places, values, errors, marker="o", capsize=3, color=COLOURS[kind], label=KINDS[kind])
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("new pairs")
        axes.set_title(title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("BLEU")
    figure.axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 5000, 29_000])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--time", default="4m", help="time limit of each training")
    parser.add_argument("--lines", type=int, default=1000, help="lines of each test set")
    options, extra = parser.parse_known_args()
    kinds = [kind for kind in KINDS if kind in options.kinds]
    folder, data = options.folder.resolve(), options.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_texts(folder, data, options.sizes, options.lines)
    for size in options.sizes:
        for kind in kinds:
            train(folder, size, kind, options.time, extra)
    scores = {test: evaluate(folder, options.sizes, kinds, test) for test in TESTS}
    print_table(scores, options.sizes, kinds)
    draw(scores, options.sizes, kinds, folder / "finetune.png")
    print_values("finetune", list_values(scores), 3)


def list_values(scores: Scores) -> dict[str, float]:
    """Return all figures by name."""
    values = {}
    for test, of_test in scores.items():
        for name, score in of_test.items():
            key = f"{test}_{name.replace('-', '_')}"
            values |= {key: score.value, f"{key}_low": score.low, f"{key}_high": score.high}
            for baseline, (value, p_value) in score.differences.items():
                values |= {f"{key}_vs_{baseline}": value, f"{key}_vs_{baseline}_p": p_value}
    return values


if __name__ == "__main__":
    main()
