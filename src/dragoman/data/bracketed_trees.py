"""Bracketed constituency trees as pairs of words and linearised trees (Vinyals et al., 2015)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

PUNCTUATION: Final = frozenset((",", ":", "``", "''", "."))
"""The tags of punctuation, those that evalb's COLLINS.prm deletes: they stay as leaves, so that a metric knows them."""

ROOTS: Final = frozenset(("", "ROOT", "TOP"))
"""Labels of a bracket around the whole tree, which say nothing."""

_WORD: Final = "XX"
_EMPTY_ELEMENT: Final = "-NONE-"
_TOKEN: Final = re.compile(r"\([^\s()]*|\)|[^\s()]+")


def read_trees(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return the words of each tree, and the tree: `Go .` and `(S (VP XX )VP . )S` for `(ROOT (S (VP (VB Go)) (. .)))`.

    A tree may have several lines. The root's label, functions (`-SBJ`, `=2`), tags other than those of punctuation and
    empty elements are left out.
    """
    pairs = []
    for number, tree in enumerate(_parse(lines), 1):
        words: list[str] = []
        try:
            symbols = _linearise(tree, words)
        except ValueError as error:
            raise ValueError(f"tree {number:,}: {error}") from error
        if words:
            pairs.append((" ".join(words), " ".join(symbols)))
    if not pairs:
        raise ValueError("no line is a tree such as `(ROOT (S (NP (PRP I)) (VP (VBP see))))`: give files of such trees")
    return pairs


def shorten_label(label: str) -> str:
    """Return a label without its functions: `NP` for `NP-SBJ=2`."""
    return re.split("[-=]", label, maxsplit=1)[0]


def _parse(lines: Iterable[str]) -> Iterator[list[Any]]:
    """Yield trees as lists of a label and children, which are trees or words."""
    parents: list[list[Any]] = []
    for number, line in enumerate(lines, 1):
        for token in _TOKEN.findall(line):
            if token[0] == "(":
                parents.append([token[1:]])
            elif not parents:
                raise ValueError(f"line {number:,}: {token!r} is outside a tree: check the brackets")
            elif token != ")":
                parents[-1].append(token)
            elif len(parents) > 1:
                tree = parents.pop()
                parents[-1].append(tree)
            else:
                yield parents.pop()
    if parents:
        raise ValueError("the last tree does not end: check the brackets")


def _linearise(tree: list[Any], words: list[str]) -> list[str]:
    """Return the symbols of a tree; append its words to `words`."""
    match tree:
        case [tag, str(word)]:
            if tag == _EMPTY_ELEMENT:
                return []
            words.append(word)
            return [tag if tag in PUNCTUATION else _WORD]
        case [label, *children] if not any(isinstance(child, str) for child in children):
            symbols = [symbol for child in children for symbol in _linearise(child, words)]
            short = shorten_label(label)
            return symbols if short in ROOTS or not symbols else [f"({short}", *symbols, f"){short}"]
    raise ValueError(
        f"{' '.join(child for child in tree if isinstance(child, str))!r} has no tags: give one to each word"
    )
