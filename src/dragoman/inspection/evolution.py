"""The evolution of attention during training: statistics of each head on probe sentences at several updates.

The folder `probe` of a training run has one folder per snapshot: `00000200` holds the traces made after update 200
(`0.trace`, `1.trace`, ..., one per probe sentence) and `moment.json`. A snapshot folder gets its final name when it is
complete, so that no half-written snapshot is read while the run is training. Reading needs neither a model nor torch.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field, ValidationError
from rich.table import Table

from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import Kind
from dragoman.config import Config
from dragoman.inspection.heads import HeadSummary, Label, summarise_heads
from dragoman.inspection.trace import REMEDY, Trace
from dragoman.inspection.view import KINDS
from dragoman.io.durable import DamageError
from dragoman.io.progress import Progress, ignore_progress

PROBE: Final = "probe"
SNAPSHOT: Final = "moment.json"

Number = Literal["entropy", "alignment", "sink_share"]

NUMBERS: Final[dict[Number, str]] = {
    "entropy": "entropy of the attention weights over the largest possible (0: one token, 1: all alike)",
    "alignment": "alignment (the weight of the source word that has most, times the share of words so chosen)",
    "sink_share": "share of the attention weights on marks and punctuation",
}
ROLES: Final[dict[Label, tuple[str, str]]] = {
    "alignment": ("A", "#123b66"),
    "previous token": ("P", "#3f7fbf"),
    "next token": ("N", "#5fae7f"),
    "same word": ("W", "#b59fd0"),
    "sink": ("S", "#f0b070"),
    "mixed": ("M", "#dcdcdc"),
    "diffuse": ("D", "#ffffff"),
}
"""The letter and the colour of each label; the colours also differ in lightness."""
_BAR: Final = 8
"""The width of a table bar, in characters."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


class ProbeSnapshot(Config):
    """The metadata of a snapshot: the update, the origin of the weights, and the validation scores."""

    update: int = Field(ge=0, description="number of updates made before the trace; 0 is before training")
    which: str = Field(description="origin of the traced weights, such as update 200 or the average of 5 snapshots")
    is_average: bool = Field(False, description="true for the average of weights at the end of training")
    best: bool = Field(False, description="true if this validation is the best so far; the run keeps the best weights")
    loss: float | None = Field(None, description="validation loss, in nats per token")
    bleu: float | None = Field(None, description="validation BLEU")
    chrf: float | None = Field(None, description="validation chrF")

    def __str__(self) -> str:
        return "average" if self.is_average else f"update {self.update:,}"


def save_snapshot(snapshot: ProbeSnapshot, traces: Sequence[Trace], run: Path) -> None:
    """Save the traces of one snapshot in a run folder."""
    name = f"{snapshot.update:08}{'-average' if snapshot.is_average else ''}"
    beside = run / PROBE / f".{name}.unfinished"
    beside.mkdir(parents=True)
    for sentence, trace in enumerate(traces):
        trace.save(beside / f"{sentence}.trace", is_compact=True)
    (beside / SNAPSHOT).write_text(snapshot.model_dump_json(indent=2) + "\n", encoding="utf-8")
    beside.rename(run / PROBE / name)


def snapshot_folders(run: Path) -> list[Path]:
    """Return the snapshot folders of a run, oldest first; raise ValueError if there are none."""
    if not run.is_dir():
        problem = "this is a file" if run.exists() else "there is no such folder"
        raise ValueError(f"{run}: {problem}; give the folder of a run made by dragoman train")
    if not (run / PROBE).is_dir():
        raise ValueError(f"{run}: {_describe_missing_probe(run)}")
    folders = sorted(folder for folder in (run / PROBE).iterdir() if folder.is_dir() and folder.name[0] != ".")
    if not folders:
        raise ValueError(f"{run}: the first probe is not complete yet; try again in a minute")
    return folders


def load_snapshot(folder: Path) -> ProbeSnapshot:
    """Read the metadata of a snapshot from `moment.json`."""
    try:
        return ProbeSnapshot.model_validate_json((folder / SNAPSHOT).read_bytes())
    except (OSError, ValidationError) as error:
        raise DamageError(folder / SNAPSHOT, "the file cannot be read", _remedy(folder)) from error


def load_traces(folder: Path) -> list[Trace]:
    """Read all traces in a snapshot folder, in sentence order."""
    return [load_sentence(folder, sentence) for sentence in range(len(list(folder.glob("*.trace"))))]


def load_sentence(folder: Path, sentence: int) -> Trace:
    """Read the trace of one sentence (counted from 0) in a snapshot folder."""
    path = folder / f"{sentence}.trace"
    try:
        return Trace.load(path)
    except ValueError as error:
        # A single trace is made again, a snapshot cannot be: the message keeps the problem, with another remedy.
        problem = str(error).removeprefix(f"{path}: ").removesuffix(f"; {REMEDY}")
        raise DamageError(path, problem, _remedy(folder)) from error


def _remedy(folder: Path) -> str:
    return f"remove the folder {folder.name} to see the other snapshots"


def _describe_missing_probe(run: Path) -> str:
    above = run.absolute().parent
    if (above / PROBE).is_dir():
        return f"this is a folder inside a run; give the folder of the run: {above}"
    if (run / "recipe.yaml").is_file():
        return "nothing was traced because validation.probe was 0; train again with validation.probe=1 or more"
    return "this is not the folder of a run; give a folder made by dragoman train"


@dataclass(frozen=True)
class HeadHistory:
    """The statistics of one head at every snapshot, under the field names of `HeadSummary`."""

    name: str
    kind: Kind
    layer: int
    """The layer number, from 0, among the attentions of the same kind."""
    head: int
    entropy: tuple[float | None, ...]
    sink_share: tuple[float, ...]
    alignment: tuple[float | None, ...]
    label: tuple[Label, ...]
    evidence: tuple[str, ...]

    def __str__(self) -> str:
        return f"layer {self.layer} head {self.head}"

    @property
    def short(self) -> str:
        """The short name of the head, such as L1H0."""
        return f"L{self.layer}H{self.head}"

    def numbers(self, number: Number) -> tuple[float | None, ...]:
        """Return the values of one statistic, one per snapshot."""
        return {"entropy": self.entropy, "alignment": self.alignment, "sink_share": self.sink_share}[number]


@dataclass(frozen=True)
class Evolution:
    """The snapshots of a run, oldest first, and the statistics of every head at each snapshot."""

    run: Path
    snapshots: tuple[ProbeSnapshot, ...]
    folders: tuple[Path, ...]
    sentences: tuple[tuple[str, str], ...]
    """The source and the reference of each probe sentence."""
    histories: tuple[HeadHistory, ...]
    """The histories of all heads, ordered by kind of attention and then by layer."""
    units: str
    """The units that alignment links connect, such as `source words and target pieces`."""

    @property
    def kept(self) -> int | None:
        """The index of the best snapshot by validation, whose weights the run keeps; None if there is none."""
        return max((i for i, snapshot in enumerate(self.snapshots) if snapshot.best), default=None)

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of attention that the traced model has."""
        return [kind for kind in KINDS if any(history.kind == kind for history in self.histories)]

    @property
    def about(self) -> str:
        """The number of sentences and the name of the run, for captions."""
        count = len(self.sentences)
        sentences = f"{count} probe sentence{'s' if count > 1 else ''}"
        return f"{sentences}, forced (teacher forcing) on the reference; run {self.run.absolute().name}"

    def heads(self, kind: Kind | None) -> list[HeadHistory]:
        """Return the heads of one kind of attention, or all heads; raise ValueError if there are none."""
        heads = [history for history in self.histories if kind in (None, history.kind)]
        if not self.histories:
            raise ValueError(f"{self.run}: this model has no attention; give a run of a model with attention")
        if not heads:
            raise ValueError(f"{self.run}: this model has no {kind} attention; choose {' or '.join(self.kinds)}")
        return heads

    def head(self, kind: Kind, layer: int, head: int) -> HeadHistory:
        """Return one head by layer and head number; layer -1 is the last layer."""
        heads = self.heads(kind)
        last = heads[-1].layer
        of_layer = [history for history in heads if history.layer == (layer if layer >= 0 else last + 1 + layer)]
        if not of_layer:
            raise ValueError(f"there is no layer {layer}: choose 0 to {last}, or -1 for the last")
        if not 0 <= head < len(of_layer):
            raise ValueError(f"there is no head {head}: choose 0 to {len(of_layer) - 1}")
        return of_layer[head]

    def standout(self, kind: Kind, snapshot: int | None = None) -> HeadHistory:
        """Return the head to highlight: the best aligned in cross-attention, the lowest entropy in self-attention.

        `snapshot` defaults to the snapshot whose weights are kept.
        """
        kept = len(self.snapshots) - 1 if self.kept is None else self.kept
        at, heads = kept if snapshot is None else snapshot, self.heads(kind)
        if kind == "cross":
            return max(heads, key=lambda history: history.alignment[at] or 0.0)
        return min(heads, key=lambda history: history.entropy[at] or 0.0)

    def traces(self, sentence: int) -> list[Trace]:
        """Read the traces of one sentence (counted from 0) at every snapshot."""
        return [load_sentence(folder, sentence) for folder in self.folders]

    @property
    def info(self) -> "EvolutionInfo":
        """What the pages read: all but the traces."""
        return EvolutionInfo(
            run=self.run.absolute().name,
            folders=tuple(folder.name for folder in self.folders),
            snapshots=self.snapshots,
            kept=self.kept,
            sentences=self.sentences,
            units=self.units,
            heads=self.histories,
        )

    def to_json(self) -> str:
        """Return all snapshots and heads as JSON; each statistic of a head has one value per snapshot."""
        record = {
            "run": str(self.run),
            "target_is": "forced",
            "rows": "written",
            "measures": {**NUMBERS, "alignment": f"{NUMBERS['alignment']}, between {self.units}"},
            "sentences": [{"source": source, "target": target} for source, target in self.sentences],
            "snapshots": [snapshot.model_dump() for snapshot in self.snapshots],
            "kept": self.kept,
            "heads": [asdict(history) for history in self.histories],
        }
        return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


class EvolutionInfo(Config):
    """The evolution of a run as the pages read it; the traces are files of their own."""

    run: str = Field(description="name of the run folder")
    folders: tuple[str, ...] = Field(description="name of each snapshot's folder")
    snapshots: tuple[ProbeSnapshot, ...]
    kept: int | None = Field(description="index of the snapshot whose weights are kept; null if there is none")
    sentences: tuple[tuple[str, str], ...] = Field(description="source and reference of each probe sentence")
    units: str = Field(description="what alignment links connect, such as source words and target words")
    heads: tuple[HeadHistory, ...]


@dataclass(frozen=True)
class SnapshotSummary:
    """A snapshot without its traces: the statistics of every head."""

    folder: Path
    snapshot: ProbeSnapshot
    sentences: tuple[tuple[str, str], ...]
    units: str
    heads: tuple[HeadSummary, ...]


def read_evolution(run: Path, progress: Progress = ignore_progress) -> Evolution:
    """Read all snapshots that a run has so far; the run may still be training."""
    folders = snapshot_folders(run)
    summaries = []
    for i, folder in enumerate(folders):
        progress("read the probes", i, len(folders))
        summaries.append(summarise_snapshot(folder))
    return join_snapshots(run, summaries)


def summarise_snapshot(folder: Path) -> SnapshotSummary:
    """Read the traces of one snapshot, and summarise its heads."""
    traces = load_traces(folder)
    sentences = tuple((trace.source.text, trace.target.text) for trace in traces)
    heads = tuple(summarise_heads(in_units(traces)))
    return SnapshotSummary(folder, load_snapshot(folder), sentences, _units(traces), heads)


def join_snapshots(run: Path, summaries: Sequence[SnapshotSummary]) -> Evolution:
    """Return the evolution of a run from its snapshots, oldest first; raise ValueError if their sentences differ."""
    first = summaries[0]
    for summary in summaries:
        if summary.sentences != first.sentences:
            wrong = f"{summary.folder}: the probe sentences differ from {first.folder.name}"
            raise ValueError(f"{wrong}; remove one of the folders")
    folders, snapshots = (tuple(getattr(summary, part) for summary in summaries) for part in ("folder", "snapshot"))
    histories = tuple(_histories([summary.heads for summary in summaries]))
    return Evolution(run, snapshots, folders, first.sentences, histories, first.units)


def in_units(traces: Sequence[Trace]) -> list[Trace]:
    """Return traces in which every token counts as a word, if a language is written without spaces.

    Without word boundaries, a sentence would be a single word, which aligns with anything. Source and target are
    checked separately.
    """
    source, target = _is_unspaced(traces)
    if source:
        traces = [replace(trace, source=_by_piece(trace.source)) for trace in traces]
    return [replace(trace, target=_by_piece(trace.target)) for trace in traces] if target else list(traces)


def _units(traces: Sequence[Trace]) -> str:
    source, target = ("pieces" if unspaced else "words" for unspaced in _is_unspaced(traces))
    return f"source {source} and target {target}"


def _is_unspaced(traces: Sequence[Trace]) -> tuple[bool, bool]:
    """Return, for source and target, True if sentences have fewer than two words on average."""
    num_words = np.array([(len(trace.source.word_spans), len(trace.target.word_spans)) for trace in traces]).sum(0)
    return bool(num_words[0] < 2 * len(traces)), bool(num_words[1] < 2 * len(traces))


def _by_piece(tokens: Tokens) -> Tokens:
    numbers = count()
    words = tuple(-1 if word < 0 else next(numbers) for word in tokens.words)  # EOS and a language tag are no words
    return replace(tokens, text=" ".join("x" * next(numbers)), words=words)


def _histories(summaries: Sequence[Sequence[HeadSummary]]) -> list[HeadHistory]:
    names: dict[Kind, list[str]] = {
        kind: list(dict.fromkeys(first.name for first in summaries[0] if first.kind == kind)) for kind in KINDS
    }
    histories = []
    for first, *later in zip(*summaries, strict=True):
        series: dict[str, Any] = {
            part: tuple(getattr(summary, part) for summary in (first, *later))
            for part in ("entropy", "sink_share", "alignment", "label", "evidence")
        }
        layer = names[first.kind].index(first.name)
        histories.append(HeadHistory(first.name, first.kind, layer, first.head, **series))
    return sorted(histories, key=lambda history: list(KINDS).index(history.kind))


@dataclass(frozen=True)
class SnapshotRow:
    """One row of the evolution table: the summary of one snapshot."""

    snapshot: ProbeSnapshot
    is_kept: bool
    entropy: float | None
    """The mean entropy over the heads."""
    head: HeadHistory
    """The head chosen by `Evolution.standout`."""
    value: float | None
    """The alignment of `head` in cross-attention, otherwise the entropy of `head`."""
    roles: dict[Label, int]
    """The number of heads with each label; labels that no head has at any snapshot are left out."""


def snapshot_rows(evolution: Evolution, kind: Kind | None = None) -> list[SnapshotRow]:
    """Return one table row per snapshot for one kind of attention.

    Without a kind, roles are counted over all heads, and the other columns show the first kind that the model has.
    """
    heads = evolution.heads(kind or evolution.kinds[0])
    counted = evolution.heads(kind)
    labels = [label for label in ROLES if any(label in history.label for history in counted)]
    rows = []
    for i, snapshot in enumerate(evolution.snapshots):
        known = [value for history in heads if (value := history.entropy[i]) is not None]
        head = evolution.standout(heads[0].kind, i)
        value = head.alignment[i] if head.kind == "cross" else head.entropy[i]
        roles = Counter(history.label[i] for history in counted)
        by_label = {label: roles[label] for label in labels}
        entropy = sum(known) / len(known) if known else None
        rows.append(SnapshotRow(snapshot, i == evolution.kept, entropy, head, value, by_label))
    return rows


def headings(rows: list[SnapshotRow]) -> list[str]:
    """Return the column headings of the evolution table, with a letter for each role."""
    standout = "best aligned head" if rows[0].head.kind == "cross" else "sharpest head"
    return ["update", "", "BLEU", "entropy", standout, *(ROLES[label][0] for label in rows[0].roles)]


def table(rows: list[SnapshotRow], *, ascii_only: bool = False) -> Table:
    """Return the evolution table for a terminal of 80 columns, with bars from 0 to 1."""
    shown = Table(box=None, padding=(0, 1, 0, 0))
    for name, justify in zip(headings(rows), "rlrll" + "r" * len(rows[0].roles), strict=True):
        shown.add_column(name, justify="right" if justify == "r" else "left", no_wrap=True)
    for row in rows:
        shown.add_row(
            str(row.snapshot).removeprefix("update "),
            "*" if row.is_kept else "",
            format_number(row.snapshot.bleu, 1),
            f"{format_number(row.entropy)} {bar(row.entropy, ascii_only)}",
            f"{format_number(row.value)} {bar(row.value, ascii_only)} {row.head.short}",
            *(str(count or "-") for count in row.roles.values()),
        )
    return shown


def legend(rows: list[SnapshotRow]) -> str:
    """Return the legend of the evolution table, with the role of each letter."""
    roles = ", ".join(f"{ROLES[label][0]} {label}" for label in rows[0].roles)
    return f"Heads are counted by role: {roles}. L1H0 is layer 1 head 0; * marks the weights that are kept."


def bar(value: float | None, ascii_only: bool = False) -> str:
    """Return a bar of constant width for a value from 0 to 1."""
    eighths = round(8 * _BAR * min(1.0, max(0.0, value or 0.0)))
    if ascii_only:
        return ("#" * round(eighths / 8)).ljust(_BAR)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)


def format_number(value: float | None, digits: int = 2) -> str:
    """Return a number with `digits` decimals, or a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"
