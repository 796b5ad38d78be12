import re
from datetime import date

import pytest

from dragoman.data.dates import FIRST, FORMS, LAST, dates

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16,
    "seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20, "thirtieth": 30,
}  # fmt: skip
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def read(text: str) -> date:
    """What a person reads in it: written apart from the generator, word by word."""
    words = re.findall(r"[a-z]+|\d+", text.lower().replace("-", " "))
    if "/" in text:
        return date(*map(int, words))
    if "." in text:
        return date(*map(int, reversed(words)))
    year = next(int(word) for word in words if word.isdigit() and len(word) == 4)
    month = next(MONTHS.index(word[:3]) + 1 for word in words if word[:3] in MONTHS and word not in WEEKDAYS)
    day = sum(int(word) for word in words if word.isdigit() and len(word) < 3)
    day += sum(ORDINALS.get(word, {"twenty": 20, "thirty": 30}.get(word, 0)) for word in words)
    return date(year, month, day)


def test_the_target_is_the_date_that_the_source_says() -> None:
    for source, target in dates(5000, seed=3):
        assert read(source).isoformat() == target, source


def test_a_weekday_is_the_right_one() -> None:
    named = [(source, target) for source, target in dates(5000, seed=3) if "day" in source.lower()]
    assert len(named) > 500
    for source, target in named:
        assert source.lower().startswith(WEEKDAYS[date.fromisoformat(target).weekday()])


def test_ordinals_have_their_endings() -> None:
    endings = {m[0] for source, _ in dates(20_000, seed=5) for m in re.finditer(r"\b\d{1,2}[a-z]+", source)}
    assert endings == {
        f"{day}{'st' if day in (1, 21, 31) else 'nd' if day in (2, 22) else 'rd' if day in (3, 23) else 'th'}"
        for day in range(1, 32)
    }


def test_no_day_comes_twice_so_any_split_is_clean() -> None:
    targets = [target for _, target in dates(16_000, seed=1)]
    assert len(set(targets)) == 16_000
    assert min(targets) >= FIRST.isoformat()
    assert max(targets) <= LAST.isoformat()


def test_the_same_seed_gives_the_same_pairs_and_another_gives_others() -> None:
    assert dates(50, seed=7) == dates(50, seed=7)
    assert dates(50, seed=7) != dates(50, seed=8)
    assert dates(20, seed=7) == dates(50, seed=7)[:20]


def test_every_form_is_used() -> None:
    shapes = {re.sub(r"\d+", "0", source.lower()) for source, _ in dates(3000, seed=2)}
    assert len(shapes) > len(FORMS)
    assert {"0/0/0", "0. 0. 0", "0 march 0", "march 0, 0", "in 0, on the 0th of may"} <= shapes


def test_all_the_days_there_are_can_be_drawn_and_no_more() -> None:
    span = (LAST - FIRST).days + 1
    assert len({target for _, target in dates(span, seed=1)}) == span == 54_787
    with pytest.raises(ValueError, match="54788 dates from the 54787 days from 1900-01-01 to 2049-12-31"):
        dates(span + 1, seed=1)
