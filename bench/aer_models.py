"""Train the models whose attention is scored against gold alignments: a small Transformer and a Bahdanau, both ways.

    python bench/aer_models.py FOLDER [--data DATA] [--time 38m] [--only transformer-de-en ...] [`train` options]

The pairs of Tatoeba and LibreOffice in DATA, lower-cased and tokenised like the gold set, go to FOLDER as general.de,
general.en (bench/aligners.py reads the same files), dev.de and dev.en. Then the four models are trained one after the
other with two processes each. A model that exists is not trained again. Afterwards:

    dragoman align FOLDER/transformer-de-en --source test.de --target test.en --gold gold.talp --search --grid grid.png

The gold set is Europarl and the training text is not: the error rates of all aligners suffer from that.
"""

import re
import subprocess
import sys
from pathlib import Path

from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

WORDS = re.compile(r"'s\b|\w+(?:-\w+)*|[^\w\s]")
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


def tokenise(line: str) -> str:
    return " ".join(WORDS.findall(line.lower()))


def write_texts(folder: Path, data: Path) -> None:
    for language in ("de", "en"):
        general = (line for corpus in CORPORA for line in read_lines(data / f"{corpus}.{language}.gz"))
        write_lines(folder / f"general.{language}", map(tokenise, general))
        dev = read_lines(data / f"tatoeba-en-de/dev.{language}.gz")
        write_lines(folder / f"dev.{language}", map(tokenise, dev))


def train(folder: Path, name: str, time: str, options: list[str]) -> None:
    family, source, target = name.split("-")
    model, tokens, rate = MODELS[family]
    recipe = RECIPE.format(name=name, source=source, target=target, model=model, tokens=tokens, rate=rate, time=time)
    (folder / f"{name}.yaml").write_text(recipe, encoding="utf-8")
    command = [sys.executable, "-m", "dragoman", "train", f"{name}.yaml", "--out", name, "--processes", "2", *options]
    subprocess.run(command, cwd=folder, check=True)


def main() -> None:
    names = [f"{family}-{source}-{target}" for family in MODELS for source, target in DIRECTIONS]
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--time", default="38m", help="training time of each model")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    options, train_options = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not (options.folder / "dev.en").exists():
        write_texts(options.folder, options.data)
    missing = [name for name in options.only if not (options.folder / name / "bundle").exists()]
    for name in missing:
        train(options.folder, name, options.time, train_options)
    print_values("aer_models", {"trained": len(missing)})


if __name__ == "__main__":
    main()
