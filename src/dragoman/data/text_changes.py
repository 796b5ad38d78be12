"""Changes of sentence pairs that make a model robust: capitals, typing errors, and strings to copy.

Each change keeps the number and the order of the words, except that a copied string may be added at the end.
"""

import re
from typing import Final, NamedTuple

from numpy.random import Generator

_WORD_START: Final = re.compile(r"(?<!\S)(\W*)(\w)")
_LETTERS: Final = re.compile(r"[^\W\d_]{4,}")
_WORDS_PER_ERROR: Final = 8
_NEIGHBOURS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_LOWER_CASE_SHARE: Final = 0.3
"""The share of texts with typing errors that are written without capitals, too."""

_COPIED: Final = re.compile(r"\w+")
_ONSETS: Final = (*"bdfghjklmnprstvwz", "br", "dr", "gr", "kr", "st", "tr", "sh", "ch")
_VOWELS: Final = (*"aeiou", "ai", "ea")
_ENDINGS: Final = ("", "", "n", "s", "r", "k")
_EMOJI: Final = tuple("😀😂😊😍😎😢😡👍👎🙏🎉🔥🚗🏠🍕🐱🐶🌍📎📅✅❌")
_BEFORE_DOMAIN: Final = ("https://", "http://www.", "www.", "info@", "office@", "")
_DOMAINS: Final = ("com", "org", "net", "de", "eu", "io")


class TextPair(NamedTuple):
    """A source sentence and its translation."""

    source: str
    target: str


def to_upper_case(pair: TextPair) -> TextPair:
    """Return both sides in capitals."""
    return TextPair(pair.source.upper(), pair.target.upper())


def to_title_case(pair: TextPair) -> TextPair:
    """Return the source with a capital at the start of each word; the target is unchanged.

    English titles are written so, those of most other languages are not.
    """
    return TextPair(_WORD_START.sub(lambda start: start[1] + start[2].upper(), pair.source), pair.target)


def add_typing_errors(pair: TextPair, random: Generator) -> TextPair:
    """Return the pair with about one typing error per eight words of the source; the target is unchanged."""
    source = pair.source
    words = [(found.start(), found.end()) for found in _LETTERS.finditer(source)]
    num_errors = min(len(words), max(1, round(len(source.split()) / _WORDS_PER_ERROR)))
    for place in sorted(random.permutation(len(words))[:num_errors], reverse=True):
        start, end = words[place]
        source = source[:start] + _mistype(source[start:end], random) + source[end:]
    if random.random() < _LOWER_CASE_SHARE:
        source = source.lower()
    return TextPair(source, pair.target)


def _mistype(word: str, random: Generator) -> str:
    """Return the word with two letters swapped, or with one dropped, doubled or replaced; the first letter stays."""
    at = int(random.integers(1, len(word) - 1))
    before, letter, after = word[:at], word[at], word[at + 1 :]
    match int(random.integers(4)):
        case 0:
            return before + after[0] + letter + after[1:]
        case 1:
            return before + after
        case 2:
            return before + letter + letter + after
        case _:
            return before + _neighbour(letter, random) + after


def _neighbour(letter: str, random: Generator) -> str:
    """Return a letter beside this one on a keyboard; a letter that is on none of its rows is doubled."""
    for row in _NEIGHBOURS:
        if (place := row.find(letter)) >= 0:
            beside = row[max(0, place - 1) : place] + row[place + 1 : place + 2]
            return beside[int(random.integers(len(beside)))]
    return letter + letter


def add_copied_string(pair: TextPair, random: Generator) -> TextPair:
    """Return the pair with another name or number where both sides have the same, or with a string added to both.

    A name or number is replaced if it occurs exactly once on each side. Otherwise an emoji, an address or a number
    follows both sentences.
    """
    same = [word for word in _COPIED.findall(pair.source) if _is_copied(word) and _occur_once(word, pair)]
    if same:
        word = same[int(random.integers(len(same)))]
        other = _number(random, len(word)) if word.isdecimal() else _name(random)
        return TextPair(*(re.sub(rf"\b{word}\b", other, side) for side in pair))
    made = (_emoji, _address, _number)[int(random.integers(3))](random)
    return TextPair(*(f"{side} {made}" for side in pair))


def _is_copied(word: str) -> bool:
    """Return True for numbers, and for words with a capital and two more letters, such as names."""
    return word.isdecimal() or (len(word) > 2 and word[0].isupper() and word[1:].islower())


def _occur_once(word: str, pair: TextPair) -> bool:
    return all(_COPIED.findall(side).count(word) == 1 for side in pair)


def _name(random: Generator) -> str:
    syllables = (_choose(_ONSETS, random) + _choose(_VOWELS, random) for _ in range(int(random.integers(2, 4))))
    return "".join([*syllables, _choose(_ENDINGS, random)]).capitalize()


def _number(random: Generator, num_digits: int = 0) -> str:
    num_digits = num_digits or int(random.integers(1, 6))
    return "".join(str(random.integers(0 if i else 1, 10)) for i in range(num_digits))


def _emoji(random: Generator) -> str:
    return _choose(_EMOJI, random)


def _address(random: Generator) -> str:
    name, domain = _name(random).lower(), _choose(_DOMAINS, random)
    return f"{_choose(_BEFORE_DOMAIN, random)}{name}.{domain}"


def _choose(words: tuple[str, ...], random: Generator) -> str:
    return words[int(random.integers(len(words)))]
