import re

import pytest
from pydantic import TypeAdapter

from dragoman.training.config import Duration, seconds, spelled

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
    assert seconds(text) == TIMES[text]
    assert seconds(spelled(TIMES[text])) == TIMES[text]
    assert re.search(PATTERN, text.strip())


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a time: write a number and a unit, such as 90s")):
        seconds(text)
