import re

import pytest
from pydantic import TypeAdapter

from dragoman.training.config import Duration, TrainingConfig, format_duration, parse_duration, resolve_precision

TIMES = {
    "90s": 90.0,
    "45m": 2700.0,
    "1.5h": 5400.0,
    "3d": 259_200.0,
    "1h30m": 5400.0,
    "2d3h4m5s": 183_845.0,
    "1m0.5s": 60.5,
    " 7 m ": 420.0,
}
NONE = ["", "45", "h", "0m", "0h0m", "30m1h", "1h1h", "1h30", "1h 30m", "-5m", "1h-5m", "1w", "1.h", "1h30m."]
PATTERN = TypeAdapter(Duration).json_schema()["pattern"]


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_a_number_with_a_unit_or_a_sum_of_them(text: str) -> None:
    assert parse_duration(text) == TIMES[text]
    assert parse_duration(format_duration(TIMES[text])) == TIMES[text]
    assert re.search(PATTERN, text.strip())


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"{text!r} is not a duration: write a number and a unit, such as 90s")
    ):
        parse_duration(text)


@pytest.mark.parametrize(("is_fast", "resolved"), [(True, "bfloat16"), (False, "float32")])
def test_automatic_precision_is_the_fast_one_of_the_machine(is_fast: bool, resolved: str) -> None:
    assert TrainingConfig().precision == "auto"
    assert resolve_precision(TrainingConfig(), is_fast).precision == resolved


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_precision_that_is_named_stays(is_fast: bool) -> None:
    config = TrainingConfig(precision="float32")
    assert resolve_precision(config, is_fast) == config
