"""What is no language, and means itself in any: placeholders, tags, addresses, numbers. No torch here."""

import re
from collections import Counter
from typing import Final

from dragoman.decoding.clauses import UNSPACED

_IN_ADDRESS: Final = rf'[^\s<>"{UNSPACED}]'
_AT_ITS_END: Final = rf"[^\s<>\"'.,;:!?…)\]}}»”\u2019{UNSPACED}]"
_ADDRESS: Final = rf"(?:(?:https?|ftp|file)://|www\.){_IN_ADDRESS}*{_AT_ITS_END}"
_MAIL: Final = r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_BREAK: Final = r"\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
"""What ends a line, and so whatever stands in it."""
_BRACES: Final = rf"\{{\{{[^{{}}{_BREAK}]*\}}\}}|\{{%[^{{}}{_BREAK}]*%\}}|[$%]?\{{ ?[^{{}}\s]* ?\}}"
_PERCENT: Final = r"%%|%(?:\(\w+\))?(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:ll?)?[sdiufFeEgGxXoc@](?![A-Za-z])"
_TAG: Final = rf"</?[A-Za-z][^<>{_BREAK}]*>|&(?:\w+|#\d+);"
_VARIABLE: Final = r"\$[A-Za-z_]\w*|(?<!\S):[A-Za-z]\w*|(?<!\w)__[A-Z][A-Z\d]*(?:_[A-Z\d]+)*__(?!\w)"
"""$HOME, __NAME__, and :name at the beginning of a word."""
_ESCAPE: Final = r"\\(?:[abfnrtv0\\\"']|x[\dA-Fa-f]{2}|u[\dA-Fa-f]{4})"

_BEFORE: Final = rf"(?<![^\W{UNSPACED}])"
_AFTER: Final = rf"(?![^\W{UNSPACED}])"
_COUNTED: Final = r"\d++(?:[.,]\d++)*+(?:[a-z]{2,}+|[es])?+(?![A-Za-z\d_])"
"""A number, or one with a word behind it that has another form in other languages: 10kg, 3rd, 1960s."""
_POWER: Final = rf"{_BEFORE}(?:0[xX][\dA-Fa-f]+|\d+(?:\.\d+)?[eE][-+]?\d+){_AFTER}"
_GLUED: Final = (
    rf"{_BEFORE}(?:[-+\u2212](?=\d))?(?=[A-Za-z_]*\d)(?=[\d.,_]*[A-Za-z])(?!{_COUNTED})"
    rf"(?:\d++[.,])*+[A-Za-z\d_]++(?:\.\d[A-Za-z\d_]*+)*+{_AFTER}"
)
"""Digits and letters in one: 7B, MP3, v2.1."""
_FRACTION: Final = "[\xbc-\xbe\u2150-\u215e\u2189]"
_NUMBER: Final = rf"{_BEFORE}(?<!\d[.,])[-+\u2212]?\d+(?:[.,:/\u2019'\u202f\xa0-]\d+)*(?!\d)"

_SIGN: Final = r"[@{<%$&\\]|://|www\.|__|(?<!\S):[A-Za-z]"
_MARKED: Final = re.compile(_SIGN)
_MARKED_OR_NUMBERED: Final = re.compile(rf"{_SIGN}|{_FRACTION}|\d")
"""Most sentences have no marker and no number, and this finds it out soon."""

_MARKER: Final = re.compile("|".join([_ADDRESS, _MAIL, _BRACES, _PERCENT, _TAG, _VARIABLE, _ESCAPE]))

VERBATIM: Final = re.compile("|".join([_MARKER.pattern, _POWER, _GLUED, _NUMBER, _FRACTION]))
"""Markers and numbers. A number in an address is part of the address."""

RUNS: Final = re.compile(f"(?:{VERBATIM.pattern})+")
"""What stands together stays together: %d%%."""


def masked(text: str) -> str:
    """The text, as long as it was, with lines in the place of markers: no full stop in them ends a sentence."""
    return _MARKER.sub(lambda found: "_" * len(found[0]), text) if _MARKED.search(text) else text


def survives(source: str, text: str) -> bool:
    """Whether all that means itself in the source is in the text, as often as there."""
    if not _MARKED_OR_NUMBERED.search(source):
        return True
    there = Counter(VERBATIM.findall(text))
    return all(there[string] == count for string, count in Counter(VERBATIM.findall(source)).items())
