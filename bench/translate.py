"""Compare `dragoman translate`, text to text and file to file, with the bare engine and with other engines.

- `vs_bare_ctranslate2`: the whole command, with its start, with the demo bundle, against CTranslate2 called bare: the
  same sentences already in subwords, in one call, same threads, beam and batch size, without loading.
  `vs_bare_ctranslate2_base`: the same with a model of the paper's base size (bench/base_bundle.py).
- `float32_vs_torch`, `int8_vs_torch`: the base-size model on CTranslate2 against our torch engine, on the same
  sentences, in separate processes, without loading.
- `vs_hf_generate`: ours on CTranslate2 in float32 against Hugging Face's MarianMTModel.generate of the same size, with
  as many output tokens per batch as ours has on average, same beam, in a separate environment.

The sides take turns, and a ratio is the median over rounds, because the speed of the machine varies by some percent.
The input is English sentences of Tatoeba, one per line, or made-up ones where it is missing.

    python bench/translate.py [--sentences 20000] [--base-sentences 2000] [--few 1024] [--rounds 3] [--threads N]
        [--hf PYTHON] [--only demo base torch hf] [--layers 6] [--d-model 512]

PYTHON is that of an environment with transformers, as bench/peers.py --install creates it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from base_bundle import base_bundle
from report import option_parser, print_values
from texts import english_sentences, write_lines

from dragoman.bundle import demo_folder

SIDE = Path(__file__).resolve().parent / "translate_side.py"
PARTS = ("demo", "base", "torch", "hf")


def main() -> None:
    options = parse()
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = english_sentences(options.sentences)
        base = folder / "base"
        if {"base", "torch", "hf"} & set(options.only):
            base_bundle(base, options.layers, options.d_model)
        if "demo" in options.only:
            values["vs_bare_ctranslate2"] = _against_bare(options, folder, demo_folder(), lines)
        if "base" in options.only:
            values["vs_bare_ctranslate2_base"] = _against_bare(options, folder, base, lines[: options.base_sentences])
        few = write_lines(folder / "few", lines[: options.few])
        if "torch" in options.only:
            sides = {"torch": _ours(options, base, few, "torch", "float32")}
            sides |= {compute: _ours(options, base, few, "ctranslate2", compute) for compute in ("float32", "int8")}
            rates = _rates(sides, options.rounds)
            values |= {f"{name}_vs_torch": _ratio(rates, name, "torch") for name in ("float32", "int8")}
        if "hf" in options.only and options.hf:
            ours = _ours(options, base, few, "ctranslate2", "float32")
            theirs = [options.hf, str(SIDE), "hf", "", str(few), str(options.threads)]
            rates = _rates({"ours": ours, "hf": theirs}, options.rounds)
            values["vs_hf_generate"] = _ratio(rates, "ours", "hf")
    print_values("translate", values)


def parse() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--base-sentences", type=int, default=2_000)
    parser.add_argument("--few", type=int, default=1024, help="sentences for torch and Hugging Face")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--hf", help="the python of an environment with transformers")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--d-model", type=int, default=512)
    return parser.parse_args()


def _against_bare(options: argparse.Namespace, folder: Path, model: Path, lines: list[str]) -> float:
    source = write_lines(folder / "source", lines)
    command = [sys.executable, str(SIDE), "command", str(model), str(source), str(options.threads)]
    bare = [sys.executable, str(SIDE), "bare", str(model), str(source), str(options.threads)]
    return _ratio(_rates({"command": command, "bare": bare}, options.rounds), "command", "bare")


def _ours(options: argparse.Namespace, model: Path, source: Path, engine: str, compute: str) -> list[str]:
    return [sys.executable, str(SIDE), engine, str(model), str(source), str(options.threads), compute]


def _ratio(rates: dict[str, list[float]], one: str, other: str) -> float:
    return median(mine / theirs for mine, theirs in zip(rates[one], rates[other], strict=True))


def _rates(sides: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Return the sentences per second of each side in every round: the last line of its output."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
            done = subprocess.run(sides[name], check=True, capture_output=True, text=True)
            rates[name].append(float(done.stdout.strip().splitlines()[-1]))
            print(f"{name}: {rates[name][-1]:.1f} sentences/s", flush=True)
    return rates


if __name__ == "__main__":
    main()
