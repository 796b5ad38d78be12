"""Numbers and addresses in a text, normalised for comparison between languages.

1,000 = 1.000 = 1 000 = 1000; 1,5 = 1.50; 12.05.2020 = 5/12/2020 = 2020-05-12. Digits are read in any script. Numbers
spelled out in English or German match digits in the other text.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from operator import eq
from typing import Final, NamedTuple, TypeVar

TextSpan = tuple[int, int]
"""The (start, end) of a substring, in characters."""

_SPACES: Final = "\u0020\u00a0\u2009\u202f"
_NUMBER: Final = re.compile(rf"(?<!\d)\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’٫٬]\d+)*")  # noqa: RUF001
_SCALE: Final = re.compile(r"[\s-]?(?:thousand|tausend|mill|mio|milliard|mrd|bill|bn\b|trill|k\b|m\b)", re.IGNORECASE)
_AFTERNOON: Final = re.compile(r"\d\s?[ap]\.?\s?m\b", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)[^\s<>\"]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_TRAILING: Final = ".,;:!?)]}'\"«»‹›“”„‘’/。，、」』"  # noqa: RUF001

_NAMES: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty thirty forty fifty sixty seventy eighty ninety",
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn "
    "neunzehn zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig",
)
"""The number words for 2 to 19 and for the tens, in English and German."""
_NAMED: Final = (*range(2, 20), *range(20, 100, 10))
_IRREGULAR: Final = "third:3 fifth:5 eighth:8 ninth:9 twelfth:12 dritte:3 siebte:7 achte:8 zwo:2 dozen:12 dutzend:12"
_VALUES: Final[dict[str, int]] = {
    **{word: value for names in _NAMES for value, word in zip(_NAMED, names.split(), strict=True)},
    **{word: int(value) for word, value in (pair.split(":") for pair in _IRREGULAR.split())},
}
_POWER_NAMES: Final = {2: ("hundred", "hundert"), 3: ("thousand", "tausend"), 6: ("million", "millionen")}
_POWERS: Final = {name: 10**power for power, names in _POWER_NAMES.items() for name in names}
_ORDINAL: Final = re.compile(r"(?:s?te[nmrs]?|th)$")


class Numeral(NamedTuple):
    """A number in a text, or one field of a date, such as the year."""

    value: Decimal
    span: TextSpan
    scaled: bool
    """True if a word such as million follows the number."""


Left = TypeVar("Left")
Right = TypeVar("Right")


def find_addresses(text: str) -> list[TextSpan]:
    """Return the spans of URLs and e-mail addresses, without trailing punctuation."""
    return [(match.start(), match.start() + len(match.group().rstrip(_TRAILING))) for match in _ADDRESS.finditer(text)]


def find_numerals(text: str) -> list[Numeral]:
    """Return all numbers in a text, in order, except digits in URLs and e-mail addresses."""
    for start, end in find_addresses(text):
        text = text[:start] + "x" * (end - start) + text[end:]
    return [
        Numeral(value, match.span(), _SCALE.match(text, match.end()) is not None)
        for match in _NUMBER.finditer(text)
        for value in parse_number(match.group())
    ]


def parse_number(text: str) -> list[Decimal]:
    """Parse digits and separators into one number, or into the fields of a date."""
    first, *groups = re.split(r"\D", text)
    marks = re.findall(r"\D", text)
    if not groups:
        return [Decimal(first)]
    if len(set(marks)) == 2 and marks.count(marks[-1]) == 1 and _are_thousands(first, groups[:-1]):
        return [_decimal(first + "".join(groups[:-1]), groups[-1])]
    if len(set(marks)) == 1 and _are_thousands(first, groups):
        return [Decimal(first + "".join(groups))]
    if len(groups) == 1:
        return [_decimal(first, groups[0])]
    return [Decimal(part) for part in (first, *groups)]


def unmatched_numbers(source: str, target: str) -> tuple[list[Numeral], list[Numeral]]:
    """Return the source numbers that the target lacks, and the target numbers that the source lacks.

    Different spellings match: 10.30 and 10:30, 21:00 and 9 p.m., 2 million and 2,000,000, and numbers spelled out in
    English or German. Other languages may spell out small numbers: a number up to twelve is not returned if the other
    text has no unmatched number.
    """
    left, right = _cancel(find_numerals(source), find_numerals(target), _same_value)
    left, right = _cancel(left, right, _same_scaled)
    left, right = _cancel(_parts(left), _parts(right), _same_value)
    if _AFTERNOON.search(source) or _AFTERNOON.search(target):
        left, right = _cancel(left, right, _same_hour)
    left, right = ([number for number in side if number.value] for side in (left, right))
    left, written = _cancel(left, find_number_words(target), lambda number, word: number.value == word)
    right, read = _cancel(right, find_number_words(source), lambda number, word: number.value == word)
    read, written = _cancel(read, written, eq)
    if not right and not written:
        left = [number for number in left if not _may_be_spelled(number)]
    if not left and not read:
        right = [number for number in right if not _may_be_spelled(number)]
    return left, right


def _may_be_spelled(number: Numeral) -> bool:
    return number.value <= 12 and not number.value % 1


def _cancel(
    left: list[Left], right: list[Right], same: Callable[[Left, Right], bool]
) -> tuple[list[Left], list[Right]]:
    """Return both lists without matching items; each item matches at most one item of the other list."""
    kept, rest = [], list(right)
    for number in left:
        twin = next((i for i, other in enumerate(rest) if same(number, other)), None)
        if twin is None:
            kept.append(number)
        else:
            del rest[twin]
    return kept, rest


def _parts(numbers: list[Numeral]) -> list[Numeral]:
    """Split numbers that may be times, such as 10.30, into hours and minutes."""
    parts = []
    for number in numbers:
        whole, _, fraction = f"{number.value:f}".partition(".")
        is_time = fraction and int(whole) < 25 and len(fraction) <= 2
        values = [Decimal(whole), Decimal(fraction.ljust(2, "0"))] if is_time else [number.value]
        parts += [number._replace(value=value) for value in values]
    return parts


def _same_value(one: Numeral, other: Numeral) -> bool:
    return one.value == other.value


def _same_scaled(one: Numeral, other: Numeral) -> bool:
    small, large = sorted((one, other), key=lambda number: number.value)
    return small.scaled and small.value > 0 and large.value / small.value in (10**3, 10**6, 10**9, 10**12)


def _same_hour(one: Numeral, other: Numeral) -> bool:
    return abs(one.value - other.value) == 12 and max(one.value, other.value) <= 24


def _are_thousands(first: str, groups: list[str]) -> bool:
    return len(first) <= 3 and first.lstrip("0") != "" and all(len(group) == 3 for group in groups)


def _decimal(whole: str, fraction: str) -> Decimal:
    return Decimal(f"{whole}.{fraction}").normalize() + 0


def find_number_words(text: str) -> list[int]:
    """Return the values of number words, in order: three hundred, twenty-one, dreihunderteinundzwanzig.

    "one" counts only after another number word, as in twenty-one: alone, "one" and "ein" are rarely numbers.
    """
    values: list[int] = []
    whole = part = 0
    for word in [*re.findall(r"\w+|[^\w\s-]", text.casefold()), ""]:
        value, power = 1 if word == "one" and whole + part else _word_value(word), _POWERS.get(word)
        if power == 100:
            part = max(part, 1) * power
        elif power is not None:
            whole, part = whole + max(part, 1) * power, 0
        elif value is not None and _fits(part, value):
            part += value
        elif word != "and" or part % 100:
            values += [whole + part] if whole + part else []
            whole, part = 0, value or 0
    return values


def _fits(part: int, value: int) -> bool:
    """Return True if `value` can be added to `part`: after hundreds, or as the unit after a multiple of ten."""
    return part % 100 == 0 or (part % 10 == 0 and part % 100 > 10 and value < 10)


def _word_value(word: str) -> int | None:
    """Return the value of an English or German number word, cardinal or ordinal; None for other words."""
    stems = (word, re.sub("(?<=te)[nmrs]$", "", word), _ORDINAL.sub("", word), re.sub("ieth$", "y", word))
    return next((value for stem in stems if (value := _german(stem))), None)


def _german(word: str) -> int | None:
    """Return the value of a number word, which may be a German compound; None for other words.

    A lone `hundert` or `tausend` also gives None: `find_number_words` treats these words as multipliers.
    """
    if word in _VALUES:
        return _VALUES[word]
    for mark, power in (("tausend", 1000), ("hundert", 100)):
        before, found, after = word.partition(mark)
        if found and before + after:
            times = 1 if before in ("", "ein") else _german(before)
            rest = _german(after.removeprefix("und")) if after else 0
            return None if times is None or rest is None else times * power + rest
    unit, _, ten = word.partition("und")
    small = 1 if unit == "ein" else _VALUES.get(unit, 10)
    return small + _VALUES[ten] if small < 10 and _VALUES.get(ten, 0) >= 20 else None
