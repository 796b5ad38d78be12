"""JSON files that contain a hash of their own content, so that damage is detected; the format of manifests."""

import hashlib
import json
from typing import Any, Final

from dragoman.io.durable import FIX, DamageError
from dragoman.io.remote_path import AnyPath

LARGEST: Final = 1 << 28
"""Size limit in bytes: a larger file is not a manifest and is not read."""


def render(body: dict[str, Any]) -> bytes:
    """Return the bytes of a manifest file: the body as canonical JSON, and the hash of the body."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return f'{{"sha256":"{hashlib.sha256(text.encode()).hexdigest()}","manifest":{text}}}\n'.encode()


def read(path: AnyPath, fix: str = FIX, largest: int = LARGEST) -> dict[str, Any]:
    """Return the body of a manifest file; raise DamageError if the content does not match the hash."""
    if path.stat().st_size > largest:
        raise DamageError(path, f"the file has {path.stat().st_size} bytes, too many for a manifest", fix)
    content = path.read_bytes()
    try:
        body: dict[str, Any] = json.loads(content)["manifest"]
        intact = isinstance(body, dict) and render(body) == content
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(path, f"not a valid manifest ({error})", fix) from error
    if not intact:
        raise DamageError(path, "the content of the manifest has changed (the sha256 differs)", fix)
    return body
