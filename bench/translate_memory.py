"""How much memory `dragoman translate` takes above its model on the way through a long file, and how soon it answers.

The real command, from file to file, is looked at five times a second while it runs. What its model takes is what the
same command holds when it has answered one line. Twice: with the demo, and with a random model of one layer that writes
a few tokens, for a file ten times as long. `first_line_s` is from the start of the process, with nothing of it
in memory but what the system keeps of files, to the first answer. Last, one JSON line.

    python bench/translate_memory.py [--demo-lines 200000] [--toy-lines 2000000] [--threads 2]

--quick is 5,000 lines of each.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from dragoman.bundle import BundleInfo, Export, demo_folder, open_bundle, write_bundle
from dragoman.bundle.writing import store_export
from dragoman.data.vocab import EOS
from dragoman.decoding.options import SearchOptions
from dragoman.export.ctranslate2 import weights_file
from dragoman.layers.sinusoids import sinusoids
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.weights import weights_of

EVERY = 0.2
QUICK = 5_000
STRENGTH = 4.0
"""How likely the toy's outputs end at their fifth token: tried."""
NOUNS = [
    "dog",
    "house",
    "river",
    "teacher",
    "letter",
    "window",
    "garden",
    "doctor",
    "friend",
    "train",
    "city",
    "book",
    "child",
    "road",
    "picture",
]
VERBS = ["sees", "knows", "likes", "finds", "opens", "paints", "follows", "remembers"]
COLOURS = ["red", "old", "green", "small", "white", "strange", "beautiful", "empty"]


def lines(number: int) -> Iterator[str]:
    """Sentences, most of them different from all others; now and then an empty line, a list or a paragraph."""
    draw = random.Random(2017)
    for i in range(number):
        one = f"The {draw.choice(COLOURS)} {draw.choice(NOUNS)} {draw.choice(VERBS)} {i} {draw.choice(NOUNS)}s."
        yield "" if i % 50 == 7 else f"- {one} {one}" if i % 50 == 9 else one


def toy(folder: Path) -> Path:
    """One layer, random weights, and outputs of a few tokens: EOS has the direction in which positions go."""
    demo = open_bundle(demo_folder())
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    words = {"source_vocabulary": demo.vocab.source.size, "target_vocabulary": demo.vocab.target.size}
    config = TransformerConfig.model_validate({**sizes, **words, "norm": "pre", "tie": "none"})
    torch.manual_seed(1)
    weights, places = weights_of(build(config)), sinusoids(8, config.d_model)
    weights["projection.tokens.weight"][EOS] = (STRENGTH * (places[4] - places[0])).astype(np.float32)
    search = SearchOptions(beam_size=1).model_dump(mode="json")
    info = BundleInfo(model=config, search=search, source_language="en", target_language="de")
    bundle = write_bundle(folder, info, weights, demo.vocab, demo.card)
    content = weights_file(bundle)
    store_export(folder, Export.untried(content), content)
    return folder


def command(model: Path, threads: int, *others: object) -> list[str]:
    words = [sys.executable, "-m", "dragoman", "translate", model, "--engine", "ctranslate2", "--threads", threads]
    return [str(word) for word in [*words, *others]]


def resident(process: subprocess.Popen[bytes]) -> float:
    """MB of a process that is alive, 0 of one that is not."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def answered_once(model: Path, threads: int) -> tuple[float, float]:
    """Seconds to the first answer, and MB held then."""
    begin = time.perf_counter()
    process = subprocess.Popen(command(model, threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"Where is the station?\n")
    process.stdin.flush()
    assert process.stdout.readline().strip()
    seconds, memory = time.perf_counter() - begin, resident(process)
    process.communicate()
    return seconds, memory


def most(name: str, model: Path, threads: int, number: int, folder: Path) -> float:
    """MB held at most on the way through a file, told ten times or so."""
    source, output = folder / f"{name}.en", folder / f"{name}.de"
    with source.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines(number))
    begin = told = time.perf_counter()
    highest, every = 0.0, max(5.0, number / 20_000)
    process = subprocess.Popen(command(model, threads, "--input", source, "--output", output))
    while process.poll() is None:
        highest = max(highest, resident(process))
        if time.perf_counter() - told > every:
            told = time.perf_counter()
            print(f"{name}: {told - begin:5.0f} s, {resident(process):.0f} MB, at most {highest:.0f} MB", flush=True)
        time.sleep(EVERY)
    assert process.returncode == 0
    with output.open("rb") as file:
        assert sum(1 for _ in file) == number
    seconds = time.perf_counter() - begin
    print(f"{name}: {number:,} lines in {seconds:.0f} s, {number / seconds:,.0f} a second", flush=True)
    return highest


def measured(name: str, model: Path, threads: int, number: int, folder: Path) -> tuple[float, float]:
    """Seconds to the first answer, and MB above what the model takes."""
    once = [answered_once(model, threads) for _ in range(3)]
    first, base = statistics.median(seconds for seconds, _ in once), statistics.median(memory for _, memory in once)
    print(f"{name}: the first answer after {first:.2f} s, with {base:.0f} MB", flush=True)
    growth = most(name, model, threads, number, folder) - base
    print(f"{name}: {growth:.0f} MB above the model", flush=True)
    return first, growth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo-lines", type=int, default=200_000)
    parser.add_argument("--toy-lines", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, default=demo_folder(), help="in place of the demo")
    parser.add_argument("--quick", action="store_true", help="5,000 lines of each")
    asked = parser.parse_args()
    demo_lines, toy_lines = (QUICK, QUICK) if asked.quick else (asked.demo_lines, asked.toy_lines)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, demo_growth = measured("demo", asked.model, asked.threads, demo_lines, folder)
        _, toy_growth = measured("toy", toy(folder / "toy"), asked.threads, toy_lines, folder)
    values = {"demo_growth_mb": demo_growth, "toy_growth_mb": toy_growth, "first_line_s": first}
    print(json.dumps({"bench": "translate_memory", "values": {key: round(value, 2) for key, value in values.items()}}))


if __name__ == "__main__":
    main()
