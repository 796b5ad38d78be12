"""Many translations, those that need a look first: ranked by their flags, as a table and as JSON lines."""

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pydantic import Field
from rich.table import Table
from rich.text import Text

from dragoman.config import Config
from dragoman.data.alignment import AlignmentHead
from dragoman.inspection.flag import Flag, FlagRules, several
from dragoman.inspection.flags import LEFT_ALONE, flags_of_text, flags_of_trace
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MEASURES, ROWS

ENOUGH: Final = 20
"""So many pairs tell what is usual."""

CAVEAT: Final = "A flag is a reason to look, not a verdict. What has no flag may be wrong too."
SEVERITY: Final = (
    "Severity: from 0 to 1, how bad a flag would be if it is what it looks like; that of a line is of all its flags "
    "together, as if each were a chance of its own."
)

_DENSE: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Of scripts in which a character says as much as several letters do."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A translation to be looked at. With a trace, the texts are the trace's own: its spans count in those."""

    source: str
    target: str
    trace: Trace | None = None
    share: np.ndarray | None = None
    """[target], the source share of each token of the trace."""


class Triaged(Config):
    """A translation and what was found in it."""

    number: int = Field(ge=1, description="its place in what was given, from 1")
    severity: float = Field(ge=0.0, le=1.0, description="of all its flags together")
    source: str
    target: str
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class Account:
    """How a triage was made: by which measures, and with which model. It goes with every list of flags."""

    rules: FlagRules
    model: str = ""
    """Which one, and whether it chose the targets itself; empty if only texts were looked at."""
    head: AlignmentHead | None = None
    has_share: bool = False
    untraced: Mapping[int, str] = field(default_factory=dict)
    """By its number, why a line was judged by its text alone."""
    num_lines: int = 0
    """Whose lengths were compared; from `ENOUGH` on they tell what is usual."""
    num_tokens: int = 0
    """Target tokens that told the usual source share; 0 if the lines were too few."""

    def sentences(self) -> list[str]:
        """For people."""
        if not self.model:
            only = "Only texts were looked at: dropped words and the source share need a model."
            return [CAVEAT, SEVERITY, self._length(), only]
        said = [CAVEAT, SEVERITY, f"Model: {self.model}.", self._length()]
        said.append(f"Dropped: by {_named(self.head)}. Where it looked, not why.")
        if self.has_share:
            share = f"{self.rules.expected_share:.2f}"
            guess = f"{share} is taken for usual, as {self._few()}"
            usual = f"{share} is the median of these {self.num_tokens:,} tokens" if self.num_tokens else guess
            said.append(f"Source share: in the manner of ALTI+ (Ferrando et al., 2022); {usual}.")
        else:
            said.append("Source share: not known for this family of models.")
        if self.untraced:
            number, why = min(self.untraced.items())
            said.append(f"Judged by the text alone: {several(len(self.untraced), 'line')}; line {number}: {why}.")
        return said

    def _length(self) -> str:
        if self.rules.expected_ratio is None:
            return f"Length: not judged, for the two scripts differ and {self._few()}."
        expected = f"Length: {self.rules.expected_ratio:.2f} characters are expected for each of the source"
        if self.num_lines < ENOUGH:
            return f"{expected}, a guess, as {self._few()}."
        return f"{expected}, the median of these {self.num_lines:,} lines."

    def _few(self) -> str:
        be = "is" if self.num_lines == 1 else "are"
        return f"{several(self.num_lines, 'line')} {be} too few to tell ({ENOUGH} are enough)"


def triage(pairs: Iterable[Pair], rules: FlagRules = LEFT_ALONE, head: AlignmentHead | None = None) -> list[Triaged]:
    """All of them, the worst first, equals in the order in which they were given. No two traces are held at a time."""
    found = [_look(number, pair, rules, head) for number, pair in enumerate(pairs, 1)]
    return sorted(found, key=lambda one: (-one.severity, one.number))


def usual_ratio(pairs: Iterable[Pair]) -> float | None:
    """Characters of a target for each of its source: the median. If there are too few pairs to tell, 1; or None where
    one side has a script whose characters say more.

    `rules.model_copy(update={"expected_ratio": usual_ratio(pairs)})` measures lengths by it.
    """
    whole = [pair for pair in pairs if pair.source and pair.target]
    if len(whole) >= ENOUGH:
        return statistics.median(len(pair.target) / len(pair.source) for pair in whole)
    return None if any(_is_dense(pair.source) != _is_dense(pair.target) for pair in whole) else 1.0


def together(flags: Iterable[Flag]) -> float:
    """One severity of several: as if each were a chance, on its own, that something is wrong."""
    return 1 - math.prod((1 - flag.severity for flag in flags), start=1.0)


def json_lines(ranked: Iterable[Triaged]) -> str:
    """One object for each translation."""
    return "".join(f"{json.dumps(one.model_dump(mode='json'), ensure_ascii=False)}\n" for one in ranked)


def table(ranked: Sequence[Triaged], limit: int = 20) -> Table:
    """The worst ones that have flags, and what was seen in each."""
    flagged = [one for one in ranked if one.flags]
    shown = Table(title=summary(ranked), title_justify="left", show_lines=True)
    for heading, width in (("line", 6), ("severity", 8)):
        shown.add_column(heading, justify="right", width=width)
    shown.add_column("what was seen", overflow="fold")
    for one in flagged[:limit]:
        shown.add_row(f"{one.number}", f"{one.severity:.2f}", _seen(one))
    if len(flagged) > limit:
        shown.caption = f"and {len(flagged) - limit:,} more with flags"
    return shown


def summary(ranked: Sequence[Triaged]) -> str:
    """How many were flagged, and for what."""
    counts = Counter(name for one in ranked for name in {flag.name for flag in one.flags})
    flagged = sum(bool(one.flags) for one in ranked)
    by_name = ", ".join(
        f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    return f"{flagged:,} of {len(ranked):,} have flags" + (f": {by_name}" if by_name else "")


def _is_dense(text: str) -> bool:
    return 2 * len(_DENSE.findall(text)) > sum(map(str.isalpha, text))


def _named(head: AlignmentHead | None) -> str:
    """Where dropped words are looked for."""
    if head is None:
        return "attention weights, the mean of all heads of all layers; a row is the token being written"
    which = "the mean of all heads" if head.head is None else f"head {head.head}"
    return f"{MEASURES[head.measure]} of {head.layer}, {which}; {ROWS[head.rows]}"


def _look(number: int, pair: Pair, rules: FlagRules, head: AlignmentHead | None) -> Triaged:
    source, target = pair.source, pair.target
    if pair.trace is None:
        found = flags_of_text(source, target, rules)
    else:
        source, target = pair.trace.source.text, pair.trace.target.text
        found = flags_of_trace(pair.trace, rules, share=pair.share, head=head)
    return Triaged(number=number, severity=together(found), source=source, target=target, flags=tuple(found))


def _seen(one: Triaged) -> Text:
    seen = Text(f"{clean(one.source)}\n", style="dim")
    seen.append(f"> {clean(one.target)}", style="not dim")
    for flag in one.flags:
        seen.append(f"\n! {flag.name}", style="not dim bold")
        seen.append(f" {flag.severity:.2f}: {clean(flag.evidence)}", style="not dim")
    return seen
