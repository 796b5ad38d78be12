"""All flags of one translation: reasons to look at it, each with its evidence. Text is enough; a trace shows more."""

from typing import Final

from jaxtyping import Float
from numpy import ndarray

from dragoman.data.alignment import AlignmentHead
from dragoman.inspection.flag import Flag, FlagRules
from dragoman.inspection.flags_of_text import copied, length, numbers, repeated, web
from dragoman.inspection.flags_of_trace import dropped, low_source_share
from dragoman.inspection.trace import Trace

LEFT_ALONE: Final = FlagRules()


def flags_of_text(source: str, target: str, rules: FlagRules = LEFT_ALONE) -> list[Flag]:
    """The worst first."""
    found = [flag for look in (length, repeated, copied) for flag in look(source, target, rules)]
    return _worst_first([*found, *numbers(source, target), *web(source, target)])


def flags_of_trace(
    trace: Trace,
    rules: FlagRules = LEFT_ALONE,
    *,
    share: Float[ndarray, " target"] | None = None,
    head: AlignmentHead | None = None,
) -> list[Flag]:
    """Those of the text too, the worst first. `share` is each target token's source share, EOS included."""
    if share is not None and len(share) != len(trace.target):
        raise ValueError(f"{len(share)} source shares for {len(trace.target)} target tokens: give one each, EOS too")
    found = flags_of_text(trace.source.text, trace.target.text, rules)
    if trace.names("cross"):
        found += dropped(trace, rules, head)
    if share is not None:
        found += low_source_share(trace, share, rules)
    return _worst_first(found)


def _worst_first(found: list[Flag]) -> list[Flag]:
    return sorted(found, key=lambda flag: -flag.severity)
