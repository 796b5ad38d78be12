"""BLEU, chrF and TER by sacreBLEU: each score with its signature and interval, and whether a difference may be chance.

The numbers are those of the `sacrebleu` command, to the last digit: its metrics, its bootstrap, its seed.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, SupportsFloat, get_args

from pydantic import Field
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from dragoman.config import Config
from dragoman.evaluation.literature import CompoundBLEU
from dragoman.evaluation.reading import Reading

Name = Literal["bleu", "chrf", "chrf++", "ter"]
NAMES: Final[tuple[Name, ...]] = get_args(Name)
RESAMPLES: Final = 1000
"""sacreBLEU's default, as is its seed."""


class Score(Config):
    """What a metric gave, and all that is needed to give it again."""

    metric: str = Field(description="as sacreBLEU calls it")
    value: float = Field(description="of the whole test set")
    low: float = Field(description="where the 95 % interval begins: the resamples' mean, less sacreBLEU's ±")
    high: float = Field(description="where it ends")
    signature: str = Field(description="sacreBLEU's own; whoever has the same text and this gets the same value")
    p_value: float | None = Field(None, description="paired bootstrap against the first system; none for that itself")

    @property
    def mean(self) -> float:
        """Over the resamples: the μ of the sacrebleu command."""
        return (self.low + self.high) / 2

    @property
    def margin(self) -> float:
        """Half of the interval: the ± of the sacrebleu command."""
        return (self.high - self.low) / 2


def bleu(hypotheses: Sequence[str], *references: Sequence[str], reading: Reading | None = None) -> Score:
    """BLEU (Papineni et al., 2002) against one or several references, line by line."""
    return compare([hypotheses], references, ["bleu"], reading)[0][0]


def chrf(hypotheses: Sequence[str], *references: Sequence[str], reading: Reading | None = None) -> Score:
    """The F-score of character n-grams (Popović, 2015)."""
    return compare([hypotheses], references, ["chrf"], reading)[0][0]


def ter(hypotheses: Sequence[str], *references: Sequence[str], reading: Reading | None = None) -> Score:
    """Edits for each reference word, in percent (Snover et al., 2006): the lower the better."""
    return compare([hypotheses], references, ["ter"], reading)[0][0]


def quick_bleu(hypotheses: Sequence[str], *references: Sequence[str], reading: Reading | None = None) -> float:
    """The value of `bleu` without its interval, for every validation of a training."""
    return _value("bleu", hypotheses, references, reading)


def quick_chrf(hypotheses: Sequence[str], *references: Sequence[str], reading: Reading | None = None) -> float:
    """The value of `chrf` without its interval."""
    return _value("chrf", hypotheses, references, reading)


def compare(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[Name],
    reading: Reading | None = None,
) -> list[tuple[Score, ...]]:
    """The scores of each system, in the order of the metrics; of the second on, with p-values against the first.

    All systems are resampled alike, so the same lines are drawn for each (Koehn, 2004).
    """
    for hypotheses in systems:
        _check(hypotheses, references)
    judges: dict[str, Metric] = {name: _judge(name, reading or Reading(), references) for name in metrics}
    if len(systems) == 1:
        return [tuple(_alone(judge, systems[0]) for judge in judges.values())]
    named: list[tuple[str, Sequence[str]]] = [(str(number), list(lines)) for number, lines in enumerate(systems)]
    signatures, results = PairedTest(named, judges, references=None, test_type="bs", n_samples=RESAMPLES)()
    return [
        tuple(_beside(metric, str(signature), results[metric][number]) for metric, signature in signatures.items())
        for number in range(len(systems))
    ]


def parse_names(text: str) -> tuple[Name, ...]:
    """Names of metrics with commas between them; refuses what is none, with the nearest that is one."""
    wanted = [name.strip().lower() for name in text.split(",")]
    for name in wanted:
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            mend = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
            raise ValueError(f"no metric is named {name!r}; {mend}")
    return tuple(name for name in NAMES if name in wanted)


def _judge(name: Name, reading: Reading, references: Sequence[Sequence[str]]) -> Metric:
    known = [list(reference) for reference in references]
    tokeniser = "none" if reading.tokenised else "13a"
    match name:
        case "bleu" if reading.compounds:
            return CompoundBLEU(tokeniser, reading.lower_case, known)
        case "bleu":  # force: whether text looks tokenised is for the report to say, not for a log in between
            return BLEU(tokenize=tokeniser, lowercase=reading.lower_case, force=True, references=known)
        case "chrf" | "chrf++":
            return _Chrf(word_order=2 * (name == "chrf++"), lowercase=reading.lower_case, references=known)
        case "ter":
            return TER(references=known)


class _Chrf(CHRF):
    """sacreBLEU's own, whose bootstrap cannot add its plain zeros, of resamples without a match, to its float32."""

    def _compute_score_from_stats(self, stats: Any) -> CHRFScore:
        score = super()._compute_score_from_stats(stats)
        score.score = type(stats[0] * 1.0)(score.score)
        return score


def _alone(judge: Metric, hypotheses: Sequence[str]) -> Score:
    """What the command says with --confidence; sacreBLEU's own score keeps the interval to itself."""
    score = judge.corpus_score(list(hypotheses), references=None, n_bootstrap=RESAMPLES)
    return _score(score.name, str(judge.get_signature()), score.score, score._mean, score._ci, None)


def _beside(metric: str, signature: str, result: Result | str) -> Score:
    """What it says with --paired-bs: sums in another order, so chrF and TER may differ in the seventh digit."""
    assert isinstance(result, Result)
    assert result.mean is not None
    assert result.ci is not None
    return _score(metric, signature, result.score, result.mean, result.ci, result.p_value)


def _score(
    metric: str, signature: str, value: SupportsFloat, mean: SupportsFloat, margin: SupportsFloat, p: float | None
) -> Score:
    low, high = float(mean) - float(margin), float(mean) + float(margin)
    return Score(metric=metric, value=float(value), low=low, high=high, signature=signature, p_value=p)


def _value(
    name: Name, hypotheses: Sequence[str], references: Sequence[Sequence[str]], reading: Reading | None
) -> float:
    _check(hypotheses, references)
    judge = _judge(name, reading or Reading(), references)
    return float(judge.corpus_score(list(hypotheses), references=None).score)


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not references:
        raise ValueError("no references are given: there is nothing to compare with")
    for reference in references:
        if len(hypotheses) != len(reference):
            raise ValueError(f"{len(hypotheses):,} hypotheses but {len(reference):,} references: they go line by line")
    if not hypotheses:
        raise ValueError("the test set is empty: there is nothing to score")
