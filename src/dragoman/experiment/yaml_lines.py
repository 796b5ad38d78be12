"""YAML as plain values that remember where they were written.

Narrower than PyYAML, so that nothing surprises: only `true` and `false` are booleans (`no` is Norwegian), `3e-4` is a
number, a date or `1:30` is text, a key stands once in its section, and no tag makes an object.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

Key = tuple[str | int, ...]
"""A way into the values: names of sections, numbers of list entries."""

_MOST_NODES: Final = 10_000
_DEEPEST: Final = 32
"""Aliases of aliases can make a short file endless, in either direction."""

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_PLAIN: Final = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9][0-9_]*",
    "float": r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
"""What text without quotes stands for; the first that fits. Whatever fits none of them is text."""

_RESOLVERS: Final = {None: [(_TAG + kind, re.compile(rf"(?:{pattern})\Z")) for kind, pattern in _PLAIN.items()]}

_HINTS: Final = {
    "found character '\\t'": "indent with spaces, not with a tab",
    "mapping values are not allowed here": "a second colon in one line: put text that holds a colon in quotes",
    "could not find expected ':'": "a key needs a colon after it",
    "found undefined alias": "an alias (*name) comes after its anchor (&name)",
    "but found another document": "one file is one recipe: leave out what follows the second ---",
}


@dataclass(frozen=True)
class Document:
    """What a file says, and where it says so."""

    values: Any
    places: Mapping[Key, str]
    """`recipe.yaml:12`, or the option that set it."""

    def place(self, key: Key) -> str:
        """Where this was written, or else what it is part of."""
        while key not in self.places:
            key = key[:-1]
        return self.places[key]


class PlainLoader(yaml.SafeLoader):
    """Reads plain text by our rules alone."""

    yaml_implicit_resolvers = _RESOLVERS


class PlainDumper(yaml.SafeDumper):
    """Puts in quotes whatever `PlainLoader` would not read as text."""

    yaml_implicit_resolvers = _RESOLVERS


def read_yaml(path: Path) -> Document:
    """The one document in this file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: a recipe is text in UTF-8, which this is not (byte {error.start})") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str, numbered: bool = True) -> Document:
    """The one document in this text. Places are `name:line`, or the name alone."""
    reader = _Reader(name, numbered)
    try:
        node = yaml.compose(text, Loader=PlainLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(f"{reader.at(mark)}: this is not YAML: {_explained(error.problem or str(error))}") from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        place = f"{name}:{line}" if numbered else name
        raise ValueError(f"{place}: the character U+{error.character:04X} has no place in YAML") from error
    except RecursionError:
        raise ValueError(f"{name}: too much for a recipe: sections in sections in sections") from None
    if node is None:
        return Document(None, {(): name})
    values = reader.read(node, ())
    if reader.mistakes:
        raise ValueError("\n".join(reader.mistakes))
    return Document(values, {**reader.places, (): name})


class _Reader:
    """From nodes to values. All mistakes of one file are gathered."""

    def __init__(self, name: str, numbered: bool) -> None:
        self.name, self.numbered = name, numbered
        self.places: dict[Key, str] = {}
        self.mistakes: list[str] = []
        self.num_nodes = 0

    def at(self, mark: Any) -> str:
        """The place of a mark."""
        return f"{self.name}:{mark.line + 1}" if mark and self.numbered else self.name

    def read(self, node: yaml.Node, key: Key) -> Any:
        self.num_nodes += 1
        if self.num_nodes > _MOST_NODES or len(key) > _DEEPEST:
            raise ValueError(f"{self.at(node.start_mark)}: too much for a recipe; does an alias stand for itself?")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return {name: self.read(value, (*key, name)) for name, value in self._entries(node, key)}
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._item(value, (*key, index)) for index, value in enumerate(node.value)]
        return self._scalar(node, key)

    def _item(self, node: yaml.Node, key: Key) -> Any:
        self.places[key] = self.at(node.start_mark)
        return self.read(node, key)

    def _entries(self, node: yaml.MappingNode, key: Key) -> Iterator[tuple[str, yaml.Node]]:
        """The keys of a section with their nodes: its own first, then those it merges in and does not have."""
        own: dict[str, yaml.Node] = {}
        merged: list[yaml.Node] = []
        for name, value in node.value:
            if name.tag == _MERGE:
                merged.extend(value.value if isinstance(value, yaml.SequenceNode) else [value])
            elif not isinstance(name, yaml.ScalarNode):
                self._mistake(name, key, "a key is a word, not a list or a section")
            elif name.value in own:
                first = self.places[(*key, name.value)]
                self._mistake(name, (*key, name.value), f"this key stands here already ({first}): leave one out")
            else:
                own[name.value] = value
                self.places[(*key, name.value)] = self.at(name.start_mark)
        yield from own.items()
        for other in merged:
            yield from self._merged(other, key, own)

    def _merged(self, node: yaml.Node, key: Key, own: dict[str, yaml.Node]) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self._mistake(node, key, "<< takes in a section, or a list of them")
            return
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.tag != _MERGE and name.value not in own:
                own[name.value] = value
                self.places[(*key, name.value)] = self.at(name.start_mark)
                yield name.value, value

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
                    return _number(text)
                case "str" | "merge":
                    return _whole(node.value)
        except ValueError as error:
            self._mistake(node, key, str(error))
            return None
        self._mistake(node, key, f"a recipe is plain values: leave out the tag {_shown(node.tag)}")
        return None

    def _mistake(self, node: yaml.Node, key: Key, message: str) -> None:
        where = f"{self.at(node.start_mark)}: {dotted(key)}" if key else self.at(node.start_mark)
        self.mistakes.append(f"{where}: {message}")


def dotted(key: Key) -> str:
    """A key as it is written after --set."""
    return ".".join(str(part) for part in key)


def _number(text: str) -> int | float:
    """1e5 is a whole number too: as many updates as 100000."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return int(number) if number.is_integer() and "." not in text else number


def _whole(text: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("half of a character without its other half: write the whole character")
    return text


def _shown(tag: str) -> str:
    return tag.replace(_TAG, "!!")


def _explained(problem: str) -> str:
    return next((hint for found, hint in _HINTS.items() if found in problem), problem)
