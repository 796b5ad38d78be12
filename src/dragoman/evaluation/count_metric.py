"""The base class of metrics that are computed from counts, which sacreBLEU's bootstrap and paired test resample."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from sacrebleu.metrics.base import Metric, Score, Signature

from dragoman.version import __version__


class CountSignature(Signature):
    """The signature of a metric that is defined here: its version is that of dragoman."""

    def __init__(self, args: dict[str, Any]) -> None:
        """Describe a metric, from its attributes, as sacreBLEU does."""
        super().__init__(args)
        self.update("unit", args["unit"])
        self.update("version", f"dragoman-{__version__}")


class CountMetric(Metric):
    """A metric whose value is a function of counts, summed over the lines of a test set."""

    _SIGNATURE_TYPE = CountSignature
    name: ClassVar[str]
    unit: ClassVar[str]
    """What is counted, for the signature."""

    def __init__(self, references: Sequence[Sequence[str]]) -> None:
        """Read the references, as lists of lines."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._force = True  # a line that ends in a full stop is no reason for a warning
        self._ref_cache = self._cache_references(references)

    @abstractmethod
    def counts(self, hypothesis: str, references: Sequence[str]) -> list[float]:
        """Return the counts of one line, by its nearest reference."""

    @abstractmethod
    def value(self, counts: Sequence[float]) -> float:
        """Return the value of the metric for summed counts."""

    def get_signature(self) -> Signature:
        """Return the signature; sacreBLEU's method passes on the attributes of the object alone."""
        return self._SIGNATURE_TYPE({**self.__dict__, "unit": self.unit})

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(sent.split())

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": list(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return self.counts(hypothesis, **ref_kwargs)

    def _compute_score_from_stats(self, stats: Any) -> Score:
        return Score(self.name, float(self.value([float(count) for count in stats])))

    def _aggregate_and_compute(self, stats: list[list[Any]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])


def ratio(part: float, whole: float, empty: float) -> float:
    """Return a ratio in percent, or `empty` percent if there is nothing to divide by."""
    return 100.0 * part / whole if whole else empty
