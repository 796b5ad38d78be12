"""Strings that stay the same in any language: placeholders, tags, addresses, code, emoji, numbers.

Their patterns take 20 ms each to compile and most sentences have no such string, so they are compiled on first use.
Does not import torch.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
"""Characters of scripts without spaces between words or sentences."""

_IN_ADDRESS: Final = rf'[^\s<>"{UNSPACED}]'
_AT_ITS_END: Final = rf"[^\s<>\"'.,;:!?…)\]}}»”\u2019{UNSPACED}]"
_ADDRESS: Final = rf"(?:(?<![A-Za-z\d])[A-Za-z][A-Za-z\d+.-]{{1,15}}://|www\.){_IN_ADDRESS}*{_AT_ITS_END}"
_DOMAIN: Final = (
    r"(?<![\w@.-])(?:[A-Za-z\d](?:[A-Za-z\d-]*[A-Za-z\d])?\.)+(?:com|org|net|edu|gov|io|dev|app|info|eu|de|fr|uk|ch)"
    rf"(?![\w@-]|\.\w)(?::\d+)?(?:/(?:{_IN_ADDRESS}*{_AT_ITS_END})?)?"
)
"""An address without a scheme, such as example.com/help."""
_MAIL: Final = r"(?:mailto:)?(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_BREAK: Final = r"\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
"""Characters that end a line."""
_BRACES: Final = (
    rf"\{{\{{[^{{}}{_BREAK}]*\}}\}}|\{{%[^{{}}{_BREAK}]*%\}}|[$%#]?\{{ ?[^{{}}\s]* ?\}}|\{{\w+(?:, ?\w+)+\}}"
)
_PERCENT: Final = (
    r"%%|%(?:\(\w+\))?(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:ll?)?[sdiufFeEgGxXoc@](?![A-Za-z])|%[A-Z_][A-Z\d_]+%"
)
_TAG: Final = rf"</?[A-Za-z][^<>{_BREAK}]*>|</?\d+/?>|<[!?%][^<>{_BREAK}]*>|&(?:\w+|#\d+|#x[\dA-Fa-f]+);"
_VARIABLE: Final = (
    r"\$[A-Za-z_]\w*|(?<!\S):[A-Za-z]\w*:?|(?<![\w@.])@[A-Za-z_]\w*"
    r"|(?<!\w)__[A-Z][A-Z\d]*(?:_[A-Z\d]+)*__(?!\w)"
)
"""$HOME, @name, __NAME__, and :name or :name: at the beginning of a word."""
_CODE: Final = rf"```(?:(?!```)[^{_BREAK}])+```|``(?:(?!``)[^{_BREAK}])+``(?!`)|(?<!`)`[^`{_BREAK}]+`(?!`)"
_ESCAPE: Final = r"\\(?:[abfnrtv0\\\"']|x[\dA-Fa-f]{2}|u[\dA-Fa-f]{4})"

_PICTURE: Final = (
    "\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff"
)
_IN_PICTURE: Final = rf"{_PICTURE}\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
_EMOJI: Final = rf"[{_PICTURE}][{_IN_PICTURE}]*|[\d#*]\ufe0f?\u20e3"
"""Adjacent emoji and other pictures, with skin tones and joiners; a keycap."""

_BEFORE: Final = rf"(?<![^\W{UNSPACED}])"
_AFTER: Final = rf"(?![^\W{UNSPACED}])"
_COUNTED: Final = r"\d++(?:[.,]\d++)*+(?:[a-z]{2,}+|[es])?+(?![A-Za-z\d_])"
"""A number, possibly with a suffix that differs between languages: 10kg, 3rd, 1960s."""
_POWER: Final = rf"{_BEFORE}(?:0[xX][\dA-Fa-f]+|\d+(?:\.\d+)?[eE][-+]?\d+){_AFTER}"
_GLUED: Final = (
    rf"{_BEFORE}(?:[-+\u2212](?=\d))?(?=[A-Za-z_]*\d)(?=[\d.,_]*[A-Za-z])(?!{_COUNTED})"
    rf"(?:\d++[.,])*+[A-Za-z\d_]++(?:\.\d[A-Za-z\d_]*+)*+{_AFTER}"
)
"""Digits and letters in one word: 7B, MP3, v2.1."""
_FRACTION: Final = "[\xbc-\xbe\u2150-\u215e\u2189]"
_NUMBER: Final = rf"{_BEFORE}(?<!\d[.,])[-+\u2212]?\d+(?:[.,:/\u2019'\u202f\xa0-]\d+)*(?!\d)"

_FENCE: Final = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^`\n]*(?:\n(?:.*\n)*?[ \t]*(?P=fence)[`~]*[ \t]*\r?$)?", re.MULTILINE
)
"""Lines of code between two fences, or a fence without an end."""

_OPENING: Final = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")

_SIGN: Final = r"[@{<%$&\\`]|://|www\.|__|~~~|\w\.\w|(?<!\S):[A-Za-z]"
_MARKED: Final = re.compile(_SIGN)
_MARKED_OR_NUMBERED: Final = re.compile(rf"{_SIGN}|{_FRACTION}|[\d\u20e3{_PICTURE}]")
"""A fast test for markers, emoji and numbers: most sentences have none."""

_MARKER: Final = "|".join([_CODE, _ADDRESS, _MAIL, _DOMAIN, _BRACES, _PERCENT, _TAG, _VARIABLE, _ESCAPE])
_VERBATIM: Final = "|".join([_MARKER, _EMOJI, _POWER, _GLUED, _NUMBER, _FRACTION])
"""Markers, emoji and numbers. A number in an address is part of the address."""
_RUN: Final = f"(?:{_VERBATIM})+"

_NO_PICTURE: Final = re.compile(rf"[^\s{_IN_PICTURE}]+")
_CHUNK: Final = re.compile(r"\S+")
_WORD: Final = re.compile(f"[^\\W{UNSPACED}]")
_SEPARATED: Final = re.compile(r"([-+\u2212]?)(\d+(?:[.,:/\u2019'\u202f\xa0-]\d+)*)")
_NOT_DIGITS: Final = re.compile(r"\D")


def mask(text: str) -> str:
    """Replace placeholders, tags, addresses and code with underscores, so that a full stop in them ends no sentence.

    The lines of code between two fences become one line without letters.
    """
    if not _MARKED.search(text):
        return text
    return _pattern(_MARKER).sub(_underscores, _FENCE.sub(_underscores, text))


def find_fence(line: str) -> str:
    """Return the backticks or tildes with which a line begins or ends a block of code; "" for another line."""
    fence = _OPENING.match(line)
    return fence[1] if fence else ""


def _underscores(match: re.Match[str]) -> str:
    return "_" * len(match[0])


def survives(source: str, text: str) -> bool:
    """Return True if the text has every placeholder, address, emoji and number of the source, as often as the source.

    Numbers and times may have other separators: 1,234.56 and 1.234,56, 10:30 and 10.30.
    """
    if not _MARKED_OR_NUMBERED.search(source):
        return True
    present = _count(text)
    return all(present[string] == count for string, count in _count(source).items())


def missing_strings(source: str, text: str) -> list[str]:
    """Return the verbatim strings of the source that the text lacks, in order."""
    present, missing = _count(text), []
    for string in find_strings(source):
        form = _unify_separators(string)
        present[form] -= 1
        missing += [string] if present[form] < 0 else []
    return missing


def find_strings(text: str) -> list[str]:
    """Return the verbatim strings of a text, in order."""
    return _pattern(_VERBATIM).findall(text) if _MARKED_OR_NUMBERED.search(text) else []


def find_runs(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs of a text: adjacent verbatim strings such as %d%%, which are kept together."""
    return _pattern(_RUN).finditer(text) if _MARKED_OR_NUMBERED.search(text) else iter(())


def split_at_runs(text: str) -> list[str]:
    """Split a text into the stretches between its runs, and the runs, alternating; a stretch is first and last."""
    parts, end = [], 0
    for run in find_runs(text):
        parts += [text[end : run.start()], run[0]]
        end = run.end()
    return [*parts, text[end:]]


def replace_runs(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    """Return the text with each run replaced by what `replace` returns for it."""
    return _pattern(_RUN).sub(replace, text) if _MARKED_OR_NUMBERED.search(text) else text


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _count(text: str) -> Counter[str]:
    return Counter(map(_unify_separators, find_strings(text)))


def _unify_separators(string: str) -> str:
    """Return a number with a full stop for each separator, so that spellings of languages compare equal."""
    number = _SEPARATED.fullmatch(string)
    if number is None:
        return string
    return number[1].replace("\u2212", "-") + _NOT_DIGITS.sub(".", number[2])


def trim_emoji(text: str) -> tuple[str, str, str]:
    """Split a text into the emoji and white space before its words, the words, and the emoji after them."""
    spans = [words.span() for words in _NO_PICTURE.finditer(text)]
    start, end = (spans[0][0], spans[-1][1]) if spans else (len(text), len(text))
    return text[:start], text[start:end], text[end:]


def in_word(text: str, start: int, end: int) -> bool:
    """Return True if a word is attached to a span of the text."""
    return bool(_WORD.match(text[end : end + 1]) or _WORD.match(text[max(0, start - 1) : start]))


def shorten(source: str, text: str) -> tuple[str, str]:
    """Replace the verbatim strings of a source and its translation with short codes, for alignment.

    The number of words does not change. A string attached to a word is removed.
    """
    codes: dict[str, str] = {}

    def replace(run: re.Match[str]) -> str:
        def code(chunk: re.Match[str]) -> str:
            is_attached = in_word(run.string, run.start() + chunk.start(), run.start() + chunk.end())
            return "" if is_attached else codes.setdefault(chunk[0], f"X{len(codes) + 1}")

        return _CHUNK.sub(code, run[0])

    return replace_runs(source, replace), replace_runs(text, replace)
