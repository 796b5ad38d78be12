"""What is no language, and means itself in any: placeholders, tags, addresses, numbers. No torch here."""

import re
from collections import Counter
from typing import Final

from dragoman.decoding.clauses import UNSPACED

_IN_ADDRESS: Final = rf'[^\s<>"{UNSPACED}]'
_AT_ITS_END: Final = rf"[^\s<>\"'.,;:!?…)\]}}»”\u2019{UNSPACED}]"
_ADDRESS: Final = rf"(?:(?:https?|ftp|file)://|www\.){_IN_ADDRESS}*{_AT_ITS_END}"
_MAIL: Final = r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_BRACES: Final = r"\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\}|[$%]?\{ ?[^{}\s]* ?\}"
_PERCENT: Final = r"%(?:\(\w+\))?(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:ll?)?[sdiufFeEgGxXoc@](?![A-Za-z])"
_TAG: Final = r"</?[A-Za-z][^<>\n]*>|&(?:\w+|#\d+);"
_VARIABLE: Final = r"\$[A-Za-z_]\w*"
_NUMBER: Final = rf"(?<![^\W{UNSPACED}])(?<!\d[.,])[-+\u2212]?\d+(?:[.,:/\u2019'\u202f\xa0-]\d+)*(?!\d)"
"""As a rule, digits after a letter belong to a name: MP3."""

_SIGN: Final = r"[@{<%$&]|://|www\."
_MARKED: Final = re.compile(_SIGN)
_MARKED_OR_NUMBERED: Final = re.compile(rf"{_SIGN}|\d")
"""Most sentences have no marker and no number, and this finds it out soon."""

_MARKER: Final = re.compile("|".join([_ADDRESS, _MAIL, _BRACES, _PERCENT, _TAG, _VARIABLE]))

VERBATIM: Final = re.compile(f"{_MARKER.pattern}|{_NUMBER}")
"""Markers and numbers. A number in an address is part of the address."""


def masked(text: str) -> str:
    """The text, as long as it was, with lines in the place of markers: no full stop in them ends a sentence."""
    return _MARKER.sub(lambda found: "_" * len(found[0]), text) if _MARKED.search(text) else text


def survives(source: str, text: str) -> bool:
    """Whether all that means itself in the source is in the text, as often as there."""
    if not _MARKED_OR_NUMBERED.search(source):
        return True
    there = Counter(VERBATIM.findall(text))
    return all(there[string] == count for string, count in Counter(VERBATIM.findall(source)).items())
