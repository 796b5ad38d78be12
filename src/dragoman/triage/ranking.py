"""Translations ranked by the severity of their flags, as a table and as JSON lines."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from pydantic import Field
from rich.table import Table
from rich.text import Text

from dragoman.alignment.tokens import Tokens
from dragoman.config import Config
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Trace
from dragoman.triage.text_flags import DEFAULT_RULES, Flag, FlagRules, count, flag_text
from dragoman.triage.trace_flags import flag_trace

ENOUGH: Final = 20
"""The minimum number of lines for measuring expected values, such as the length ratio."""

CAVEAT: Final = "A flag is a reason to look, not a verdict. What has no flag may be wrong too."
SEVERITY: Final = (
    "Severity: from 0 to 1, how bad a flag would be if it is what it looks like; a line combines its flags as if they "
    "were independent chances."
)
DROPPED: Final = (
    "Dropped: by attention weights, the mean of all heads of all layers; a row is the token being written. Where it "
    "looked, not why."
)

_DENSE: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Characters of scripts in which one character stands for several letters of other scripts."""


class TranslationPair(NamedTuple):
    """A translation to be ranked, with the model's tokens and trace if there are any."""

    source: str
    target: str
    trace: Trace | None = None
    share: np.ndarray | None = None
    """[target tokens], the share of the source, rather than of the target prefix, in each token."""
    tokens: tuple[Tokens, Tokens] | None = None
    """The source and target tokens to trace; None if only the text is checked."""
    free: bool = False
    """True if the target is the model's own translation."""
    untraced: str = ""
    """The reason why `tokens` is None."""


class TriageResult(Config):
    """A translation and its flags."""

    number: int = Field(ge=1, description="line number in the input, from 1")
    severity: float = Field(ge=0.0, le=1.0, description="combined severity of all flags")
    source: str
    target: str
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class TriageMethod:
    """The method of a triage, for the report: thresholds, model and expected values."""

    rules: FlagRules
    model: str = ""
    """The model and the origin of the targets; empty if only texts were compared."""
    has_share: bool = False
    untraced: Mapping[int, str] = field(default_factory=dict)
    """The reason why a line was not traced, by line number; only the text of these lines was checked."""
    num_lines: int = 0
    """The number of lines whose lengths were compared; expected values need at least `ENOUGH`."""
    num_tokens: int = 0
    """The number of target tokens in the median source share; 0 if there were too few lines."""

    def sentences(self) -> list[str]:
        """Return sentences that describe the method, for the report."""
        be = "is" if self.num_lines == 1 else "are"
        few, rules = f"{count(self.num_lines, 'line')} {be} too few to know ({ENOUGH} are enough)", self.rules
        length, share = f"not judged, for the two scripts differ and {few}", "not known for this model"
        if rules.expected_ratio is not None:
            why = f"a guess, as {few}" if self.num_lines < ENOUGH else f"the median of these {self.num_lines:,} lines"
            length = f"{rules.expected_ratio:.2f} characters are expected for each of the source, {why}"
        if self.has_share:
            why = f"the median of these {self.num_tokens:,} tokens" if self.num_tokens else f"taken for usual, as {few}"
            share = f"in the manner of ALTI+ (Ferrando et al., 2022); {rules.expected_share:.2f} is {why}"
        lines = [CAVEAT, SEVERITY, f"Length: {length}."]
        if not self.model:
            return [*lines, "Only texts were compared: dropped words and the source share need a model."]
        lines += [f"Model: {self.model}.", DROPPED, f"Source share: {share}."]
        if self.untraced:
            number, why = min(self.untraced.items())
            lines.append(f"Judged by the text alone: {count(len(self.untraced), 'line')}; line {number}: {why}.")
        return lines


def rank_pairs(pairs: Iterable[TranslationPair], rules: FlagRules = DEFAULT_RULES) -> list[TriageResult]:
    """Flag all pairs; return the results, most severe first, ties in input order.

    Pairs are read one at a time, so that only one trace is in memory.
    """
    ranked = []
    for number, pair in enumerate(pairs, 1):
        source, target = pair.source, pair.target
        if pair.trace is None:
            flags = flag_text(source, target, rules)
        else:
            source, target = pair.trace.source.text, pair.trace.target.text
            flags = flag_trace(pair.trace, rules, pair.share)
        severity = combine_severities(flags)
        ranked.append(TriageResult(number=number, severity=severity, source=source, target=target, flags=tuple(flags)))
    return sorted(ranked, key=lambda line: (-line.severity, line.number))


def rank_texts(sources: Sequence[str], targets: Sequence[str]) -> tuple[list[TriageResult], TriageMethod]:
    """Rank translations by their text alone, without a model."""
    pairs = [TranslationPair(source, target) for source, target in zip(sources, targets, strict=True)]
    rules = FlagRules(expected_ratio=usual_ratio(pairs))
    return rank_pairs(pairs, rules), TriageMethod(rules, num_lines=sum(bool(p.source and p.target) for p in pairs))


def usual_ratio(pairs: Iterable[TranslationPair]) -> float | None:
    """Return the median number of target characters per source character.

    With fewer than `ENOUGH` pairs, return 1, or None if only the source or only the target has a dense script such as
    Chinese.
    """
    whole = [pair for pair in pairs if pair.source and pair.target]
    if len(whole) >= ENOUGH:
        return statistics.median(len(pair.target) / len(pair.source) for pair in whole)
    return None if any(_is_dense(pair.source) != _is_dense(pair.target) for pair in whole) else 1.0


def combine_severities(flags: Iterable[Flag]) -> float:
    """Return the combined severity of flags, as if severities were probabilities of independent errors."""
    return 1 - math.prod((1 - flag.severity for flag in flags), start=1.0)


def json_lines(ranked: Iterable[TriageResult]) -> str:
    """Return the ranked translations as JSON lines."""
    return "".join(f"{line.model_dump_json()}\n" for line in ranked)


def ranking_table(ranked: Sequence[TriageResult], limit: int = 20) -> Table:
    """Return a table of the `limit` most severe translations, with the evidence for each flag."""
    flagged = [line for line in ranked if line.flags]
    table = Table(title=summarise(ranked), title_justify="left", show_lines=True)
    table.add_column("line", justify="right", width=6)
    table.add_column("severity", justify="right", width=8)
    table.add_column("evidence", overflow="fold")
    for line in flagged[:limit]:
        table.add_row(f"{line.number}", f"{line.severity:.2f}", _describe_line(line))
    if len(flagged) > limit:
        table.caption = f"and {len(flagged) - limit:,} more with flags"
    return table


def summarise(ranked: Sequence[TriageResult]) -> str:
    """Return the number of flagged translations, in total and by flag, as a sentence."""
    counts = Counter(name for line in ranked for name in {flag.name for flag in line.flags})
    flagged = sum(bool(line.flags) for line in ranked)
    by_name = ", ".join(f"{name} {num:,}" for name, num in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return f"{flagged:,} of {len(ranked):,} have flags" + (f": {by_name}" if by_name else "")


def _is_dense(text: str) -> bool:
    return 2 * len(_DENSE.findall(text)) > sum(map(str.isalpha, text))


def _describe_line(line: TriageResult) -> Text:
    text = Text(f"{clean(line.source)}\n", style="dim")
    text.append(f"> {clean(line.target)}", style="not dim")
    for flag in line.flags:
        text.append(f"\n! {flag.name}", style="not dim bold")
        text.append(f" {flag.severity:.2f}: {clean(flag.evidence)}", style="not dim")
    return text
