"""Numbers spelled out in English or German, so that "eighteen" can answer for 18 on the other side.

One counts only behind another, as in twenty-one: alone, "one" and "ein" are more often no numbers.
"""

import re
from typing import Final

_ENGLISH: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_GERMAN: Final = (
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn "
    "neunzehn"
)
_TENS: Final = (
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig",
)
_OTHERS: Final = {"zwo": 2, "dozen": 12, "dutzend": 12}
_ORDINALS: Final = {
    "third": 3,
    "fifth": 5,
    "eighth": 8,
    "ninth": 9,
    "twelfth": 12,
    "dritte": 3,
    "siebte": 7,
    "achte": 8,
}
_VALUES: Final[dict[str, int]] = {
    **{word: value for names in (_ENGLISH, _GERMAN) for value, word in enumerate(names.split(), 2)},
    **{word: 10 * value for names in _TENS for value, word in enumerate(names.split(), 2)},
    **_OTHERS,
    **_ORDINALS,
}
_POWERS: Final = {
    "hundred": 100,
    "hundert": 100,
    "thousand": 1000,
    "tausend": 1000,
    "million": 1_000_000,
    "millionen": 1_000_000,
}
_ORDINAL: Final = re.compile(r"(?:s?te[nmrs]?|th)$")


def spelled(text: str) -> list[int]:
    """The numbers that words of a text stand for, in order: three hundred, twenty-one, dreihunderteinundzwanzig."""
    found: list[int] = []
    whole = part = 0
    for word in [*re.findall(r"\w+|[^\w\s-]", text.casefold()), ""]:
        value, power = 1 if word == "one" and whole + part else _value(word), _POWERS.get(word)
        if power == 100:
            part = max(part, 1) * power
        elif power is not None:
            whole, part = whole + max(part, 1) * power, 0
        elif value is not None and _fits(part, value):
            part += value
        elif word != "and" or part % 100:
            found += [whole + part] if whole + part else []
            whole, part = 0, value or 0
    return found


def _fits(part: int, value: int) -> bool:
    """Whether a number goes on: behind hundreds, or as the unit of a ten."""
    return part % 100 == 0 or (part % 10 == 0 and part % 100 > 10 and value < 10)


def _value(word: str) -> int | None:
    """Of one word, which in German may have many parts; an ordinal is its number."""
    stems = (word, re.sub("(?<=te)[nmrs]$", "", word), _ORDINAL.sub("", word), re.sub("ieth$", "y", word))
    return next((value for stem in stems if (value := _german(stem))), None)


def _german(word: str) -> int | None:
    """Units before tens, all in one word. A hundred or thousand alone is left to the words before it."""
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
