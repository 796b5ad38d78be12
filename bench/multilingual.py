"""Measure one bundle of two target languages against two bundles of one each: English to German and French, Multi30k.

    python bench/multilingual.py FOLDER [--time 20m] [--lines 1000] [options of `dragoman train`]

`both` is one model of both languages, trained for --time; `de` and `fr` are models of one language, each trained for
half of it, so that the minutes are equal in total. All three have the same recipe but for the data. Models that are
finished are not trained again. BLEU is that of `dragoman evaluate` on the first --lines lines of test_2016_flickr, with
95 % intervals. Needs idle cores for twice --time.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

from dragoman.training.config import parse_duration

DRAGOMAN = [sys.executable, "-m", "dragoman"]
LANGUAGES = ("de", "fr")
MODELS = {"both": LANGUAGES, "de": ("de",), "fr": ("fr",)}
"""The target languages of each model."""
TEST = "test_2016_flickr"


def recipe(data: Path, languages: tuple[str, ...], seconds: float) -> dict[str, Any]:
    """Return the recipe of a model of these target languages; JSON is YAML."""

    def corpus(part: str, language: str) -> dict[str, str]:
        files = {
            side: str(data / f"multi30k/{part}.{code}.gz") for side, code in (("source", "en"), ("target", language))
        }
        return {"name": f"{part}-{language}", **files, "target_language": language}

    return {
        "name": f"multi30k en to {' and '.join(languages)}",
        "source_language": "en",
        "data": {
            "train": [corpus("train", language) for language in languages],
            "dev": [corpus("val", language) for language in languages],
            "vocabulary": {"size": 8000},
        },
        "model": {"preset": "small", "norm": "pre", "dropout": 0.1},
        "training": {
            "batch": {"tokens": 2048},
            "batches_per_update": 2,
            "schedule": {"factors": ["warmup", "linear"], "rate": 1.2e-3, "warmup": 400},
            "optimizer": {"clip": 1.0},
            "stop": {"updates": 100_000, "time": f"{seconds:g}s", "metric": "loss"},
            "validate_every": f"{max(1.0, seconds / 6):g}s",
            "ema": 0.998,
        },
        "validation": {"max_pairs": 300},
    }


def train(folder: Path, data: Path, name: str, seconds: float, options: list[str]) -> None:
    """Train a model, unless it is finished."""
    out = folder / name
    if (out / "bundle").exists() and not (out / "checkpoints").exists():
        return
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(recipe(data, MODELS[name], seconds)), encoding="utf-8")
    subprocess.run([*DRAGOMAN, "train", path.name, "--out", name, "--quiet", *options], cwd=folder, check=True)


def evaluate(folder: Path, language: str) -> dict[str, dict[str, float]]:
    """Return the BLEU of both models of a language, with the interval and, against two bundles, the p-value."""
    files = [
        "--source",
        "test.en",
        "--reference",
        f"test.{language}",
        "--metrics",
        "bleu",
        "--json",
        f"{language}.json",
    ]
    command = [*DRAGOMAN, "evaluate", language, "both", "--to", language, *files]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    systems = json.loads((folder / f"{language}.json").read_text(encoding="utf-8"))["systems"]
    return {name: system["scores"][0] for name, system in zip(("two", "one"), systems, strict=True)}


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--time", default="20m", help="training time of the model of both languages, in total")
    parser.add_argument("--lines", type=int, default=1000, help="lines of the test set")
    options, extra = parser.parse_known_args()
    folder, data = options.folder.resolve(), options.data.resolve()
    seconds = parse_duration(options.time)
    folder.mkdir(parents=True, exist_ok=True)
    for code in ("en", *LANGUAGES):
        write_lines(folder / f"test.{code}", read_lines(data / f"multi30k/{TEST}.{code}.gz")[: options.lines])
    for name, languages in MODELS.items():
        train(folder, data, name, seconds * len(languages) / len(LANGUAGES), extra)
    values = {}
    print("| target | bundles | BLEU | 95 % interval | p |\n|---|---|---|---|---|")
    for language in LANGUAGES:
        for name, score in evaluate(folder, language).items():
            p_value = "" if score["p_value"] is None else f"{score['p_value']:.3f}"
            interval = f"{score['low']:.1f} to {score['high']:.1f}"
            print(f"| {language} | {name} | {score['value']:.1f} | {interval} | {p_value} |")
            values |= {f"{language}_{name}": score["value"]}
            values |= {f"{language}_{name}_{end}": score[end] for end in ("low", "high")}
    print_values("multilingual", values, 2)


if __name__ == "__main__":
    main()
