"""Measure what training a parent on few pairs gains, and what it forgets: the demo on captions of Multi30k.

    python bench/finetune.py FOLDER [--sizes 500 1000 5000 29000] [--time 4m] [--lines 1000] [--set KEY=VALUE]

For each size, three models for the same time: `scratch` (dragoman train), `alone` (with --from demo) and `keep` (with
old pairs of Tatoeba as --keep, too). The smaller sets are parts of the larger ones. Models that are finished are not
trained again. Other options go to the trainings that begin with the demo. BLEU is that of `dragoman evaluate` on the
first --lines lines of test_2016_flickr, the new text, and of Tatoeba's test_2021, the old text. FOLDER/finetune.png
shows both. Needs idle cores for three times --time per size.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

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
        if not (folder / f"old.{code}").exists():
            write_lines(folder / f"old.{code}", read_lines(data / f"tatoeba-en-de/train.{code}.gz"))
        for name, path in TESTS.items():
            write_lines(folder / f"{name}.{code}", read_lines(data / f"{path}.{code}.gz")[:lines])


def train(folder: Path, size: int, kind: str, time: str, options: list[str]) -> None:
    """Train a model, unless it is finished."""
    out = folder / f"{kind}-{size}"
    if (out / "bundle").exists() and not (out / "checkpoints").exists():
        return
    text = ["--source", f"{size}.en", "--target", f"{size}.de", "--out", out.name, "--time", time]
    parent = [] if kind == "scratch" else ["--from", "demo"]
    keep = ["--keep", "old.en", "old.de"] if kind == "keep" else []
    own = [] if kind == "scratch" else options
    subprocess.run([*DRAGOMAN, "train", "--quiet", *text, *parent, *keep, *own], cwd=folder, check=True)


def evaluate(folder: Path, models: list[str], test: str) -> dict[str, float]:
    """Return the BLEU of each model on a test set."""
    files = ["--source", f"{test}.en", "--reference", f"{test}.de", "--metrics", "bleu", "--json", f"{test}.json"]
    subprocess.run([*DRAGOMAN, "evaluate", *models, *files], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    systems = json.loads((folder / f"{test}.json").read_text(encoding="utf-8"))["systems"]
    return {name: float(system["scores"][0]["value"]) for name, system in zip(models, systems, strict=True)}


def print_table(scores: dict[str, dict[str, float]], sizes: list[int]) -> None:
    """Print BLEU on new and old text by model, in Markdown."""
    print("| pairs | model | BLEU, new | BLEU, old |\n|---|---|---|---|")
    print(f"| 0 | demo | {scores['new']['demo']:.1f} | {scores['old']['demo']:.1f} |")
    for size in sizes:
        for kind, label in KINDS.items():
            name = f"{kind}-{size}"
            print(f"| {size:,} | {label} | {scores['new'][name]:.1f} | {scores['old'][name]:.1f} |")


def draw(scores: dict[str, dict[str, float]], sizes: list[int], path: Path) -> None:
    """Draw BLEU on new and old text by the number of pairs."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    titles = {"new": "captions, the new text", "old": "Tatoeba, the old text"}
    for axes, (test, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
        axes.axhline(scores[test]["demo"], color="#bbbbbb", linestyle="--", label="demo")
        for kind, label in KINDS.items():
            values = [scores[test][f"{kind}-{size}"] for size in sizes]
            axes.plot(sizes, values, marker="o", color=COLOURS[kind], label=label)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
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
    parser.add_argument("--time", default="4m", help="time limit of each training")
    parser.add_argument("--lines", type=int, default=1000, help="lines of each test set")
    options, extra = parser.parse_known_args()
    folder, data = options.folder.resolve(), options.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_texts(folder, data, options.sizes, options.lines)
    for size in options.sizes:
        for kind in KINDS:
            train(folder, size, kind, options.time, extra)
    models = ["demo", *(f"{kind}-{size}" for size in options.sizes for kind in KINDS)]
    scores = {test: evaluate(folder, models, test) for test in TESTS}
    print_table(scores, options.sizes)
    draw(scores, options.sizes, folder / "finetune.png")
    values = {f"{test}_{name.replace('-', '_')}": value for test in TESTS for name, value in scores[test].items()}
    print_values("finetune", values, 2)


if __name__ == "__main__":
    main()
