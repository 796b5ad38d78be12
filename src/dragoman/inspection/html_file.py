"""What makes an HTML file whole in itself: its parts from the package, the hashes that allow them, and its data."""

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from dragoman.data.durable import write_durably


def part(*names: str) -> str:
    """Files that lie beside this one, one after the other."""
    return "".join(files("dragoman.inspection").joinpath(name).read_text(encoding="utf-8") for name in names)


def allowed(text: str) -> str:
    """The hash by which a page's policy lets this style or script in, and no other."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def embedded(data: dict[str, Any]) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def save_text(text: str, path: Path | str) -> None:
    """Write it, all at once."""
    write_durably(Path(path).resolve(), lambda sink: sink.write(text.encode()))
