"""Lines of a text file, packed or not, for the scripts beside this one."""

import gzip
from pathlib import Path


def lines(path: Path | str) -> list[str]:
    """All of them; the newline after the last one begins no other."""
    raw = Path(path).read_bytes()
    text = gzip.decompress(raw) if str(path).endswith(".gz") else raw
    return text.decode().removesuffix("\n").split("\n")
