"""Train models whose attention aligns words, small Transformers and a Bahdanau, both ways, and score their links.

    python bench/aer_models.py FOLDER [--data DATA] [--time 38m] [--updates N] [--eflomal PROGRAM]
        [--only transformer-de-en ...] [`train` options]

The pairs of Tatoeba and LibreOffice in DATA, lower-cased and tokenised like the gold set, go to FOLDER as general.de,
general.en (bench/aligners.py reads the same files), dev.de and dev.en. Then the models are trained one after the other
with two processes each: `transformer`, and the same with one head guided by the links of IBM model 1 (`ibm1`), of
`dragoman align` without a model (`learned`) or of eflomal (`eflomal`, if its program is given), all symmetrised; and
`bahdanau`. A model that exists is not trained again. --updates makes trainings equal, whatever else the machine does.

Then the links of all families with models in both directions are scored: of each direction, and symmetrised in every
way. The gold set has 508 pairs. Unguided models align by the head with the lowest error rate on the first 100, guided
ones by the head that was guided; error rates are of the other 408. The gold set is Europarl and the training text is
not: the error rates of all aligners suffer from that. BLEU is of the first 2,000 lines of Tatoeba's test set of 2021,
in lower case and tokenised alike, with the p-value of the difference from the unguided model.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args

from aligners import pairs, read_links, write
from ibm1 import train as train_ibm1
from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

import dragoman
from dragoman.alignment.error_rate import alignment_score
from dragoman.alignment.learned_links import learn_both_directions
from dragoman.alignment.links import Links, swap
from dragoman.alignment.moses import read_gold, to_moses
from dragoman.alignment.symmetrise import Symmetrisation, symmetrise_all
from dragoman.bundle import open_bundle
from dragoman.cli.align_run import AlignRun
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.metrics import compare

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
NUM_CHOSEN_ON = 100
NUM_TRANSLATED = 2000
TOKENISED = MetricOptions(tokenised=True)


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


def score(folder: Path, data: Path, families: list[str]) -> dict[str, float]:
    """Print the scores of the models of each family; return the error rates and BLEU, both in percent."""
    gold_set = {language: read_lines(data / f"align-de-en/test.{language}.gz") for language in ("de", "en")}
    gold = list(read_gold(read_lines(data / "align-de-en/gold.talp.gz"), "gold.talp"))
    texts = {
        language: [
            tokenise(line) for line in read_lines(data / f"tatoeba-en-de/test_2021.{language}.gz")[:NUM_TRANSLATED]
        ]
        for language in ("de", "en")
    }
    values: dict[str, float] = {}
    baselines: dict[str, list[str]] = {}
    for family in families:
        bundles = [open_bundle(folder / f"{family}-{a}-{b}" / "bundle") for a, b in DIRECTIONS]
        print(f"\n== {family}", flush=True)
        first, rest = (
            AlignRun(bundles, gold_set["de"][part], gold_set["en"][part], gold[part])
            for part in (slice(NUM_CHOSEN_ON), slice(NUM_CHOSEN_ON, None))
        )
        heads = [()] * 2 if family in GUIDED else first.search_heads(None, "gold.talp")
        links = rest.links(heads, "intersection")
        both = links["forward"], links["backward"]
        links |= {method: symmetrise_all(*both, method) for method in get_args(Symmetrisation)}
        for way, of_pairs in links.items():
            result = alignment_score(of_pairs, gold[NUM_CHOSEN_ON:])
            low, high = result.interval()
            print(f"{way:20} AER {100 * result.aer:.1f} [{100 * low:.1f}, {100 * high:.1f}]", flush=True)
            values[f"{family}_{way.replace('-', '_')}_aer"] = 100 * result.aer
        for bundle, (source, target) in zip(bundles, DIRECTIONS, strict=True):
            translations = dragoman.load(bundle.folder).translate(texts[source], split=False, protect=False)
            baseline = baselines.setdefault(source, translations)
            *_, (bleu,) = compare([baseline, translations], [texts[target]], ("bleu",), TOKENISED)
            p_value = "" if translations is baseline else f", p = {bleu.p_value:.3f}"
            print(f"BLEU {source}-{target} {bleu.value:.1f} ({bleu.low:.1f} to {bleu.high:.1f}){p_value}", flush=True)
            values[f"{family}_{source}_{target}_bleu"] = bleu.value
    return values


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
    trained = [
        family
        for family in FAMILIES
        if all((options.folder / f"{family}-{a}-{b}" / "bundle").exists() for a, b in DIRECTIONS)
    ]
    print_values("aer_models", {"trained": len(missing), **score(options.folder, options.data, trained)}, 2)


if __name__ == "__main__":
    main()
