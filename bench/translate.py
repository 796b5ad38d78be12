"""Sentences per second of `dragoman translate`, text to text and file to file, against the bare engine and others.

- `vs_bare_ctranslate2`: the whole command, its start included, with the demo bundle, against CTranslate2 called bare:
  the same sentences already in pieces, in one call, same threads, beam and batch size, its loading left out.
  `vs_bare_ctranslate2_base`: the same with a model of the paper's base size (bench/base_bundle.py).
- `float32_vs_torch`, `int8_vs_torch`: the base-size model on CTranslate2 against our torch engine, on the same
  sentences, in processes of their own, loading left out.
- `vs_hf_generate`: ours on CTranslate2 in float32 against Hugging Face's MarianMTModel.generate, of the same size, with
  as many tokens written for each batch as ours wrote on average, same beam, in an environment of its own.

Sides take turns, and a ratio is the median of those of each round: the machine's own pace changes by some percent.
Sentences are English ones of Tatoeba, of one sentence a line.

    python bench/translate.py [--sentences 20000] [--base-sentences 2000] [--few 1024] [--rounds 3] [--threads N]
        [--hf PYTHON] [--only demo base torch hf]

PYTHON is that of an environment with transformers, as bench/peers.py --install makes it. Last, one JSON line.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from base_bundle import base_bundle

from dragoman.bundle import demo_folder

SIDE = Path(__file__).resolve().parent / "translate_side.py"
PARTS = ("demo", "base", "torch", "hf")


def main() -> None:
    given = _options()
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = sentences(given.sentences)
        base = folder / "base"
        if {"base", "torch", "hf"} & set(given.only):
            base_bundle(base)
        if "demo" in given.only:
            values["vs_bare_ctranslate2"] = _against_bare(given, folder, demo_folder(), lines)
        if "base" in given.only:
            values["vs_bare_ctranslate2_base"] = _against_bare(given, folder, base, lines[: given.base_sentences])
        few = _written(folder / "few", lines[: given.few])
        if "torch" in given.only:
            sides = {"torch": _ours(given, base, few, "torch", "float32")}
            sides |= {compute: _ours(given, base, few, "ctranslate2", compute) for compute in ("float32", "int8")}
            rates = _rates(sides, given.rounds)
            values |= {f"{name}_vs_torch": _ratio(rates, name, "torch") for name in ("float32", "int8")}
        if "hf" in given.only and given.hf:
            ours = _ours(given, base, few, "ctranslate2", "float32")
            theirs = [given.hf, str(SIDE), "hf", "", str(few), str(given.threads)]
            rates = _rates({"ours": ours, "hf": theirs}, given.rounds)
            values["vs_hf_generate"] = _ratio(rates, "ours", "hf")
    print(json.dumps({"bench": "translate", "values": {name: round(value, 3) for name, value in values.items()}}))


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sentences", type=int, default=20_000)
    options.add_argument("--base-sentences", type=int, default=2_000)
    options.add_argument("--few", type=int, default=1024, help="sentences for torch and Hugging Face")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--hf", help="the python of an environment with transformers")
    options.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    return options.parse_args()


def sentences(count: int) -> list[str]:
    """Different ones, each a single sentence to the splitter as well, so that both sides translate the same."""
    from dragoman.decoding.document import Document

    data = Path(os.environ.get("DRAGOMAN_DATA", "../shared/data"))
    found: dict[str, None] = {}
    for path in sorted((data / "tatoeba-en-de").glob("train.en.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                text = line.rstrip("\n")
                if len(text) > 20 and Document.of(text, "en").sentences == (text,):
                    found[text] = None
                if len(found) == count:
                    return list(found)
    raise SystemExit(f"{data}/tatoeba-en-de has {len(found)} sentences of {count}: set DRAGOMAN_DATA")


def _written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _against_bare(given: argparse.Namespace, folder: Path, model: Path, lines: list[str]) -> float:
    source = _written(folder / "source", lines)
    command = [sys.executable, str(SIDE), "command", str(model), str(source), str(given.threads)]
    bare = [sys.executable, str(SIDE), "bare", str(model), str(source), str(given.threads)]
    return _ratio(_rates({"command": command, "bare": bare}, given.rounds), "command", "bare")


def _ours(given: argparse.Namespace, model: Path, source: Path, engine: str, compute: str) -> list[str]:
    return [sys.executable, str(SIDE), engine, str(model), str(source), str(given.threads), compute]


def _ratio(rates: dict[str, list[float]], one: str, other: str) -> float:
    return median(mine / theirs for mine, theirs in zip(rates[one], rates[other], strict=True))


def _rates(sides: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Sentences per second of each in every round, as it says itself on its last line."""
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
            done = subprocess.run(sides[name], check=True, capture_output=True, text=True)
            seen[name].append(float(done.stdout.strip().splitlines()[-1]))
            print(f"{name}: {seen[name][-1]:.1f} sentences/s", flush=True)
    return seen


if __name__ == "__main__":
    main()
