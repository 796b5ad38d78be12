"""Expand a recipe: fill in presets and default corpus names, and resolve variables and relative paths."""

import os
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from dragoman.io.streams import STANDARD_INPUT
from dragoman.models.presets import find_preset
from dragoman.recipes.recipe_errors import RecipeError, located_error
from dragoman.recipes.yaml_document import SET, Document, Key

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def expand(document: Document, folder: Path) -> Document:
    """Return the document with presets, corpus names, variables and paths expanded.

    Paths in the recipe are relative to `folder`, and paths in --set to the current folder.
    """
    if not isinstance(document.values, dict):
        raise ValueError(f"{document.place(())}: the recipe has no keys: add keys such as name and data")
    errors: list[RecipeError] = []
    values = {**document.values}
    if isinstance(values.get("model"), dict):
        values = _with_preset(values, errors)
    if isinstance(values.get("data"), dict):
        values["data"] = _data(values["data"], document, folder, errors)
    if errors:
        raise located_error(document, errors)
    return Document(values, document.places)


def _with_preset(values: dict[str, Any], errors: list[RecipeError]) -> dict[str, Any]:
    """Return the values with keys of `model` and `training` that the recipe leaves out filled from the preset."""
    section = values["model"]
    if "preset" not in section:
        return {**values, "model": {"family": "transformer", **section}}
    changes = {key: value for key, value in section.items() if key != "preset"}
    try:
        preset = find_preset(section["preset"])
    except (ValueError, TypeError) as error:
        message = str(error) if isinstance(section["preset"], str) else "not a name: give a preset such as tiny"
        errors.append(RecipeError(("model", "preset"), message))
        return {**values, "model": changes}
    if changes.get("family", preset.family) != preset.family:
        message = f"the preset {section['preset']} has family {preset.family}: leave out family"
        errors.append(RecipeError(("model", "family"), message))
    filled = {**values, "model": {"family": preset.family, **preset.changes, **changes}}
    return filled | ({"training": _merge(preset.training, values.get("training", {}))} if preset.training else {})


def _merge(defaults: Mapping[str, Any], section: Any) -> Any:
    """Return the section with missing keys filled from the defaults; a value that is not a section stays unchanged."""
    if not isinstance(section, dict):
        return section
    merged = dict(section)
    for key, default in defaults.items():
        nested = isinstance(default, Mapping)
        merged[key] = _merge(default, section.get(key, {})) if nested else section.get(key, default)
    return merged


def _data(section: dict[str, Any], document: Document, folder: Path, errors: list[RecipeError]) -> dict[str, Any]:
    """Return the data section with absolute paths and a name for every corpus."""
    expanded = deepcopy(section)
    for key, name, corpus in _corpora(expanded):
        corpus.setdefault("name", name)
        for side in ("source", "target", "links"):
            if isinstance(corpus.get(side), str):
                place = (*key, side)
                base = Path() if document.place(place).startswith(SET) else folder
                corpus[side] = _path(corpus[side], base, place, errors)
    if errors and section.get("obtain"):
        errors.append(RecipeError(("data", "obtain"), f"to get the data: {section['obtain']}"))
    return expanded


def _corpora(section: dict[str, Any]) -> Iterator[tuple[Key, str, dict[str, Any]]]:
    """Yield the key, the default name and the values of every corpus."""
    for kind in ("train", "dev", "test"):
        corpora = section.get(kind)
        if isinstance(corpora, dict):
            yield ("data", kind), kind, corpora
        for index, corpus in enumerate(corpora if isinstance(corpora, list) else ()):
            if isinstance(corpus, dict):
                yield ("data", kind, index), f"{kind}-{index + 1}" if index else kind, corpus


def _path(written: str, folder: Path, key: Key, errors: list[RecipeError]) -> str:
    """Return the absolute path, with environment variables expanded; append an error for each unset variable."""
    for name in _VARIABLE.findall(written):
        message = f"the environment variable {name} is not set: export {name}=/path/to/data"
        if name not in os.environ and not any(error.message == message for error in errors):
            errors.append(RecipeError(key, message))
    return absolute_path(_VARIABLE.sub(lambda found: os.environ.get(found[1], ""), written), folder)


def absolute_path(address: str, folder: Path) -> str:
    """Return `address` as an absolute path, relative to `folder`; return URLs and standard input unchanged."""
    if address == STANDARD_INPUT or "://" in address:
        return address
    return str(folder.absolute() / address)
