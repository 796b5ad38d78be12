"""Compare all model families on Multi30k: equal minutes on one core each, several trainings side by side.

    python bench/families.py FOLDER [--only transformer bahdanau ...] [--time 29m] [--jobs 2] [`dragoman train` options]

English to German, lower-cased and tokenised, a vocabulary of 6,000 subwords, updates of 4,096 tokens, the weights with
the best BLEU on val. A training that is finished is not repeated, and one that was interrupted resumes.

BLEU is that of test_2016 with a 95 % interval, AER that of the head with the lowest error on the first 100 pairs of the
gold set of German and English Europarl, measured on the others; the models have never seen such text. Speed is in
tokens per second of training, and in sentences of test_2016 per second by our torch engine, on one thread, after all
trainings. FOLDER/table.md has the table. Needs --jobs idle cores.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

from dragoman.alignment.error_rate import alignment_score
from dragoman.alignment.moses import read_gold_of
from dragoman.bundle import Bundle, open_bundle
from dragoman.cli.align_run import AlignRun
from dragoman.decoding.options import EngineOptions
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.metrics import score_translations
from dragoman.experiment.run_state import is_finished
from dragoman.translation.translator import Translator

TRANSFORMER = [
    "model.dropout=0.2", "training.subword_sampling=0", "training.batch.headroom=1", "training.batch.tokens=4096",
    "training.batches_per_update=1", "training.stop.updates=100000", "training.validate_every=3m",
    "training.snapshots.every=null", "validation.max_pairs=300", "validation.search.penalty.alpha=0.6",
]  # fmt: skip
"""What makes the recipe of the long trainings one for half an hour on one core."""

SMALL = ["model.d_model=256", "model.d_embedding=256", "model.dropout=0.3", "model.tie=target"]
"""The sizes of the recipes of recurrent models: another preset brings its own."""

POST_NORM = ["model.norm=post", "training.schedule.rate=4e-4", "training.schedule.warmup=400"]


class Family(NamedTuple):
    """A model family: its recipe, the keys that it sets, and its title in the table."""

    recipe: str
    changes: list[str]
    title: str


FAMILIES = {
    "cho": Family(
        "multi30k-en-de-bahdanau",
        ["model.preset=cho", *SMALL, "model.num_layers=1"],
        "GRU, the source as one vector (2014)",
    ),
    "sutskever": Family(
        "multi30k-en-de-luong-general",
        ["model.preset=sutskever", *SMALL, "model.num_layers=2"],
        "LSTM, reversed source as its state (2014)",
    ),
    "tanh": Family("multi30k-en-de-bahdanau", ["model.cell=tanh"], "plain tanh cells, additive attention"),
    "bahdanau": Family("multi30k-en-de-bahdanau", [], "GRU, additive attention (2015)"),
    "luong": Family("multi30k-en-de-luong-general", [], "LSTM, attention by q . W k (2015)"),
    "convs2s": Family("multi30k-en-de-convs2s", [], "convolutions, attention in every layer (2017)"),
    "post-norm": Family("multi30k-en-de", TRANSFORMER + POST_NORM, "Transformer, as in the paper (2017)"),
    "transformer": Family("multi30k-en-de", TRANSFORMER, "Transformer, pre-norm (2019)"),
    "modern": Family(
        "multi30k-en-de",
        [*TRANSFORMER, "model.positions=rotary", "model.activation=swish"],
        "Transformer, pre-norm, rotary, swish (2021)",
    ),
}
COMMON = ["data.test=[]", "seed=1"]
NUM_CHOSEN_ON = 100


def train(folder: Path, name: str, time_limit: str, data: Path, options: list[str]) -> None:
    """Train a family on one core, unless it is trained already."""
    family, run = FAMILIES[name], folder / name
    if is_finished(run):
        return
    settings = [part for change in (*family.changes, *COMMON) for part in ("--set", change)]
    command = [sys.executable, "-m", "dragoman", "train", family.recipe, "--out", str(run), "--time", time_limit]
    environment = {**os.environ, "DRAGOMAN_DATA": str(data), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, "--processes", "1", "--quiet", *settings, *options], check=True, env=environment, stdout=sys.stderr
    )


def alignment_error(bundle: Bundle, data: Path) -> float | None:
    """Return the AER in percent of the best head on pairs that it was not chosen on; None without attention."""
    source, target = (read_lines(data / f"align-de-en/test.{code}.gz") for code in ("en", "de"))
    lines = read_lines(data / "align-de-en/gold.talp.gz")
    gold = read_gold_of(lines, source, target, "gold.talp", swap=True)
    first, rest = (
        AlignRun([bundle], source[part], target[part], gold[part])
        for part in (slice(NUM_CHOSEN_ON), slice(NUM_CHOSEN_ON, None))
    )
    if not first.names[0]:
        return None
    with contextlib.redirect_stdout(io.StringIO()):  # the ranking of all heads
        heads = first.search_heads(None, "gold.talp")
    links = rest.links(heads, "intersection")["model"]
    return 100 * alignment_score(links, gold[NUM_CHOSEN_ON:]).aer


class Row(NamedTuple):
    """The figures of a trained family."""

    parameters: int
    updates: int
    tokens_per_second: float
    sentences_per_second: float
    bleu: float
    low: float
    high: float
    aer: float | None

    def cells(self) -> list[str]:
        speed = [f"{self.tokens_per_second:,.0f}", f"{self.sentences_per_second:.1f}"]
        score = f"{self.bleu:.1f} ({self.low:.1f} to {self.high:.1f})"
        aer = "none" if self.aer is None else f"{self.aer:.1f}"
        return [f"{self.parameters / 1e6:.1f} M", f"{self.updates:,}", *speed, score, aer]


def measure(run: Path, data: Path) -> Row:
    """Measure a trained model; its translation of test_2016 stays beside its run."""
    test = data / "multi30k/tok/test_2016_flickr.lc.norm.tok"
    source, reference = (read_lines(f"{test}.{side}.gz") for side in ("en", "de"))
    bundle = open_bundle(run)
    translator = Translator.load(bundle, EngineOptions("torch", 1))
    translator.translate(source[:2])
    begin = time.perf_counter()
    lines = translator.translate(source)
    speed = len(source) / (time.perf_counter() - begin)
    write_lines(run.with_name(f"{run.name}.de"), lines)
    score = score_translations(lines, [reference], ("bleu",), MetricOptions(tokenised=True))["bleu"]
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    rates = [event["tokens_per_second"] for event in events if event["event"] == "update"]
    updates = max(event.get("update", 0) for event in events)
    size = sum(weight.size for weight in bundle.weights().values())
    mean_rate = sum(rates) / max(1, len(rates))
    return Row(size, updates, mean_rate, speed, score.value, score.low, score.high, alignment_error(bundle, data))


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--time", default="29m", help="time limit of each training")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time, each on one core")
    options, extra = parser.parse_known_args()
    folder, data = options.folder.resolve(), options.data.resolve()
    with ThreadPoolExecutor(options.jobs) as pool:
        trainings = [pool.submit(train, folder, name, options.time, data, extra) for name in options.only]
    for training in trainings:
        training.result()
    lines = [
        f"| model, {options.time} on one core | parameters | updates | tokens/s | sentences/s | BLEU, 95 % | AER |",
        "|---|---|---|---|---|---|---|",
    ]
    values: dict[str, float] = {}
    for name in options.only:
        row = measure(folder / name, data)
        lines.append(f"| `{name}`: {FAMILIES[name].title} | {' | '.join(row.cells())} |")
        key = name.replace("-", "_")
        values |= {f"{key}_bleu": row.bleu, f"{key}_tokens_per_second": row.tokens_per_second}
        values |= {} if row.aer is None else {f"{key}_aer": row.aer}
    write_lines(folder / "table.md", lines)
    print("\n".join(lines), flush=True)
    print_values("families", values, 2)


if __name__ == "__main__":
    main()
