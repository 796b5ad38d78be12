"""Expand a recipe: fill in presets and default corpus names, and resolve variables and relative paths."""

import os
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from dragoman.bundle import open_bundle
from dragoman.io.streams import STANDARD_INPUT
from dragoman.models.config import without_vocabulary
from dragoman.models.presets import find_preset
from dragoman.recipes.recipe_errors import RecipeError, located_error
from dragoman.recipes.yaml_document import SET, Document, Key
from dragoman.text.cleaning import CleanConfig

DEMO: Final = "demo"
"""The name of the built-in model."""

LONGEST_PIECE: Final = 16
"""The maximum number of characters per subword in SentencePiece."""

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def expand(document: Document, folder: Path) -> Document:
    """Return the document with presets, corpus names, variables and paths expanded.

    Paths in the recipe are relative to `folder`, and paths in --set to the current folder.
    """
    if not isinstance(document.values, dict):
        raise ValueError(f"{document.place(())}: the recipe has no keys: add keys such as name and data")
    errors: list[RecipeError] = []
    values = {**document.values}
    tags: tuple[str, ...] | None = None
    has_parent = isinstance(values.get("init"), dict)
    if has_parent:
        values, tags = _with_parent(values, document, folder, errors)
    if isinstance(values.get("model"), dict):
        values = _with_preset(values, errors)
    if isinstance(values.get("data"), dict):
        values["data"] = _data(values["data"], document, folder, errors)
        if tags is not None or not has_parent:
            _fill_languages(values, tags or ())
            errors += _untagged(values["data"], tags) if tags is not None else ()
    if errors:
        raise located_error(document, errors)
    return Document(values, document.places)


def _fill_languages(values: dict[str, Any], tags: tuple[str, ...]) -> None:
    """Give every corpus its target language if there are several languages or several `tags`, otherwise none.

    A recipe of one target language is so the same, whether the recipe or its corpora name it.
    """
    corpora = [(key[1], corpus) for key, _, corpus in _corpora(values["data"])]
    default = values.get("target_language")
    named = [corpus.get("target_language") or default for kind, corpus in corpora if kind == "train"]
    if not named or not all(isinstance(language, str | None) for language in named):
        return  # reported by the schema
    if len(tags) > 1 or len({*named} - {None}) > 1:
        for _, corpus in corpora:
            if default and corpus.get("target_language") is None:
                corpus["target_language"] = default
    elif None not in named:
        values["target_language"] = named[0]
        for _, corpus in corpora:
            if corpus.get("target_language") == named[0]:
                corpus["target_language"] = None


def _untagged(section: dict[str, Any], tags: tuple[str, ...]) -> Iterator[RecipeError]:
    """Yield an error for each corpus whose target language is missing, or has no tag in the parent's vocabulary."""
    for key, _, corpus in _corpora(section):
        language = corpus.get("target_language")
        if tags and language is None:
            message = f"the model in init.bundle has several target languages ({', '.join(tags)}): add target_language"
            yield RecipeError(key, message)
        if isinstance(language, str) and language not in tags:
            known = f"its languages are {', '.join(tags)}" if tags else "it has one target language"
            message = f"the model in init.bundle has no tag for the language {language}; {known}: remove this corpus"
            yield RecipeError((*key, "target_language"), message)


def _with_parent(
    values: dict[str, Any], document: Document, folder: Path, errors: list[RecipeError]
) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """Return the values with the languages, model and search options of the parent, and its several target languages.

    Of the model, only dropout may differ. The languages are None if the parent is unknown.
    """
    init = _init_paths(values["init"], document, folder, errors)
    values = {**values, "init": init}
    if not isinstance(init.get("bundle"), str) or errors:
        return values, None  # reported by the schema, or above
    try:
        info = open_bundle(init["bundle"], verify=False).info
    except ValueError as error:
        if init.get("sha256") is None:  # otherwise a run has written the recipe, which is complete without its parent
            errors.append(RecipeError(("init", "bundle"), str(error)))
        return values, None
    shape = without_vocabulary(info.model).model_dump()
    section = values.get("model", {})
    for key, value in section.items() if isinstance(section, dict) else ():
        if key == "preset" or (key in shape and value != shape[key] and not key.endswith("dropout")):
            known = "its own shape" if key == "preset" else f"{key} {shape[key]}"
            errors.append(RecipeError(("model", key), f"the model in init.bundle has {known}: remove {key}, or init"))
    usual = {"search": info.search, "source_language": info.source_language, "target_language": info.target_language}
    validation = values.get("validation", {})
    if isinstance(validation, dict):
        values["validation"] = {"search": usual.pop("search"), **validation}
    for key in ("source_language", "target_language"):
        if values.get(key) is None:
            values[key] = usual[key]
    if values.get("protect") is None:
        values["protect"] = info.protect
    values["data"] = _with_character_limit(values.get("data"), fitting_characters(info.model.position_limit))
    values = {**values, "model": {**shape, **section}} if isinstance(section, dict) else values
    return values, info.target_languages


def fitting_characters(position_limit: int | None) -> int:
    """Return the default limit of characters per sentence, or fewer if a model has too few positions for it."""
    usual = CleanConfig().max_characters
    return usual if position_limit is None else min(usual, position_limit * LONGEST_PIECE)


def _with_character_limit(data: Any, limit: int) -> Any:
    """Return the data section with a limit of characters per sentence, unless it has one."""
    clean = data.get("clean", {}) if isinstance(data, dict) else None
    return {**data, "clean": {"max_characters": limit, **clean}} if isinstance(clean, dict) else data


def _init_paths(section: dict[str, Any], document: Document, folder: Path, errors: list[RecipeError]) -> dict[str, Any]:
    """Return the init section with absolute paths."""

    def path(key: Key, written: str) -> str:
        base = Path() if document.place(key).startswith(SET) else folder
        return written if written == DEMO and key[-1] == "bundle" else _path(written, base, key, errors)

    expanded = deepcopy(section)
    if isinstance(expanded.get("bundle"), str):
        expanded["bundle"] = path(("init", "bundle"), expanded["bundle"])
    keep = expanded.get("keep")
    keep = keep if isinstance(keep, dict) else {}
    for side in ("source", "target"):
        if isinstance(keep.get(side), str):
            keep[side] = path(("init", "keep", side), keep[side])
    return expanded


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


def parent_path(bundle: str, folder: Path) -> str:
    """Return the path of a parent as an absolute path; `demo` is the built-in model."""
    return bundle if bundle == DEMO else absolute_path(bundle, folder)
