"""Measure how many training pairs buy which quality: BLEU after the same time on 1,000 to 29,000 pairs of Multi30k.

    python bench/data_curve.py FOLDER [--sizes 1000 3000 10000 29000] [--time 20m] [options of `dragoman train`]

For each size, `dragoman train --pairs` chooses a recipe for the pairs and the time, as for any user. The smaller sets
are parts of the larger ones. Models that are finished are not trained again. BLEU is that of `dragoman evaluate` on
test_2016_flickr. Needs idle cores for the sum of the times.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

DRAGOMAN = [sys.executable, "-m", "dragoman"]


def write_pairs(folder: Path, data: Path, sizes: list[int]) -> None:
    """Write a TSV file for each size: the first pairs in one random order."""
    sides = [read_lines(data / f"multi30k/train.{code}.gz") for code in ("en", "de")]
    rows = [f"{source}\t{target}" for source, target in zip(*sides, strict=True)]
    random.Random(1).shuffle(rows)
    if max(sizes) > len(rows):
        raise SystemExit(f"Multi30k has {len(rows):,} pairs: give --sizes up to that")
    for size in sizes:
        if not (folder / f"{size}.tsv").exists():
            write_lines(folder / f"{size}.tsv", ["en\tde", *rows[:size]])


def measure(folder: Path, data: Path, size: int, time: str, options: list[str]) -> float:
    """Return the BLEU of a model trained on so many pairs."""
    if not (folder / f"{size}/bundle").exists() or (folder / f"{size}/checkpoints").exists():
        train = [*DRAGOMAN, "train", "--pairs", f"{size}.tsv", "--out", str(size), "--time", time, "--quiet", *options]
        subprocess.run(train, cwd=folder, check=True)
    test = [str(data / f"multi30k/test_2016_flickr.{code}.gz") for code in ("en", "de")]
    evaluate = [*DRAGOMAN, "evaluate", str(size), "--source", test[0], "--reference", test[1], "--metrics", "bleu"]
    subprocess.run([*evaluate, "--json", f"{size}.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    report = json.loads((folder / f"{size}.json").read_text(encoding="utf-8"))
    return float(report["systems"][0]["scores"][0]["value"])


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 3_000, 10_000, 29_000])
    parser.add_argument("--time", default="20m", help="time limit of each training")
    options, extra = parser.parse_known_args()
    folder, data = options.folder.resolve(), options.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_pairs(folder, data, options.sizes)
    values = {}
    for size in options.sizes:
        values[f"bleu_{size}_pairs"] = measure(folder, data, size, options.time, extra)
        print(f"{size:,} pairs, {options.time}: BLEU {values[f'bleu_{size}_pairs']:.1f}", flush=True)
    print_values("data_curve", values, 2)


if __name__ == "__main__":
    main()
