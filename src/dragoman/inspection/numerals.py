"""Numbers and addresses in a text of any language, in a form in which two languages can be compared.

1,000 = 1.000 = 1 000 = 1000; 1,5 = 1.50; 12.05.2020 = 5/12/2020 = 2020-05-12. Digits are read in any script.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NamedTuple

from dragoman.inspection.flag import Span
from dragoman.inspection.number_words import spelled

_SPACES: Final = "\u0020\u00a0\u2009\u202f"
_NUMBER: Final = re.compile(rf"(?<!\d)\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’٫٬]\d+)*")  # noqa: RUF001
_SCALE: Final = re.compile(r"[\s-]?(?:thousand|tausend|mill|mio|milliard|mrd|bill|bn\b|trill|k\b|m\b)", re.IGNORECASE)
_AFTERNOON: Final = re.compile(r"\d\s?[ap]\.?\s?m\b", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s<>\"]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_TRAILING: Final = ".,;:!?)]}'\"«»‹›“”„‘’/。，、」』"  # noqa: RUF001


class Numeral(NamedTuple):
    """A number, or one part of a date."""

    value: Decimal
    span: Span
    scaled: bool
    """A word such as million follows."""


_Same = Callable[[Numeral, Numeral], bool]


class Address(NamedTuple):
    """A URL or an e-mail address."""

    text: str
    span: Span


def addresses(text: str) -> list[Address]:
    """All of them, without the punctuation behind them."""
    found = []
    for match in _ADDRESS.finditer(text):
        kept = match.group().rstrip(_TRAILING)
        found.append(Address(kept, (match.start(), match.start() + len(kept))))
    return found


def numerals(text: str) -> list[Numeral]:
    """All numbers, in order; what stands in an address is none."""
    for _, (start, end) in addresses(text):
        text = text[:start] + "x" * (end - start) + text[end:]
    return [
        Numeral(value, match.span(), _SCALE.match(text, match.end()) is not None)
        for match in _NUMBER.finditer(text)
        for value in values(match.group())
    ]


def values(written: str) -> list[Decimal]:
    """What digits and separators stand for: one number, or the parts of a date."""
    first, *groups = re.split(r"\D", written)
    marks = re.findall(r"\D", written)
    if not groups:
        return [Decimal(first)]
    if len(set(marks)) == 2 and marks.count(marks[-1]) == 1 and _are_thousands(first, groups[:-1]):
        return [_decimal(first + "".join(groups[:-1]), groups[-1])]
    if len(set(marks)) == 1 and _are_thousands(first, groups):
        return [Decimal(first + "".join(groups))]
    if len(groups) == 1:
        return [_decimal(first, groups[0])]
    return [Decimal(part) for part in (first, *groups)]


def unmatched(source: str, target: str) -> tuple[list[Numeral], list[Numeral]]:
    """The numbers of each side that the other side does not have, as often as they are missing.

    Allowed for: 10.30 for 10:30, 21:00 for 9 p.m., 2 million for 2,000,000, and numbers that the other side spells out
    in English or German. In other languages a number up to twelve may be spelled out too: if it is missing while the
    other side has none too many, it is left alone.
    """
    left, right = _cancel(numerals(source), numerals(target), lambda one, other: one.value == other.value)
    left, right = _cancel(left, right, _same_scaled)
    left, right = _cancel(_parts(left), _parts(right), lambda one, other: one.value == other.value)
    if _AFTERNOON.search(source) or _AFTERNOON.search(target):
        left, right = _cancel(left, right, _same_hour)
    left, right = ([number for number in side if number.value] for side in (left, right))
    read, written = spelled(source), spelled(target)
    left, right = _without(left, written), _without(right, read)
    for value in [value for value in read if value in written]:
        if value in written:
            read.remove(value)
            written.remove(value)
    if not right and not written:
        left = [number for number in left if not _may_be_spelled(number)]
    if not left and not read:
        right = [number for number in right if not _may_be_spelled(number)]
    return left, right


def _without(numbers: list[Numeral], words: list[int]) -> list[Numeral]:
    """Those for which no word answers; the words that do are used up."""
    kept = []
    for number in numbers:
        if number.value in words:
            words.remove(int(number.value))
        else:
            kept.append(number)
    return kept


def _may_be_spelled(number: Numeral) -> bool:
    return number.value <= 12 and not number.value % 1


def _cancel(left: list[Numeral], right: list[Numeral], same: _Same) -> tuple[list[Numeral], list[Numeral]]:
    kept, rest = [], list(right)
    for number in left:
        twin = next((i for i, other in enumerate(rest) if same(number, other)), None)
        if twin is None:
            kept.append(number)
        else:
            del rest[twin]
    return kept, rest


def _parts(numbers: list[Numeral]) -> list[Numeral]:
    """Times such as 10.30 look like decimals: their two halves."""
    return [Numeral(Decimal(part), number.span, number.scaled) for number in numbers for part in _halves(number.value)]


def _halves(value: Decimal) -> list[str]:
    whole, _, fraction = f"{value:f}".partition(".")
    is_time = fraction and int(whole) < 25 and len(fraction) <= 2
    return [whole, fraction.ljust(2, "0")] if is_time else [f"{value:f}"]


def _same_scaled(one: Numeral, other: Numeral) -> bool:
    small, large = sorted((one, other), key=lambda number: number.value)
    powers = {Decimal(10) ** power for power in (3, 6, 9, 12)}
    return small.scaled and small.value > 0 and large.value / small.value in powers


def _same_hour(one: Numeral, other: Numeral) -> bool:
    return abs(one.value - other.value) == 12 and max(one.value, other.value) <= 24


def _are_thousands(first: str, groups: list[str]) -> bool:
    return len(first) <= 3 and first.lstrip("0") != "" and all(len(group) == 3 for group in groups)


def _decimal(whole: str, fraction: str) -> Decimal:
    return Decimal(f"{whole}.{fraction}").normalize() + 0
