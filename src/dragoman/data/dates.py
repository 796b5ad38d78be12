"""The dates example: translation of written English dates to ISO 8601, which a small model learns in a minute.

The year comes first or last, the month is a word or a number, the day may be an ordinal and a weekday may precede the
date: to write `1987-03-21`, a model must find the three parts in another order. Dates with dots are day first, dates
with slashes year first; ambiguous formats are not used.
"""

from datetime import date, timedelta
from random import Random
from typing import Final

FIRST: Final = date(1900, 1, 1)
LAST: Final = date(2049, 12, 31)

_ONES: Final = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
_TEENS: Final = ["thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"]
_ORDINALS: Final = [
    *(*_ONES, "tenth", "eleventh", "twelfth", *_TEENS, "twentieth"),
    *(*(f"twenty-{one}" for one in _ONES), "thirtieth", "thirty-first"),
]
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}

FORMS: Final = (
    "{day.day} {day:%B} {day.year}",
    "{day:%B} {day.day}, {day.year}",
    "{day.day} {day:%b} {day.year}",
    "{day:%b} {day.day}, {day.year}",
    "{day:%B} {nth}, {day.year}",
    "the {nth} of {day:%B} {day.year}",
    "the {ordinal} of {day:%B} {day.year}",
    "{day:%B} the {ordinal}, {day.year}",
    "{day:%A}, {day.day} {day:%B} {day.year}",
    "{day:%A}, {day:%B} {day.day}, {day.year}",
    "{day:%A} the {nth} of {day:%B}, {day.year}",
    "in {day.year}, on the {nth} of {day:%B}",
    "{day.day}. {day.month}. {day.year}",
    "{day.year}/{day.month}/{day.day}",
)
"""The formats of the source dates; 20% of the source dates are lower-cased."""


def dates(num: int, seed: int) -> list[tuple[str, str]]:
    """Return `num` pairs of a written date and its ISO 8601 form.

    No day occurs twice, so that no pair of one split leaks into another.
    """
    span = (LAST - FIRST).days + 1
    if not 0 <= num <= span:
        raise ValueError(f"cannot draw {num} dates from the {span} days from {FIRST} to {LAST}: give 0 to {span}")
    draw = Random(seed)
    days = list(range(span))
    pairs = []
    for place in range(num):  # only `random` gives the same numbers in every version of Python
        other = place + int(draw.random() * (span - place))
        days[place], days[other] = days[other], days[place]
        day = FIRST + timedelta(days[place])
        form, nth = FORMS[int(draw.random() * len(FORMS))], f"{day.day}{_ENDINGS.get(day.day, 'th')}"
        text = form.format(day=day, nth=nth, ordinal=_ORDINALS[day.day - 1])
        pairs.append((text.lower() if draw.random() < 0.2 else text, day.isoformat()))
    return pairs
