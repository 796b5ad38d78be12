"""How a model's attention came to be: what every head did with the same sentences, again and again while it trained.

Reading takes no model and no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from dragoman.data.progress import Progress
from dragoman.inspection.heads import HeadHabit, Label, head_habits
from dragoman.inspection.moments import Moment, load_moment, load_sentence, load_traces, moment_folders
from dragoman.inspection.trace import Kind, Tokens, Trace
from dragoman.inspection.view import KINDS

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
"""The letter and the colour of each label. The colours differ in lightness too, but the letter is what counts."""


@dataclass(frozen=True)
class Course:
    """One head over all moments; each number is what `HeadHabit` says it is."""

    name: str
    kind: Kind
    layer: int
    """Among the attentions of its kind, from 0."""
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
        """Its name where there is little room."""
        return f"L{self.layer}H{self.head}"

    def numbers(self, number: Number) -> tuple[float | None, ...]:
        """One of its series, by name."""
        series: dict[Number, tuple[float | None, ...]] = {
            "entropy": self.entropy, "alignment": self.alignment, "sink_share": self.sink_share
        }  # fmt: skip
        return series[number]


@dataclass(frozen=True)
class Evolution:
    """A run's moments, oldest first, and what every head did in each of them."""

    run: Path
    moments: tuple[Moment, ...]
    folders: tuple[Path, ...]
    sentences: tuple[tuple[str, str], ...]
    """Source and reference of each."""
    courses: tuple[Course, ...]
    """Kind by kind, from the lowest layer up."""
    units: str
    """What alignment was measured between."""

    @property
    def kept(self) -> int | None:
        """The moment whose weights the run keeps, as far as it has come."""
        return max((i for i, moment in enumerate(self.moments) if moment.best), default=None)

    @property
    def kinds(self) -> list[Kind]:
        """Those that this model has."""
        return [kind for kind in KINDS if any(course.kind == kind for course in self.courses)]

    @property
    def about(self) -> str:
        """What the numbers are from, for captions."""
        count = len(self.sentences)
        sentences = f"{count} probe sentence{'s' if count > 1 else ''}"
        return f"{sentences}, forced (teacher forcing) on the reference; run {self.run.absolute().name}"

    def of(self, kind: Kind | None) -> list[Course]:
        """The heads of one kind, or all of them; refused if there are none."""
        found = [course for course in self.courses if kind in (None, course.kind)]
        if not self.courses:
            raise ValueError(f"{self.run}: this model has no attention, so there is nothing to watch come to be")
        if not found:
            raise ValueError(f"{self.run}: this model has no {kind} attention; it has {' and '.join(self.kinds)}")
        return found

    def course(self, kind: Kind, layer: int, head: int) -> Course:
        """One head by its numbers; a layer of -1 is the last one."""
        heads = self.of(kind)
        last = heads[-1].layer
        found = [course for course in heads if course.layer == (layer if layer >= 0 else last + 1 + layer)]
        if not found:
            raise ValueError(f"there is no layer {layer}: choose 0 to {last}, or -1 for the last")
        if not 0 <= head < len(found):
            raise ValueError(f"there is no head {head}: choose 0 to {len(found) - 1}")
        return found[head]

    def telling(self, kind: Kind, moment: int | None = None) -> Course:
        """The head that stands out, in the weights that are kept if nothing is said: of cross-attention the best
        aligned, else the sharpest.
        """
        kept = len(self.moments) - 1 if self.kept is None else self.kept
        at, heads = kept if moment is None else moment, self.of(kind)
        if kind == "cross":
            return max(heads, key=lambda course: course.alignment[at] or 0.0)
        return min(heads, key=lambda course: course.entropy[at] or 0.0)

    def traces(self, sentence: int) -> list[Trace]:
        """One sentence at every moment; sentences are counted from 0."""
        return [load_sentence(folder, sentence) for folder in self.folders]


def read_evolution(run: Path, progress: Progress = lambda *_: None) -> Evolution:
    """All that a run has traced by now; it may still be training."""
    folders = moment_folders(run)
    moments: list[Moment] = []
    habits: list[list[HeadHabit]] = []
    sentences: tuple[tuple[str, str], ...] = ()
    units = ""
    for i, folder in enumerate(folders):
        progress("read the probes", i, len(folders))
        traces = load_traces(folder)
        read = tuple((trace.source.text, trace.target.text) for trace in traces)
        sentences, units = sentences or read, units or _units(traces)
        if read != sentences:
            raise ValueError(f"{folder}: these are not the sentences of {folders[0].name}; take one of them away")
        moments.append(load_moment(folder))
        habits.append(head_habits(in_units(traces)))
    return Evolution(run, tuple(moments), tuple(folders), sentences, tuple(_courses(habits)), units)


def in_units(traces: Sequence[Trace]) -> list[Trace]:
    """Where one side is written without spaces, as Japanese and ISO dates are, every piece of it counts as a word:
    a whole sentence that is one word aligns with anything.
    """
    source, target = _unspaced(traces)
    return [
        replace(
            trace,
            source=_by_piece(trace.source) if source else trace.source,
            target=_by_piece(trace.target) if target else trace.target,
        )
        for trace in traces
    ]


def _units(traces: Sequence[Trace]) -> str:
    source, target = ("pieces" if unspaced else "words" for unspaced in _unspaced(traces))
    return f"source {source} and target {target}"


def _unspaced(traces: Sequence[Trace]) -> tuple[bool, bool]:
    """Which sides have fewer than two words a sentence."""
    num_source = sum(len(trace.source.word_spans) for trace in traces)
    num_target = sum(len(trace.target.word_spans) for trace in traces)
    return num_source < 2 * len(traces), num_target < 2 * len(traces)


def _by_piece(tokens: Tokens) -> Tokens:
    count = len(tokens) - 1  # EOS is no word
    return replace(tokens, text=" ".join("x" * count), words=(*range(count), -1))


def _courses(habits: Sequence[Sequence[HeadHabit]]) -> list[Course]:
    layers: dict[Kind, list[str]] = {}
    found = []
    for of_head in zip(*habits, strict=True):
        habit = of_head[0]
        names = layers.setdefault(habit.kind, [])
        if habit.name not in names:
            names.append(habit.name)
        series: dict[str, Any] = {
            part: tuple(getattr(one, part) for one in of_head)
            for part in ("entropy", "sink_share", "alignment", "label", "evidence")
        }
        found.append(Course(habit.name, habit.kind, names.index(habit.name), habit.head, **series))
    return sorted(found, key=lambda course: list(KINDS).index(course.kind))
