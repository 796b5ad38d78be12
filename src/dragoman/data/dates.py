"""Dates as people write them, and as ISO 8601 does: a task anyone can check, which a small model learns in a minute.

The year comes last or first, the month is a word or a number, the day may have an ordinal and a weekday may stand
before it all: to write `1987-03-21`, a model has to look for its three parts in another order. Figures with dots are
day first, those with slashes year first; forms that could be read in two ways are left out.
"""

from datetime import date, timedelta
from random import Random
from typing import Final

FIRST: Final = date(1900, 1, 1)
LAST: Final = date(2049, 12, 31)

_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_ONES: Final = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
_TEENS: Final = [
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
]
_ORDINALS: Final = [
    *_ONES,
    *_TEENS,
    "twentieth",
    *(f"twenty-{one}" for one in _ONES),
    "thirtieth",
    "thirty-first",
]
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}

FORMS: Final = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{day} {short} {year}",
    "{short} {day}, {year}",
    "{month} {nth}, {year}",
    "the {nth} of {month} {year}",
    "the {ordinal} of {month} {year}",
    "{month} the {ordinal}, {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {day}, {year}",
    "{weekday} the {nth} of {month}, {year}",
    "in {year}, on the {nth} of {month}",
    "{day}. {number}. {year}",
    "{year}/{number}/{day}",
)
"""Every way in which a date is written here; now and then all in small letters."""


def dates(num: int, seed: int) -> list[tuple[str, str]]:
    """So many pairs, no day twice: whichever way they are split, no part knows a day of another."""
    span = (LAST - FIRST).days + 1
    if not 0 <= num <= span:
        raise ValueError(f"there are {span} days from {FIRST} to {LAST}: {num} different ones cannot be drawn")
    draw = Random(seed)
    days = list(range(span))
    pairs = []
    for place in range(num):  # only `random` gives the same numbers in every version of Python
        other = place + int(draw.random() * (span - place))
        days[place], days[other] = days[other], days[place]
        pairs.append(_pair(FIRST + timedelta(days[place]), draw))
    return pairs


def _pair(day: date, draw: Random) -> tuple[str, str]:
    written = _written(day, FORMS[int(draw.random() * len(FORMS))])
    return (written.lower() if draw.random() < 0.2 else written), day.isoformat()


def _written(day: date, form: str) -> str:
    month = _MONTHS[day.month - 1]
    return form.format(
        year=day.year,
        month=month,
        short=month[:3],
        number=day.month,
        day=day.day,
        nth=f"{day.day}{_ENDINGS.get(day.day, 'th')}",
        ordinal=_ORDINALS[day.day - 1],
        weekday=_WEEKDAYS[day.weekday()],
    )
