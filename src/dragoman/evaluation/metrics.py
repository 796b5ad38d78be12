"""BLEU, chrF and TER by sacreBLEU, with signatures, confidence intervals and p-values against a baseline.

The numbers equal those of the `sacrebleu` command to the last digit: the metrics, bootstrap and seed are the same.
Other metrics (`symbol_metrics.py`, `tree_metrics.py`) are resampled in the same way.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from dragoman.config import Config
from dragoman.evaluation.metric_options import DEFAULT_METRICS, MetricName, MetricOptions
from dragoman.evaluation.symbol_metrics import ExactMatch, PhonemeErrorRate, WordErrorRate
from dragoman.evaluation.tree_metrics import LabelledF1, WellFormed

RESAMPLES: Final = 1000
"""The number of bootstrap resamples: sacreBLEU's default."""

RAW: Final = MetricOptions()
"""The options for raw text: sacreBLEU's defaults."""
Lines = Sequence[str]
Metrics = Sequence[MetricName]

_HYPHEN: Final = re.compile(rb"(\S)-(\S)")


class MetricScore(Config):
    """The value of one metric, with a confidence interval and the signature needed to reproduce the value."""

    metric: str = Field(description="name of the metric, as in sacreBLEU")
    value: float = Field(description="score of the whole test set")
    low: float = Field(description="lower end of the 95 % interval: mean of the resamples minus sacreBLEU's ±")
    high: float = Field(description="upper end of the 95 % interval: mean of the resamples plus sacreBLEU's ±")
    signature: str = Field(description="signature; the same text and signature give the same value")
    p_value: float | None = Field(None, description="p-value of a paired bootstrap against the first system")


def score_translations(
    hypotheses: Lines, references: Sequence[Lines], metrics: Metrics = DEFAULT_METRICS, options: MetricOptions = RAW
) -> dict[MetricName, MetricScore]:
    """Return the scores of one system against one or several lists of references, by metric."""
    [scores] = compare([hypotheses], references, metrics, options)
    return dict(zip(metrics, scores, strict=True))


def compare(
    systems: Sequence[Lines], references: Sequence[Lines], metrics: Metrics, options: MetricOptions = RAW
) -> list[tuple[MetricScore, ...]]:
    """Return the scores of each system, in the order of `metrics`, with p-values against the first system.

    Each resample draws the same lines for all systems (Koehn, 2004).
    """
    for hypotheses in systems:
        _check(hypotheses, references)
    scorers: dict[str, Metric] = {name: _scorer(name, options, references) for name in metrics}
    if len(systems) == 1:
        return [tuple(_resample(scorer, systems[0]) for scorer in scorers.values())]
    named: list[tuple[str, Lines]] = [(str(number), list(lines)) for number, lines in enumerate(systems)]
    signatures, results = PairedTest(named, scorers, references=None, test_type="bs", n_samples=RESAMPLES)()
    columns = ([_metric_score(name, str(signatures[name]), each) for each in results[name]] for name in signatures)
    return list(zip(*columns, strict=True))


def corpus_value(
    metric: MetricName, hypotheses: Lines, references: Sequence[Lines], options: MetricOptions = RAW
) -> float:
    """Return the value of a metric without a confidence interval, fast enough for every validation in training."""
    _check(hypotheses, references)
    return float(_scorer(metric, options, references).corpus_score(list(hypotheses), references=None).score)


def split_compounds(line: str) -> str:
    """Turn `rich-text` into `rich ##AT##-##AT## text`, byte by byte, like the Perl in tensor2tensor's get_ende_bleu.sh.

    Matches do not overlap, so in `a-b-c` the second hyphen stays. Matches are of bytes, so in `a-ö-c` both hyphens are
    split, as ö has two bytes. A score is comparable with published scores only with both of these properties.
    """
    return _HYPHEN.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode()


class CompoundBLEU(BLEU):
    """BLEU with compounds split at hyphens, like papers before sacreBLEU; the signature records the split."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tokenizer_signature += "+compounds"

    def _preprocess_segment(self, sent: str) -> str:
        return split_compounds(super()._preprocess_segment(sent))


class _Chrf(CHRF):
    """sacreBLEU's chrF with scores of one float type; mixed types break the bootstrap on resamples without a match."""

    def _compute_score_from_stats(self, stats: Any) -> CHRFScore:
        score = super()._compute_score_from_stats(stats)
        score.score = type(stats[0] * 1.0)(score.score)
        return score


def _scorer(name: MetricName, options: MetricOptions, references: Sequence[Lines]) -> Metric:
    known, lowercase = [list(reference) for reference in references], options.lower_case
    match name:
        case "bleu":  # force: the report warns of text that looks tokenised, so sacreBLEU's log need not
            bleu = CompoundBLEU if options.compounds else BLEU
            tokeniser = "none" if options.tokenised else "13a"
            return bleu(tokenize=tokeniser, lowercase=lowercase, force=True, references=known)
        case "chrf" | "chrf++":
            return _Chrf(word_order=2 * (name == "chrf++"), lowercase=lowercase, references=known)
        case "ter":
            return TER(references=known)
        case "per":
            return PhonemeErrorRate(known)
        case "wer":
            return WordErrorRate(known)
        case "exact":
            return ExactMatch(known)
        case "f1":
            return LabelledF1(known)
        case "well-formed":
            return WellFormed(known)


def _resample(scorer: Metric, hypotheses: Lines) -> MetricScore:
    """Return the score and interval that `sacrebleu --confidence` prints, from private attributes of sacreBLEU."""
    score = scorer.corpus_score(list(hypotheses), references=None, n_bootstrap=RESAMPLES)
    result = Result(score.score, None, score._mean, score._ci)
    return _metric_score(score.name, str(scorer.get_signature()), result)


def _metric_score(metric: str, signature: str, result: Any) -> MetricScore:
    """Return a score with its confidence interval; chrF of a paired test may differ from `_resample` by 1e-7."""
    value, mean, margin = float(result.score), float(result.mean), float(result.ci)  # some of them are float32
    low, high = mean - margin, mean + margin
    return MetricScore(metric=metric, value=value, low=low, high=high, signature=signature, p_value=result.p_value)


def _check(hypotheses: Lines, references: Sequence[Lines]) -> None:
    if not references:
        raise ValueError("there are no references: give at least one list of references")
    for reference in references:
        if len(hypotheses) != len(reference):
            raise ValueError(f"{len(hypotheses):,} hypotheses but {len(reference):,} references: give equal numbers")
    if not hypotheses:
        raise ValueError("the test set is empty: give at least one line")
