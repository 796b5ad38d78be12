"""A JSON file that carries the hash of its own content: a manifest answers for other files, and so for itself."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from dragoman.data.durable import MEND, DamageError

LARGEST: Final = 1 << 28
"""Bytes. No manifest is as long: a larger file is something else, and is not read."""


def render(body: dict[str, Any]) -> bytes:
    """The file: the body, and the hash of its one canonical spelling."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return f'{{"sha256":"{hashlib.sha256(text.encode()).hexdigest()}","manifest":{text}}}\n'.encode()


def read(path: Path, mend: str = MEND, largest: int = LARGEST) -> dict[str, Any]:
    """The body, if rendering it again gives the file byte for byte: its hash included."""
    if path.stat().st_size > largest:
        raise DamageError(path, f"the file has {path.stat().st_size} bytes: no manifest is as long", mend)
    content = path.read_bytes()
    try:
        body: dict[str, Any] = json.loads(content)["manifest"]
        intact = isinstance(body, dict) and render(body) == content
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(path, f"it cannot be read as a manifest ({error})", mend) from error
    if not intact:
        raise DamageError(path, "the manifest's content is not what was written (its sha256 differs)", mend)
    return body
