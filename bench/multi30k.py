"""Compare ideas on Multi30k honestly: equal minutes, several seeds, scores on val alone, one training after the other.

    python bench/multi30k.py FOLDER [--ideas base r-drop ...] [--time 25m] [--seeds 1] [options of `dragoman train`]

An idea changes keys of the recipe multi30k-en-de, or is a recipe file of its own (NAME.yaml). The learning rate of each
training falls to its end within the time. A training that is finished is not repeated, and one that was interrupted
resumes: the same command goes on, with more ideas, seeds or nothing new. Needs idle cores; the number of updates says
whether it had them.

BLEU is that of the kept weights on val, tokenised and lower-cased. With one seed the interval is a bootstrap over the
sentences, and p that of a paired test against the first idea; with several it is Student's t over the seeds. No test
set is read. FOLDER/table.md has the table.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.metrics import compare
from dragoman.experiment.run_state import is_finished
from dragoman.lab.experiment import Interval
from dragoman.translation.translator import Translator

RECIPE = "multi30k-en-de"
LONG = ["training.stop.updates=100000", "data.test=[]"]
"""The time ends every training, and no test set is translated."""

IDEAS: dict[str, list[str]] = {
    "base": [],
    "r-drop": ["training.loss.r_drop=5.0"],
    "r-drop-1": ["training.loss.r_drop=1.0"],
    "dropout-0.2": ["model.dropout=0.2"],
    "dropout-0.4": ["model.dropout=0.4"],
    "deeper-narrower": [
        "model.num_encoder_layers=6", "model.num_decoder_layers=6", "model.d_model=192", "model.d_ff=512",
    ],
    "deep-encoder": ["model.num_encoder_layers=6", "model.num_decoder_layers=2"],
    "wider": ["model.d_model=384", "model.d_ff=1536", "model.num_heads=6"],
    "batch-half": ["training.batch.tokens=1024"],
    "batch-double": ["training.batch.tokens=4096"],
    "rate-double": ["training.schedule.rate=2.4e-3"],
    "rate-half": ["training.schedule.rate=6e-4"],
    "smoothing-0.05": ["training.loss.label_smoothing=0.05"],
    "smoothing-0.2": ["training.loss.label_smoothing=0.2"],
    "bpe-4000": ["data.vocabulary.size=4000"],
    "bpe-10000": ["data.vocabulary.size=10000"],
    "bpe-dropout-0.05": ["training.subword_sampling=0.05"],
    "bpe-dropout-0.2": ["training.subword_sampling=0.2", "training.batch.headroom=1.3"],
    "post-norm": ["model.norm=post", "training.schedule.rate=4e-4", "training.schedule.warmup=4000"],
    "ema-0.999": ["training.ema=0.999"],
}  # fmt: skip
"""The recipe keys that each idea sets."""


class Trained(NamedTuple):
    """A finished training: its translation of val, and its number of updates."""

    lines: list[str]
    updates: int


def name_of(idea: str) -> str:
    """Return the name of an idea, or of a recipe file without its extension."""
    return Path(idea).name.removesuffix(".yaml")


def train(folder: Path, idea: str, seed: int, time: str, data: Path, options: Sequence[str]) -> Path:
    """Train an idea, unless it is trained already; return the folder of its run."""
    run = folder / name_of(idea) / f"seed-{seed}"
    if not is_finished(run):
        changes = [*LONG, *([] if idea.endswith(".yaml") else IDEAS[idea]), f"seed={seed}"]
        settings = [part for change in changes for part in ("--set", change)]
        recipe = idea if idea.endswith(".yaml") else RECIPE
        command = [sys.executable, "-m", "dragoman", "train", recipe, "--out", str(run), "--time", time]
        subprocess.run(
            [*command, *settings, *options],
            check=True,
            env={**os.environ, "DRAGOMAN_DATA": str(data)},
            stdout=sys.stderr,
        )
    return run


def read_trained(run: Path, source: Sequence[str]) -> Trained:
    """Return the translation of val by a finished model, which is made once, and the updates of its training."""
    path = run.with_name(f"{run.name}.val.de")
    if not path.exists():
        write_lines(path, Translator.load(run).translate(source))
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return Trained(read_lines(path), max(event.get("update", 0) for event in events))


def make_row(idea: str, trained: list[Trained], base: list[Trained], reference: list[str]) -> tuple[str, float]:
    """Return the row of an idea, and its BLEU: the mean over the seeds."""
    reading = MetricOptions(tokenised=True)
    is_base = trained is base
    scores = [
        [each for (each,) in compare([ours.lines, theirs.lines], [reference], ["bleu"], reading)]
        for ours, theirs in zip(base, trained, strict=True)
    ]
    values = [theirs.value for _, theirs in scores]
    gains = [theirs.value - ours.value for ours, theirs in scores]
    mean, gain, p = statistics.fmean(values), f"{statistics.fmean(gains):+.2f}", ""
    if len(values) > 1:
        interval = Interval.of(values)
        spread = Interval.of(gains)
        gain += f" ({spread.low:+.2f} to {spread.high:+.2f})"
    else:
        [[_, score]] = scores
        interval = Interval(mean=score.value, low=score.low, high=score.high)
        p = "" if is_base or score.p_value is None else f"{score.p_value:.3f}"
    updates = round(statistics.fmean(each.updates for each in trained))
    bleu = f"{mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    return f"| {name_of(idea)} | {len(values)} | {bleu} | {'' if is_base else gain} | {p} | {updates:,} |", mean


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--ideas", nargs="+", default=list(IDEAS), help="names of IDEAS, or recipe files; the first is the base"
    )
    parser.add_argument("--time", default="25m", help="time limit of each training")
    parser.add_argument("--seeds", type=int, default=1)
    options, extra = parser.parse_known_args()
    unknown = [idea for idea in options.ideas if idea not in IDEAS and not idea.endswith(".yaml")]
    if unknown:
        parser.error(f"there is no idea {unknown[0]}: give a recipe file, or one of {', '.join(IDEAS)}")
    val = options.data.resolve() / "multi30k/tok/val.lc.norm.tok"
    source, reference = (read_lines(f"{val}.{side}.gz") for side in ("en", "de"))
    trained: dict[str, list[Trained]] = {}
    for seed in range(1, options.seeds + 1):  # seed by seed, so that every idea has a first figure early
        for idea in options.ideas:
            run = train(options.folder, idea, seed, options.time, options.data.resolve(), extra)
            trained.setdefault(idea, []).append(read_trained(run, source))
    base = trained[options.ideas[0]]
    rows = {idea: make_row(idea, models, base, reference) for idea, models in trained.items()}
    lines = [
        f"| idea, {options.time} each | seeds | BLEU on val, 95 % | difference | p | updates |",
        "|---|---|---|---|---|---|",
        *(row for row, _ in rows.values()),
    ]
    write_lines(options.folder / "table.md", lines)
    print("\n".join(lines), flush=True)
    print_values("multi30k", {f"bleu_{name_of(idea)}": bleu for idea, (_, bleu) in rows.items()}, 2)


if __name__ == "__main__":
    main()
