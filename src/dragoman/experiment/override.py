"""`--set key=value`: one key of a recipe from the command line."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from dragoman.experiment.yaml_lines import Document, Key, dotted, parse_yaml

OPTION = "--set"


def overridden_by_all(document: Document, texts: Sequence[str]) -> tuple[Document, list[str]]:
    """The document with every key set that can be, and a line for each that cannot."""
    refused = []
    for text in texts:
        try:
            document = overridden(document, text)
        except ValueError as error:
            refused.append(str(error))
    return document, refused


def overridden(document: Document, text: str) -> Document:
    """The document with one key set: `training.stop.updates=500`, `data.train.0.weight=2`. A value is read as YAML."""
    place = f"{OPTION} {text}"
    name, equals, value = text.partition("=")
    key = tuple(int(part) if part.isdecimal() else part for part in name.strip().split("."))
    if not equals or "" in key:
        raise ValueError(f"{place}: write a key, = and a value, as in training.stop.updates=500")
    values = deepcopy(document.values)
    if not isinstance(values, dict):
        values = {}
    _set(values, key, parse_yaml(value, place, numbered=False).values, place)
    kept = {other: where for other, where in document.places.items() if other[: len(key)] != key}
    made = {key[:length]: place for length in range(1, len(key) + 1) if key[:length] not in kept}
    return Document(values, {**kept, **made})


def _set(values: Any, key: Key, value: Any, place: str) -> None:
    for depth, part in enumerate(key):
        _check(values, key[:depth], part, place)
        last = depth == len(key) - 1
        inside: Any = value if last else [] if isinstance(key[depth + 1], int) else {}
        if isinstance(values, list) and part == len(values):
            values.append(inside)
        elif last or (isinstance(values, dict) and values.get(str(part)) is None):
            values[part] = inside
        values = values[part]


def _check(values: Any, key: Key, part: str | int, place: str) -> None:
    """Raise if there is no such place to set something at."""
    if isinstance(values, list):
        if isinstance(part, str):
            raise ValueError(f"{place}: {dotted(key)} is a list: say which entry, as in {dotted((*key, 0, part))}")
        if part > len(values):
            raise ValueError(f"{place}: {dotted(key)} has {len(values)} entries, counted from 0: there is no {part}")
    elif not isinstance(values, dict):
        raise ValueError(f"{place}: {dotted(key)} is a value, not a section: it has no key {part}")
