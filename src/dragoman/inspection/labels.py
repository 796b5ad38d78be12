"""Labels for tokens in any script, sanitised for display and shortened."""

import unicodedata
from typing import Final

from rich.cells import cell_len

_JOINERS: Final = "\u200c\u200d"
"""Zero-width joiners, which the spelling of Persian and emoji needs."""


def clean(label: str) -> str:
    """Replace control characters, which could move the cursor, colour the terminal or reverse the line."""
    return "".join("·" if _is_control(letter) else letter for letter in label)


def shorten(label: str, width: int) -> str:
    """Truncate a label to at most `width` terminal cells, with an ellipsis at the end."""
    if cell_len(label) <= width:
        return label
    kept = ""
    for letter in label:
        if cell_len(kept + letter) > width - 1:
            break
        kept += letter
    return kept + "…"


def is_right_to_left(label: str) -> bool:
    """Return True if the label has a letter of a right-to-left script."""
    return any(unicodedata.bidirectional(letter) in {"R", "AL"} for letter in label)


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and letter not in _JOINERS
