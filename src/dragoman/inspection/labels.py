"""Labels of pictures: tokens of any script, made harmless and short."""

import unicodedata
from typing import Final

from rich.cells import cell_len

_JOINERS: Final = "\u200c\u200d"
"""Invisible, but Persian and emoji are spelled with them."""


def clean(label: str) -> str:
    """Without what would move the cursor, colour the terminal or turn the line round."""
    return "".join("·" if _is_control(letter) else letter for letter in label)


def shorten(label: str, width: int) -> str:
    """At most so many cells wide, with dots where something is missing."""
    if cell_len(label) <= width:
        return label
    kept = ""
    for letter in label:
        if cell_len(kept + letter) > width - 1:
            break
        kept += letter
    return kept + "…"


def is_right_to_left(label: str) -> bool:
    """Whether it holds a letter of Hebrew, Arabic and their like."""
    return any(unicodedata.bidirectional(letter) in {"R", "AL"} for letter in label)


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and letter not in _JOINERS
