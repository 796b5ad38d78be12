"""Parse YAML to plain values with the file and line of each key, and apply `--set` overrides.

Stricter than PyYAML: only `true` and `false` are booleans (`no` is a string), `3e-4` is a number, a date or `1:30` is a
string, and duplicate keys and tags are errors.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

Key = tuple[str | int, ...]
"""The path to a value: names of keys and indices of list entries."""

SET: Final = "--set"

_MAX_NODES: Final = 10_000
_MAX_DEPTH: Final = 32
"""Limits on the number of values and the depth: aliases can make a short file expand without end."""

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9][0-9_]*",
    "float": r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
"""Patterns of unquoted scalars by type; the first match applies, and everything else is a string."""

_RESOLVERS: Final = {None: [(_TAG + kind, re.compile(rf"(?:{pattern})\Z")) for kind, pattern in _PLAIN.items()]}

_HINTS: Final = {
    "found character '\\t'": "indent with spaces, not with a tab",
    "mapping values are not allowed here": "check the indentation, or put text with a colon in quotes",
    "could not find expected ':'": "add a colon after the key",
    "found undefined alias": "define the anchor (&name) before the alias (*name)",
    "expected <block end>": "indent the keys of a section equally",
    "unexpected end of stream": "close the quotation mark",
    "expected ',' or": "close the bracket",
    "but found another document": "a file contains one recipe: remove everything from the second --- on",
}


@dataclass(frozen=True)
class Document:
    """The values of a YAML file, with the location of each key."""

    values: Any
    places: Mapping[Key, str]
    """The location of each key: `recipe.yaml:12`, or the --set option."""

    def place(self, key: Key) -> str:
        """Return the location of a key, or that of the nearest enclosing section."""
        while key not in self.places:
            key = key[:-1]
        return self.places[key]


class PlainLoader(yaml.SafeLoader):
    """A YAML loader that resolves unquoted scalars by `_PLAIN` only."""

    yaml_implicit_resolvers = _RESOLVERS


class PlainDumper(yaml.SafeDumper):
    """A YAML dumper that quotes strings that `PlainLoader` would not read as strings."""

    yaml_implicit_resolvers = _RESOLVERS


def read_yaml(path: Path) -> Document:
    """Return the single YAML document in a file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 (byte {error.start}): save the recipe as UTF-8") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str, numbered: bool = True) -> Document:
    """Return the single YAML document in a text.

    Locations in error messages are `name:line`, or only `name` if `numbered` is False.
    """
    reader = _NodeReader(name, numbered)
    try:
        loader = PlainLoader(text)
        node = loader.get_single_node()
        values = reader.read(node, (), loader) if node else None
    except yaml.MarkedYAMLError as error:
        hint = next(
            (hint for part, hint in _HINTS.items() if part in str(error.problem)), "fix this line or the line above"
        )
        raise ValueError(
            f"{reader.place(error.problem_mark or error.context_mark)}: invalid YAML ({error.problem}): {hint}"
        ) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        place = f"{name}:{line}" if numbered else name
        raise ValueError(f"{place}: YAML does not allow the character U+{error.character:04X}: remove it") from error
    except RecursionError:
        raise ValueError(f"{name}: sections are nested too deeply: use at most {_MAX_DEPTH} levels") from None
    if reader.errors:
        raise ValueError("\n".join(reader.errors))
    return Document(values, {**reader.places, (): name})


class _NodeReader:
    """A converter of YAML nodes to values, which collects all errors of a file."""

    def __init__(self, name: str, numbered: bool) -> None:
        self.name, self.numbered = name, numbered
        self.places: dict[Key, str] = {}
        self.errors: list[str] = []
        self.num_nodes = 0

    def place(self, mark: Any) -> str:
        return f"{self.name}:{mark.line + 1}" if mark and self.numbered else self.name

    def read(self, node: yaml.Node, key: Key, loader: PlainLoader) -> Any:
        self.num_nodes += 1
        if self.num_nodes > _MAX_NODES or len(key) > _MAX_DEPTH:
            raise ValueError(f"{self.place(node.start_mark)}: too many values: remove aliases that contain themselves")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            entries = self._entries(node, key, loader)
            return {name: self.read(value, (*key, name), loader) for name, value in entries.items()}
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            for index, value in enumerate(node.value):
                self.places[(*key, index)] = self.place(value.start_mark)
            return [self.read(value, (*key, index), loader) for index, value in enumerate(node.value)]
        return self._scalar(node, key)

    def _entries(self, node: yaml.MappingNode, key: Key, loader: PlainLoader) -> dict[str, yaml.Node]:
        """Return the nodes of a section by key; keys of the section take precedence over keys merged with <<."""
        seen: dict[str, str] = {}
        first = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self._add_error(name, key, "a key cannot be a list or a section: give a name")
            elif name.value in seen and name.tag != f"{_TAG}merge":
                self._add_error(
                    name, (*key, name.value), f"duplicate key, first at {seen[name.value]}: remove one of the two"
                )
            else:
                seen[name.value] = self.place(name.start_mark)
                first.append((name, value))
        node.value = first
        loader.flatten_mapping(node)
        self.places.update({(*key, name.value): self.place(name.start_mark) for name, _ in node.value})
        return {name.value: value for name, value in node.value}

    def _scalar(self, node: yaml.Node, key: Key) -> Any:
        text = str(node.value).replace("_", "")
        try:
            match node.tag.removeprefix(_TAG):
                case "null":
                    return None
                case "bool" if text.lower() in ("true", "false"):
                    return text.lower() == "true"
                case "int":
                    return int(text)
                case "float":
                    return _parse_float(text)
                case "str" | "merge":
                    node.value.encode()  # half of a surrogate pair is refused
                    return node.value
            message = f"tags are not allowed: remove {node.tag.replace(_TAG, '!!')}"
        except UnicodeEncodeError:
            message = "half of a surrogate pair: write the whole character"
        except ValueError as error:
            message = str(error)
        self._add_error(node, key, message)
        return None

    def _add_error(self, node: yaml.Node, key: Key, message: str) -> None:
        place = self.place(node.start_mark)
        self.errors.append(f"{place}: {join_key(key)}: {message}" if key else f"{place}: {message}")


def join_key(key: Key) -> str:
    """Return a key in dotted form, as in --set."""
    return ".".join(str(part) for part in key)


def apply_overrides(document: Document, overrides: Sequence[str]) -> tuple[Document, list[str]]:
    """Return the document with all valid overrides applied, and an error for each invalid override."""
    errors = []
    for override in overrides:
        try:
            document = apply_override(document, override)
        except ValueError as error:
            errors.append(str(error))
    return document, errors


def apply_override(document: Document, override: str) -> Document:
    """Return the document with an override such as `data.train.0.weight=2` applied; the value is parsed as YAML."""
    place = f"{SET} {override}"
    name, equals, value = override.partition("=")
    key = tuple(int(part) if part.isdecimal() else part for part in name.strip().split("."))
    if not equals or "" in key:
        raise ValueError(f"{place}: not KEY=VALUE: write a key and a value, as in training.stop.updates=500")
    values = deepcopy(document.values) if isinstance(document.values, dict) else {}
    _set_value(values, key, parse_yaml(value, place, numbered=False).values, place)
    kept = {other: where for other, where in document.places.items() if other[: len(key)] != key}
    new = {key[:length]: place for length in range(1, len(key) + 1) if key[:length] not in kept}
    return Document(values, {**kept, **new})


def _set_value(values: Any, key: Key, value: Any, place: str) -> None:
    for depth, part in enumerate(key):
        _check_step(values, key[:depth], part, place)
        is_last = depth == len(key) - 1
        inside: Any = value if is_last else [] if isinstance(key[depth + 1], int) else {}
        if isinstance(values, list) and part == len(values):
            values.append(inside)
        elif is_last or (isinstance(values, dict) and values.get(str(part)) is None):
            values[part] = inside
        values = values[part]


def _check_step(values: Any, key: Key, part: str | int, place: str) -> None:
    """Raise ValueError if a key such as `data.train.0.weight` cannot continue with `part` at these values."""
    if isinstance(values, list):
        if isinstance(part, str):
            raise ValueError(f"{place}: {join_key(key)} is a list: give an index, as in {join_key((*key, 0, part))}")
        if part > len(values):
            raise ValueError(f"{place}: {join_key(key)} has {len(values)} entries: append with index {len(values)}")
    elif not isinstance(values, dict):
        raise ValueError(f"{place}: {join_key(key)} is a value, not a section: remove .{part}")


def walk_keys(values: Any, key: Key = ()) -> Iterator[Key]:
    """Yield every key of the values, in document order."""
    yield key
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for part, value in inner:
        yield from walk_keys(value, (*key, part))


def _parse_float(text: str) -> int | float:
    """Return the number in a text: an int for a whole number without a decimal point, such as 1e5, else a float."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large: write a smaller number")
    return int(number) if number.is_integer() and "." not in text else number
