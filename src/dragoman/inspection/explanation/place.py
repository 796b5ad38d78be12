"""Which attention, which head and which word an explanation is about: as asked for, or the one that teaches best."""

import unicodedata
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from jaxtyping import Bool, Float
from numpy import ndarray
from torch import nn

from dragoman.attention.tap import seams
from dragoman.inspection.explanation.board import entropy
from dragoman.inspection.trace import Kind, Tokens, kind_of
from dragoman.inspection.view import KINDS

LISTED: Final = 12
"""So many words are named when one is not found."""


@dataclass(frozen=True)
class Place:
    """Which attention: a kind of it, in a layer."""

    name: str
    """Its qualified name."""
    kind: Kind
    layer: int
    num_layers: int


@dataclass(frozen=True)
class Word:
    """Which row of it: the one of a word's first piece."""

    row: int
    text: str
    pieces: tuple[int, ...]
    """Where the word's pieces stand among the tokens."""
    reason: str


def place(model: nn.Module, kind: Kind | None, layer: int) -> Place:
    """The attention to explain. Without a kind it is the first of encoder, cross and decoder that the model has."""
    names: dict[Kind, list[str]] = {known: [] for known in ("encoder", "cross", "decoder")}
    for name, _ in seams(model):
        names[kind_of(name)].append(name)
    present = [known for known in names if names[known]]
    if not present:
        raise ValueError(
            "this model has no attention to explain: its decoder gets the source as one vector; "
            "choose a transformer, a bahdanau or a luong model"
        )
    kind = kind or present[0]
    found = names[kind]
    if not found:
        raise ValueError(
            f"this model has no {kind} attention, in which {KINDS[kind].replace('looks', 'would look')}: "
            f"choose {' or '.join(present)}"
        )
    if not -len(found) <= layer < len(found):
        others = f"choose 0 to {len(found) - 1}, or -1 for the last" if len(found) > 1 else "it has one only, layer 0"
        raise ValueError(f"there is no layer {layer} of {kind} attention: {others}")
    return Place(found[layer], kind, layer % len(found), len(found))


def find_word(asked: str | None, tokens: Tokens, kind: Kind) -> Word:
    """The word asked for, by its number from 0 or its spelling; else the longest."""
    words = [tokens.text[start:end] for start, end in tokens.word_spans]
    if not words:
        raise ValueError("the target has no word to explain: give one with --target")
    if asked is None:
        return _longest(words, tokens, kind)
    if asked.isascii() and asked.isdecimal() and int(asked) < len(words):
        return _word(int(asked), words, tokens, "as you chose")
    found = _spelled(asked, words)
    if found:
        several = f", the first of {len(found)}" if len(found) > 1 else ""
        return _word(found[0], words, tokens, f"as you chose{several}")
    pieces = [i for i, piece in enumerate(tokens.pieces[:-1]) if asked and piece.removeprefix("▁") == asked]
    if pieces:
        return Word(pieces[0], asked, (pieces[0],), "as you chose: a piece of a word")
    raise ValueError(_not_found(asked, words, kind))


def find_head(
    asked: int | None, weights: Float[ndarray, "heads keys"], visible: Bool[ndarray, " keys"]
) -> tuple[int, str]:
    """The head asked for, or the one that looks neither at one key alone nor at all alike; and why."""
    num_heads = len(weights)
    if asked is not None:
        if not 0 <= asked < num_heads:
            others = f"choose 0 to {num_heads - 1}" if num_heads > 1 else "this attention has one only, head 0"
            raise ValueError(f"there is no head {asked}: {others}")
        return asked, "as you chose"
    if num_heads == 1:
        return 0, "its only one"
    if visible.sum() < 2:
        return 0, "every head here has but one key to look at"
    spread = [entropy(row[visible]) for row in weights]
    middle = min(range(num_heads), key=lambda i: abs(spread[i] - 0.5))
    others = ", ".join(f"{one:.2f}" for i, one in enumerate(spread) if i != middle)
    return middle, (
        f"the most instructive of {num_heads}: its entropy, {spread[middle]:.2f}, is nearest to the middle between 0, "
        f"all on one key, and 1, all alike; the others have {others}"
    )


def bare(word: str) -> str:
    """A word without the marks around it; one of nothing but marks stays."""
    marks = {letter for letter in word if unicodedata.category(letter)[0] in "PS"}
    return word.strip("".join(marks)) or word


def _longest(words: list[str], tokens: Tokens, kind: Kind) -> Word:
    """In the decoder's look at itself, the first word has nothing but the beginning to look at: any other is better."""
    choice = range(1 if kind == "decoder" and len(words) > 1 else 0, len(words))
    longest = max(choice, key=lambda i: sum(map(str.isalnum, words[i])))
    after = " after the first" if choice.start else ""
    return _word(longest, words, tokens, f"the longest word{after}")


def _word(number: int, words: list[str], tokens: Tokens, reason: str) -> Word:
    pieces = tuple(i for i, word in enumerate(tokens.words) if word == number)
    if not pieces:
        raise ValueError(f"the word {words[number]} has no piece of its own: choose another")
    return Word(pieces[0], bare(words[number]), pieces, reason)


def _spelled(asked: str, words: list[str]) -> list[int]:
    """Exactly so; else without marks around it; else whatever its case."""
    for same in (lambda word: word == asked, lambda word: bare(word) == bare(asked)):
        if found := [i for i, word in enumerate(words) if same(word)]:
            return found
    return [i for i, word in enumerate(words) if bare(word).casefold() == bare(asked).casefold()]


def _not_found(asked: str, words: list[str], kind: Kind) -> str:
    side = "source" if kind == "encoder" else "target, whose words this attention is about"
    numbered = [f"{i} {bare(word)}" for i, word in enumerate(words)]
    known = ", ".join(numbered[:LISTED]) + (f", … {numbered[-1]}" if len(words) > LISTED else "")
    near = get_close_matches(asked, [bare(word) for word in words], n=1)
    mend = f"did you mean {near[0]}? " if near else ""
    return f"there is no word {asked!r} in the {side}: {mend}choose by spelling or number: {known}"
