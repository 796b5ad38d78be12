"""Train the models whose attention is scored against gold alignments: small Transformers and a Bahdanau, both ways.

    python bench/aer_models.py FOLDER [--data DATA] [--time 38m] [--updates N] [--eflomal PROGRAM]
        [--only transformer-de-en ...] [`train` options]

The pairs of Tatoeba and LibreOffice in DATA, lower-cased and tokenised like the gold set, go to FOLDER as general.de,
general.en (bench/aligners.py reads the same files), dev.de and dev.en. Then the models are trained one after the other
with two processes each: `transformer`, and the same with one head guided by the links of IBM model 1 (`ibm1`), of
`dragoman align` without a model (`learned`) or of eflomal (`eflomal`, if its program is given), all symmetrised; and
`bahdanau`. A model that exists is not trained again. Afterwards:

    dragoman align FOLDER/transformer-de-en --source test.de --target test.en --gold gold.talp --search --grid grid.png
    dragoman align FOLDER/ibm1-de-en --source test.de --target test.en --gold gold.talp --reverse FOLDER/ibm1-en-de

The gold set is Europarl and the training text is not: the error rates of all aligners suffer from that.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from aligners import pairs, read_links, write
from ibm1 import train as train_ibm1
from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

from dragoman.alignment.learned_links import learn_both_directions
from dragoman.alignment.links import Links, swap
from dragoman.alignment.moses import to_moses
from dragoman.alignment.symmetrise import symmetrise_all

WORDS = re.compile(r"'s\b|\w+(?:-\w+)*|[^\w\s]")
CORPORA = ("tatoeba-en-de/train", "libreoffice-en-de/train")
RECIPE = """\
name: {name}
source_language: {source}
target_language: {target}
data:
  train: [{{source: general.{source}, target: general.{target}{links}}}]
  dev: {{source: dev.{source}, target: dev.{target}}}
  vocabulary: {{kind: bpe, size: 8000, joint: true}}
model:
{model}
training:
  batch: {{tokens: {tokens}}}
  batches_per_update: 2
  optimizer: {{clip: 1.0}}
  schedule: {{factors: [warmup, linear], rate: {rate}, warmup: 500}}
  stop: {{updates: {updates}, time: {time}, metric: bleu}}
  validate_every: 4m
  ema: 0.998
{guided}validation:
  reading: {{tokenised: true}}
  max_pairs: 300
"""
TRANSFORMER = ("  {preset: small, norm: pre, dropout: 0.1, attention_bias: true}", 2048, "1.2e-3")  # as the demo
BAHDANAU = (
    "  {preset: bahdanau, d_model: 256, d_embedding: 256, num_layers: 1, dropout: 0.2, tie: target}",
    1536,
    "2e-3",
)
GUIDED = ("ibm1", "learned", "eflomal")
FAMILIES = ("transformer", *GUIDED, "bahdanau")
DIRECTIONS = (("de", "en"), ("en", "de"))


def tokenise(line: str) -> str:
    return " ".join(WORDS.findall(line.lower()))


def write_texts(folder: Path, data: Path) -> None:
    for language in ("de", "en"):
        general = (line for corpus in CORPORA for line in read_lines(data / f"{corpus}.{language}.gz"))
        write_lines(folder / f"general.{language}", map(tokenise, general))
        dev = read_lines(data / f"tatoeba-en-de/dev.{language}.gz")
        write_lines(folder / f"dev.{language}", map(tokenise, dev))


def write_links(folder: Path, aligner: str, eflomal: str | None) -> None:
    """Write the symmetrised links of all pairs, German to English, as FOLDER/ALIGNER.de-en.links, and swapped."""
    sides = [read_lines(folder / f"general.{language}") for language in ("de", "en")]
    if aligner == "learned":
        both = learn_both_directions(*sides)
    else:
        both = by_ibm1(*sides) if aligner == "ibm1" else by_eflomal(str(eflomal), *sides)
    links = symmetrise_all(*both, "grow-diag-final-and")
    write_lines(folder / f"{aligner}.de-en.links", map(to_moses, links))
    write_lines(folder / f"{aligner}.en-de.links", map(to_moses, map(swap, links)))


def by_ibm1(german: list[str], english: list[str]) -> tuple[list[Links], list[Links]]:
    sides = [[line.split() for line in side] for side in (german, english)]
    there, back = train_ibm1(*sides), train_ibm1(*reversed(sides))
    both = list(zip(*sides, strict=True))
    return [there.links(a, b) for a, b in both], [swap(back.links(b, a)) for a, b in both]


def by_eflomal(program: str, german: list[str], english: list[str]) -> tuple[list[Links], list[Links]]:
    with tempfile.TemporaryDirectory() as folder:
        options = write(Path(folder, "pairs"), pairs(german, english))
        subprocess.run([program, *options], check=True)
        forward, backward = map(read_links, options[5::2])
    return forward, backward


def train(folder: Path, name: str, updates: int, time: str, options: list[str]) -> None:
    family, source, target = name.split("-")
    model, tokens, rate = BAHDANAU if family == "bahdanau" else TRANSFORMER
    is_guided = family in GUIDED
    links = f", links: {family}.{source}-{target}.links" * is_guided
    guided = "  guided_alignment: {weight: 0.1}\n" * is_guided
    values = {"name": name, "source": source, "target": target, "model": model, "tokens": tokens, "rate": rate}
    recipe = RECIPE.format(**values, time=time, updates=updates, links=links, guided=guided)
    (folder / f"{name}.yaml").write_text(recipe, encoding="utf-8")
    command = [sys.executable, "-m", "dragoman", "train", f"{name}.yaml", "--out", name, "--processes", "2", *options]
    subprocess.run(command, cwd=folder, check=True)


def main() -> None:
    names = [f"{family}-{source}-{target}" for family in FAMILIES for source, target in DIRECTIONS]
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--time", default="38m", help="training time of each model")
    parser.add_argument("--updates", type=int, default=40_000, help="updates of each model, at most")
    parser.add_argument("--eflomal", help="path of eflomal-align")
    parser.add_argument("--only", nargs="+", choices=names)
    options, train_options = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not (options.folder / "dev.en").exists():
        write_texts(options.folder, options.data)
    chosen = options.only or [name for name in names if options.eflomal or "eflomal" not in name]
    missing = [name for name in chosen if not (options.folder / name / "bundle").exists()]
    for name in missing:
        family = name.partition("-")[0]
        if family in GUIDED and not (options.folder / f"{family}.en-de.links").exists():
            write_links(options.folder, family, options.eflomal)
        train(options.folder, name, options.updates, options.time, train_options)
    print_values("aer_models", {"trained": len(missing)})


if __name__ == "__main__":
    main()
