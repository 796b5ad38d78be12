"""Length limits, the defaults of a search, what is refused; and that none of it needs torch."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty


@pytest.mark.parametrize(
    ("ratio", "extra", "source_length", "limit"),
    [
        (1.0, 50, 7, 57),
        (1.5, 0, 3, 4),
        (1.5, 2, 4, 8),
        (0.0, 5, 9, 5),
        (0.4, 0, 2, 1),
        (0.0, 0, 3, 1),
        (0.5, 0, 4, 2),
        (0.25, 1, 0, 1),
    ],
)
def test_a_limit_is_a_ratio_rounded_down_and_some_more_but_at_least_one(
    ratio: float, extra: int, source_length: int, limit: int
) -> None:
    assert LengthLimit(ratio=ratio, extra=extra).tokens(source_length) == limit


def test_the_default_limit_is_the_papers_input_plus_50() -> None:
    assert [LengthLimit().tokens(n) for n in (1, 10)] == [51, 60]


def test_a_models_own_options_are_changed_only_where_something_is_given() -> None:
    own = {"beam_size": 5, "num_best": 3, "min_length": 2}
    assert SearchOptions.model_validate(own).replace(None, None) == SearchOptions(beam_size=5, num_best=3, min_length=2)
    assert SearchOptions.model_validate(own).replace(7, 6) == SearchOptions(beam_size=7, num_best=6, min_length=2)
    assert SearchOptions().replace(1_000).beam_size == 1_000
    for beam_size, num_best, error in (
        (2, None, "num_best 3 is more than beam_size 2: give beam_size=3 or more"),
        (None, 6, "num_best 6 is more than beam_size 5: give beam_size=6 or more"),
        (0, None, "beam_size 0 is not a positive integer"),
        (None, -2, "num_best -2 is not a positive integer"),
        (1_001, None, "beam_size 1,001 is too large: give 1,000 or less"),
    ):
        with pytest.raises(ValueError, match=f"^{error}") as refused:
            SearchOptions.model_validate(own).replace(beam_size, num_best)
        assert type(refused.value) is ValueError


def test_the_default_search_is_the_papers() -> None:
    options = SearchOptions()
    assert (options.beam_size, options.num_best, options.min_length, options.stop) == (4, 1, 1, "count")
    assert options.penalty == Penalty(formula="gnmt", alpha=0.6)
    assert options.max_length == LengthLimit(ratio=1.0, extra=50)


def test_as_many_may_be_returned_as_the_beam_holds_but_no_more() -> None:
    assert SearchOptions(beam_size=3, num_best=3).num_best == 3
    with pytest.raises(ValidationError, match="num_best 4 is more than beam_size 3"):
        SearchOptions(beam_size=3, num_best=4)


@pytest.mark.parametrize(
    "fields", [{"beam_size": 0}, {"num_best": 0}, {"min_length": 0}, {"stop": "soon"}, {"beam": 4}]
)
def test_what_a_search_cannot_do_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SearchOptions(**fields)


@pytest.mark.parametrize("fields", [{"ratio": -0.1}, {"extra": -1}, {"ratio": 1.0, "most": 3}])
def test_what_a_limit_cannot_be_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        LengthLimit(**fields)


def test_what_every_engine_shares_needs_no_torch() -> None:
    modules = ["decoding.penalty", "decoding.options", "decoding.hypothesis", "text.vocab"]
    program = "\n".join(
        ["import sys", *(f"import dragoman.{module}; print('torch' in sys.modules)" for module in modules)]
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False"] * 4
