"""Translations ranked by a score: the model's signals and the flags of the text, as a table and as JSON lines."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pydantic import Field
from rich.table import Table
from rich.text import Text

from dragoman.config import Config
from dragoman.inspection.labels import clean
from dragoman.triage.attention_flags import check_dropped
from dragoman.triage.calibration import Calibration
from dragoman.triage.model_signals import LABELS, ModelReadings, Signals
from dragoman.triage.text_flags import DEFAULT_RULES, MEANING, Flag, FlagRules, count, flag_text, sort_flags

ENOUGH: Final = 20
"""The minimum number of lines for measuring expected values, such as the length ratio."""

SUSPECT: Final = 0.5
"""The score from which a line is suspect."""
IN_SIGNALS: Final = frozenset({"length", "dropped"})
"""Flags of what the signals measure already: these do not raise the score of a line that has signals."""

CAVEAT: Final = "A flag or a high score is a reason to look, not a verdict. What has neither may be wrong too."
SEVERITY: Final = (
    "Severity: from 0 to 1, how bad a flag would be if it is what it looks like; the score of a line without signals "
    "combines its flags as if they were independent chances."
)
DROPPED: Final = "Dropped: by the attention of the alignment head, or of the last layer. Where it looked, not why."

_DENSE: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Characters of scripts in which one character stands for several letters of other scripts."""


class TranslationPair(NamedTuple):
    """A translation to be ranked, with the readings of a model if there is one."""

    source: str
    target: str
    readings: ModelReadings | None = None
    unmeasured: str = ""
    """The reason why a model has no readings."""


class SignalValue(Config):
    """One signal of a translation, and its effect on the score."""

    name: str
    value: float
    usual: float = Field(description="value that leaves the score as it is")
    effect: float = Field(description="change of the log-odds of a bad translation")


class TriageResult(Config):
    """A translation with its score, its signals and its flags."""

    number: int = Field(ge=1, description="line number in the input, from 1")
    score: float = Field(ge=0.0, le=1.0, description="chance of a bad translation, or combined severity of the flags")
    source: str
    target: str
    signals: tuple[SignalValue, ...] = Field((), description="signals of the model, largest effect first")
    flags: tuple[Flag, ...]

    @property
    def is_suspect(self) -> bool:
        """True if the line should be looked at: for its flags, or for its score."""
        return bool(self.flags) or self.score >= SUSPECT


@dataclass(frozen=True)
class TriageMethod:
    """The method of a triage, for the report: thresholds, model, weights and expected values."""

    rules: FlagRules
    model: str = ""
    """The model and the origin of the targets; empty if only texts were compared."""
    calibration: Calibration | None = None
    is_free: bool = False
    """True if the targets are the model's own translations."""
    is_calibrated: bool = False
    """True if the weights were fitted for this model's own translations, so that the score is a chance."""
    unmeasured: Mapping[int, str] = field(default_factory=dict)
    """The reason why a line has no signals, by line number; only the text of these lines was checked."""
    num_lines: int = 0
    """The number of lines whose lengths were compared; expected values need at least `ENOUGH`."""

    def sentences(self) -> list[str]:
        """Return sentences that describe the method, for the report."""
        be = "is" if self.num_lines == 1 else "are"
        few, rules = f"{count(self.num_lines, 'line')} {be} too few to know ({ENOUGH} are enough)", self.rules
        length = f"not judged, for the two scripts differ and {few}"
        if rules.expected_ratio is not None:
            why = f"a guess, as {few}" if self.num_lines < ENOUGH else f"the median of these {self.num_lines:,} lines"
            length = f"{rules.expected_ratio:.2f} characters are expected for each of the source, {why}"
        lines = [CAVEAT, SEVERITY, f"Length: {length}."]
        if self.calibration is None:
            return [*lines, "Only texts were compared: signals and dropped words need a model."]
        lines += [f"Model: {self.model}.", f"Score: {self._describe_score(self.calibration)}.", DROPPED]
        if self.unmeasured:
            number, why = min(self.unmeasured.items())
            lines.append(f"Judged by the text alone: {count(len(self.unmeasured), 'line')}; line {number}: {why}.")
        return lines

    def _describe_score(self, calibration: Calibration) -> str:
        bad = f"chrF below {100 * calibration.bad_below:.0f}"
        raised = f"at least {SUSPECT} where" if self.is_free else "high only where"
        raised += " numbers, addresses, copied or repeated words are flagged"
        source = f"fitted on {calibration.num_lines:,} lines ({calibration.fitted_on})"
        if self.is_calibrated:
            return f"the chance of a bad translation ({bad}) by the model's signals, {source}; {raised}"
        compared = "these lines are compared with each other" if self.num_lines >= ENOUGH else "do not trust its size"
        return f"a ranking, not a chance, as its weights were {source} for other translations: {compared}; {raised}"


class TriageReport(Config):
    """A ranking with all that a page shows of it."""

    summary: str
    caveat: str
    method: tuple[str, ...] = Field(description="sentences that describe the method")
    suspect: float = Field(description="score from which a line is suspect")
    labels: dict[str, str] = Field(description="names of the signals for people, by name")
    meanings: dict[str, str] = Field(description="what each flag means, by name")
    lines: tuple[TriageResult, ...] = Field(description="all lines, most suspicious first")


def make_report(ranked: Sequence[TriageResult], method: TriageMethod) -> TriageReport:
    """Return the report of a ranking."""
    caveat, *sentences = method.sentences()
    return TriageReport(
        summary=summarise(ranked),
        caveat=caveat,
        method=tuple(map(clean, sentences)),
        suspect=SUSPECT,
        labels=LABELS,
        meanings=dict(MEANING),
        lines=tuple(ranked),
    )


def pair_signals(pair: TranslationPair, readings: ModelReadings, rules: FlagRules) -> Signals:
    """Return the signals of a measured pair."""
    return readings.signals(pair.source, pair.target, rules.expected_ratio)


def rank_pairs(
    pairs: Iterable[TranslationPair],
    rules: FlagRules = DEFAULT_RULES,
    calibration: Calibration | None = None,
    is_free: bool = True,
) -> list[TriageResult]:
    """Flag and score all pairs; return the results, most suspicious first, ties in input order.

    With a calibration, the score of a measured pair is the chance that it is bad by its signals. A flag of what the
    signals do not measure raises the score to at least `SUSPECT`. The weights are not for given targets: there the
    chance counts half, so that it makes no line suspect alone, and is combined with the severity of these flags. All
    other pairs have the combined severity of their flags.
    """
    ranked = []
    for number, pair in enumerate(pairs, 1):
        flags = flag_text(pair.source, pair.target, rules)
        readings, score = pair.readings, combine_severities(flags)
        values: tuple[SignalValue, ...] = ()
        if readings is not None and readings.coverage is not None:
            expected = rules.expected_tokens or len(readings.log_probabilities) / len(readings.source)
            flags = sort_flags([*flags, *check_dropped(readings.source, readings.coverage / expected, rules)])
        if readings is not None and calibration is not None:
            signals = pair_signals(pair, readings, rules)
            values = _explain(signals, calibration)
            score = calibration.chance(signals)
            unlike = [flag for flag in flags if flag.name not in IN_SIGNALS]
            if not is_free:
                score = 1 - (1 - SUSPECT * score) * (1 - combine_severities(unlike))
            elif unlike:
                score = max(score, SUSPECT)
        ranked.append(
            TriageResult(
                number=number, score=score, source=pair.source, target=pair.target, signals=values, flags=tuple(flags)
            )
        )
    return sorted(ranked, key=lambda line: (-line.score, -combine_severities(line.flags), line.number))


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
    """Return a table of the `limit` most suspicious translations, with their signals and the evidence for each flag."""
    suspect = [line for line in ranked if line.is_suspect]
    table = Table(title=summarise(ranked), title_justify="left", show_lines=True)
    table.add_column("line", justify="right", width=6)
    table.add_column("score", justify="right", width=5)
    table.add_column("evidence", overflow="fold")
    for line in suspect[:limit]:
        table.add_row(f"{line.number}", f"{line.score:.2f}", _describe_line(line))
    if len(suspect) > limit:
        table.caption = f"and {len(suspect) - limit:,} more to look at"
    return table


def summarise(ranked: Sequence[TriageResult]) -> str:
    """Return the number of suspicious translations, in total, by score and by flag, as a sentence."""
    counts = Counter(name for line in ranked for name in {flag.name for flag in line.flags})
    flagged = sum(bool(line.flags) for line in ranked)
    by_name = ", ".join(f"{name} {num:,}" for name, num in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    flags = f"{flagged:,} of {len(ranked):,} have flags" + (f": {by_name}" if by_name else "")
    if not any(line.signals for line in ranked):
        return flags
    high = sum(line.score >= SUSPECT for line in ranked)
    return f"{high:,} of {len(ranked):,} have a score of at least {SUSPECT}; {flags}"


def describe_signals(line: TriageResult, limit: int = len(LABELS)) -> str:
    """Return the signals of a line with the largest effect, with their usual values, as a phrase."""
    return "; ".join(
        f"{LABELS[each.name]} {each.value:.2f} (usual {each.usual:.2f}, {each.effect:+.1f})"
        for each in line.signals[:limit]
    )


def _explain(signals: Signals, calibration: Calibration) -> tuple[SignalValue, ...]:
    """Return the signals with their effects, largest first."""
    values, effects = signals._asdict(), calibration.effects(signals)
    return tuple(
        SignalValue(name=name, value=values[name], usual=calibration.signals[name].mean, effect=effects[name])
        for name in sorted(effects, key=lambda name: -effects[name])
    )


def _is_dense(text: str) -> bool:
    return 2 * len(_DENSE.findall(text)) > sum(map(str.isalpha, text))


def _describe_line(line: TriageResult) -> Text:
    text = Text(f"{clean(line.source)}\n", style="dim")
    text.append(f"> {clean(line.target)}", style="not dim")
    if line.signals:
        text.append(f"\n{describe_signals(line)}", style="dim")
    for flag in line.flags:
        text.append(f"\n! {flag.name}", style="not dim bold")
        text.append(f" {flag.severity:.2f}: {clean(flag.evidence)}", style="not dim")
    return text
