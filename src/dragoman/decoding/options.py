"""What can be asked of a search. No torch here: every engine takes these."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.decoding.given import MOST_HYPOTHESES, a_number
from dragoman.decoding.penalty import Penalty


class LengthLimit(Config):
    """The longest output for a source: ratio * (its tokens) + extra. The paper's is input + 50."""

    ratio: float = Field(1.0, ge=0.0, description="output tokens for each source token")
    extra: int = Field(50, ge=0, description="and so many more")

    def tokens(self, source_length: int) -> int:
        """At least one token, the EOS; both lengths count theirs."""
        return max(1, math.floor(self.ratio * source_length) + self.extra)


class SearchOptions(Config):
    """How hypotheses are searched for. The defaults are the paper's (section 6.1), and mean the same to each engine."""

    beam_size: int = Field(4, ge=1, description="hypotheses kept at each step")
    num_best: int = Field(1, ge=1, description="hypotheses returned for each source, best first")
    penalty: Penalty = Field(Penalty(), description="how hypotheses of different lengths are compared")
    max_length: LengthLimit = Field(LengthLimit(), description="the longest output; there, the EOS is forced")
    min_length: int = Field(1, ge=1, description="the shortest output in tokens, EOS included")
    stop: Literal["safe", "count", "never"] = Field(
        "count",
        description="when a source is done. count: as soon as beam_size hypotheses have ended, as fairseq and "
        "CTranslate2 do; safe: when no live hypothesis can still become one of the num_best, whatever follows, so the "
        "result is that of never; never: at the length limit only. The last two are for the torch engine alone",
    )

    @model_validator(mode="after")
    def _fits(self) -> "SearchOptions":
        if self.num_best > self.beam_size:
            raise ValueError(f"num_best {self.num_best} needs a beam_size as large, not {self.beam_size}")
        return self


def changed(search: Mapping[str, Any], beam_size: int | None, num_best: int | None) -> SearchOptions:
    """A model's own search options, with another beam, or with more results; None leaves what is there."""
    changes = {"beam_size": beam_size, "num_best": num_best}
    for name, value in changes.items():
        a_number(name, value, MOST_HYPOTHESES)
    own = SearchOptions.model_validate(search)
    beam, best = beam_size or own.beam_size, num_best or own.num_best
    if best > beam:
        raise ValueError(f"num_best {best} needs a beam_size as large, not {beam}: give beam_size={best}, or more")
    return SearchOptions.model_validate({**search, "beam_size": beam, "num_best": best})
