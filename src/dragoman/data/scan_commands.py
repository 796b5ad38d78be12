"""The commands and actions of SCAN (Lake and Baroni, 2018): lines such as `IN: jump twice OUT: I_JUMP I_JUMP`."""

import re
from collections.abc import Iterable
from typing import Final

_LINE: Final = re.compile(r"IN: (.+) OUT: (.+)")


def read_scan(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of a command and its actions."""
    pairs = []
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line.strip())
        if not match:
            raise ValueError(f"line {number:,} is not `IN: command OUT: actions`: give a file of SCAN")
        pairs.append((match[1], match[2]))
    return pairs
