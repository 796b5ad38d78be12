"""The models whose attention is scored against gold alignments: a small Transformer and a Bahdanau, both directions.

    python bench/aer_models.py FOLDER --data DATA [--time 38m] [--only transformer-de-en ...]

The pairs of Tatoeba and LibreOffice in DATA, lower-cased and cut at punctuation as the gold set is, go to FOLDER as
general.de and general.en (bench/aligners.py takes the same files), and dev.de and dev.en; then the four models are
trained, one after the other, two processes each. One that is there is not trained again. When all are there:

    dragoman align FOLDER/transformer-de-en --source test.de --target test.en --gold gold.talp --search --grid grid.png

The gold set is Europarl, the training text is not: error rates of all who learn from it suffer by that.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from texts import lines

PIECES = re.compile(r"'s\b|\w+(?:-\w+)*|[^\w\s]")
CORPORA = ("tatoeba-en-de/train", "libreoffice-en-de/train")
RECIPE = """\
name: {name}
source_language: {source}
target_language: {target}
data:
  train: [{{source: general.{source}, target: general.{target}}}]
  dev: {{source: dev.{source}, target: dev.{target}}}
  vocabulary: {{kind: bpe, size: 8000, joint: true}}
model:
{model}
training:
  batch: {{tokens: {tokens}}}
  batches_per_update: 2
  optimizer: {{clip: 1.0}}
  schedule: {{factors: [warmup, linear], rate: {rate}, warmup: 500}}
  stop: {{updates: 40000, time: {time}, metric: bleu}}
  validate_every: 4m
  ema: 0.998
  precision: bfloat16
validation:
  reading: {{tokenised: true}}
  max_pairs: 300
"""
MODELS = {
    "transformer": ("  {preset: small, dropout: 0.1, attention_bias: true}", 4096, "1.5e-3"),  # as the demo
    "bahdanau": (
        "  {preset: bahdanau, d_model: 256, d_embedding: 256, num_layers: 1, dropout: 0.2, tie: target}",
        1536,
        "2e-3",
    ),
}
DIRECTIONS = (("de", "en"), ("en", "de"))


def cut(line: str) -> str:
    return " ".join(PIECES.findall(line.lower()))


def write_texts(folder: Path, data: Path) -> None:
    for language in ("de", "en"):
        general = [cut(line) for corpus in CORPORA for line in lines(data / f"{corpus}.{language}.gz")]
        (folder / f"general.{language}").write_text("\n".join(general) + "\n", encoding="utf-8")
        dev = [cut(line) for line in lines(data / f"tatoeba-en-de/dev.{language}.gz")]
        (folder / f"dev.{language}").write_text("\n".join(dev) + "\n", encoding="utf-8")


def train(folder: Path, name: str, time: str) -> None:
    family, source, target = name.split("-")
    model, tokens, rate = MODELS[family]
    recipe = RECIPE.format(name=name, source=source, target=target, model=model, tokens=tokens, rate=rate, time=time)
    (folder / f"{name}.yaml").write_text(recipe, encoding="utf-8")
    command = [sys.executable, "-m", "dragoman", "train", f"{name}.yaml", "--out", name, "--processes", "2"]
    subprocess.run(command, cwd=folder, check=True)


def main() -> None:
    names = [f"{family}-{source}-{target}" for family in MODELS for source, target in DIRECTIONS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--time", default="38m", help="of training, for each")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if not (given.folder / "dev.en").exists():
        write_texts(given.folder, given.data)
    for name in given.only:
        if not (given.folder / name / "bundle").exists():
            train(given.folder, name, given.time)


if __name__ == "__main__":
    main()
