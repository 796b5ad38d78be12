"""Which files are packed, by the end of their names, and how those would end unpacked."""

from pathlib import Path
from typing import Final

PACKED: Final = {".gz": "gzip", ".zst": "zstd"}
"""And with what, in Arrow's words."""


def unpacked_suffix(address: str | Path) -> str:
    """How its name would end if it were not packed."""
    suffix = Path(address).suffix
    return Path(str(address).removesuffix(suffix)).suffix if suffix in PACKED else suffix
