"""What `dragoman inspect` is asked for: refused before anything is computed if it makes no sense, and then done."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from dragoman.data.alignment import Measure, Rows
    from dragoman.inspection.choice import Choice
    from dragoman.inspection.heads import HeadHabit
    from dragoman.inspection.inspector import Inspector
    from dragoman.inspection.intervention import Interventions
    from dragoman.inspection.trace import Kind, Trace

CHOICES: Final = {
    "--kind": ("cross", "encoder", "decoder"),
    "--rows": ("written", "read"),
    "--measure": ("attention", "norm"),
}


class Look(NamedTuple):
    """Which map; None where the trace decides."""

    kind: str | None = None
    layer: int | None = None
    head: str | None = None
    rows: str | None = None
    measure: str | None = None
    words: bool = False
    hide_sinks: bool = False
    every_head: bool = False

    def refuse(self) -> None:
        """What needs no trace to be seen as a mistake."""
        for option, value in {"--kind": self.kind, "--rows": self.rows, "--measure": self.measure}.items():
            if value is not None and value not in CHOICES[option]:
                raise ValueError(f"{option} {value}: choose {' or '.join(CHOICES[option])}")
        if self.head is not None and self.head != "mean" and not self.head.isdecimal():
            raise ValueError(f"--head {self.head}: give its number, from 0, or mean")
        if self.every_head:
            of_a_map = {
                "--layer": self.layer, "--head": self.head, "--rows": self.rows, "--measure": self.measure,
                "--words": self.words, "--hide-sinks": self.hide_sinks,
            }  # fmt: skip
            _refuse_any(of_a_map, "--heads is about every head: leave out")
        if self.kind == "encoder" and self.rows is not None:
            raise ValueError("--rows is about the target, and the encoder reads the source: leave out --rows")
        if self.kind not in (None, "cross") and self.words:
            raise ValueError("--words merges target words and source words: leave out --kind, or --words")

    def choice(self, trace: "Trace") -> "Choice":
        """The map that is meant."""
        from dragoman.inspection.choice import choose

        chosen = choose(
            trace,
            cast("Kind", self.kind or "cross"),
            self.layer,
            "mean" if self.head == "mean" else None if self.head is None else int(self.head),
            cast("Rows | None", self.rows),
            cast("Measure | None", self.measure),
        )
        return replace(chosen, by_word=self.words, hide_sinks=self.hide_sinks)

    def habits(self, trace: "Trace") -> "list[HeadHabit] | None":
        """Of every head of the kind, if that is what is asked for."""
        if not self.every_head:
            return None
        from dragoman.inspection.heads import head_habits

        return [habit for habit in head_habits([trace]) if self.kind in (None, habit.kind)]


class Task(NamedTuple):
    """What the model has to do; nothing, if a trace is opened."""

    sentence: list[str]
    trace: Path | None
    model: Path | None
    target: str | None
    beam: int | None
    without: str | None
    uniform: str | None
    counterfactual: bool
    history: bool
    save: Path | None

    def refuse(self) -> None:
        """What needs no model to be seen as a mistake."""
        if self.trace is not None:
            needs_model = {
                "the sentence": self.sentence, "--model": self.model, "--target": self.target, "--beam": self.beam,
                "--without": self.without, "--uniform": self.uniform, "--counterfactual": self.counterfactual,
                "--history": self.history, "--save": self.save,
            }  # fmt: skip
            _refuse_any(needs_model, "--trace opens what was traced before, without the model: leave out")
            return
        _refuse_sentence(self.sentence)
        if self.target is not None:
            _refuse_any(
                {"--beam": self.beam, "--history": self.history}, "a given target is not searched for: leave out"
            )
        if self.history and self.save is None:
            raise ValueError("--history is kept in a trace file: add --save FILE.trace")

    def done(self) -> "Seen":
        """The trace that was kept, or the one that the model makes now."""
        if self.trace is not None:
            from dragoman.inspection.trace_file import load

            return Seen(load(self.trace))
        from dragoman.bundle import demo_folder, open_bundle

        bundle = open_bundle(self.model or demo_folder())
        from dragoman.inspection.inspector import Inspector  # torch takes seconds: whoever mistyped is told before

        return self._traced(Inspector.of(bundle, self.beam))

    def _traced(self, inspector: "Inspector") -> "Seen":
        from dragoman.inspection.interventions import badge, intervene

        (text,) = self.sentence
        plain = inspector.trace(text, self.target, history=self.history)
        what_if = badge(inspector, [plain]).text if self.counterfactual else None
        changes = self._changes(list(plain.attention))
        if not changes:
            return Seen(plain, badge=what_if)
        return Seen(intervene(inspector, text, changes, self.target, history=self.history), plain, what_if)

    def _changes(self, names: list[str]) -> "Interventions":
        """To the attentions of these names."""
        from dragoman.inspection.intervention import Off, Uniform
        from dragoman.inspection.interventions import places

        typed_for: dict[type[Off] | type[Uniform], tuple[str, str | None]] = {
            Off: ("--without", self.without),
            Uniform: ("--uniform", self.uniform),
        }
        changes: list[Off | Uniform] = []
        for change, (option, typed) in typed_for.items():
            try:
                found = {} if typed is None else places(typed, names)
            except ValueError as error:
                raise ValueError(f"{option}: {error}") from error
            changes += [change(where=where, heads=heads) for where, heads in found.items()]
        return changes


class Seen(NamedTuple):
    """What there is to show."""

    trace: "Trace"
    unchanged: "Trace | None" = None
    """Of the model as it is, where the trace is of a changed one."""
    badge: str | None = None

    def notes(self) -> dict[str, str]:
        """What the trace does not hold, for files: the translation without the changes, and the counterfactual."""
        found = {}
        if self.unchanged is not None and self.unchanged.free:
            found["unchanged"] = self.unchanged.target.text
        if self.badge is not None:
            found["what if"] = self.badge + " (of the model as it is)" * bool(self.trace.interventions)
        return found


def _refuse_any(options: Mapping[str, object], why: str) -> None:
    """None of these may be given."""
    given = [name for name, value in options.items() if value is not None and value is not False and value != []]
    if given:
        raise ValueError(f"{why} {given[0]}")


def _refuse_sentence(sentence: list[str]) -> None:
    if not sentence:
        raise ValueError("which sentence? as in: dragoman inspect 'A sentence.'; or open a trace: --trace FILE")
    if len(sentence) > 1:
        first, *_ = sentence
        is_model = _named(first, Path.is_dir)
        raise ValueError(
            f"give the model with --model {first}" if is_model else "put the sentence into quotes: one, not more"
        )
    (text,) = sentence
    if not text.strip():
        raise ValueError("there is nothing to look into: the sentence is empty")
    if _named(text, Path.is_file):
        mend = f"to open a trace, give --trace {text}" if text.endswith(".trace") else "give one of its sentences"
        raise ValueError(f"{text} is a file: {mend}")


def _named(text: str, kind: Callable[[Path], bool]) -> bool:
    """Whether a text is the name of something; what is too long for a name is a text."""
    return len(text.encode(errors="surrogateescape")) < 256 and kind(Path(text))
