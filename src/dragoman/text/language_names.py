"""English names of languages by their codes."""

import json
from importlib.resources import files
from typing import Final

NAMES: Final[dict[str, str]] = json.loads((files("dragoman.text") / "language_names.json").read_bytes())
"""English names by code (ISO 639)."""


def language_name(code: str) -> str:
    """Return the English name of a language, or the code itself for an unknown language."""
    return NAMES.get(code.replace("_", "-").partition("-")[0].lower(), code)
