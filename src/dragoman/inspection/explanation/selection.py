"""Choose the attention layer, the head and the word to explain, by the user's choice or by default."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from jaxtyping import Bool, Float
from numpy import ndarray
from torch import nn

from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import Kind, kind_of
from dragoman.attention.tap import seams
from dragoman.inspection.explanation.worksheet import entropy
from dragoman.inspection.view import KINDS

LISTED: Final = 12
"""The maximum number of words that an error message lists."""


@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer of a model: name, kind and layer number."""

    name: str
    """The qualified name of the attention."""
    kind: Kind
    layer: int
    num_layers: int


@dataclass(frozen=True)
class WordChoice:
    """The word to explain."""

    row: int
    """The attention row of the word's first token."""
    text: str
    pieces: tuple[int, ...]
    """The positions of the word's tokens in the sentence."""
    reason: str


def find_attention(model: nn.Module, kind: Kind | None, layer: int) -> AttentionLayer:
    """Return the attention layer to explain; `kind` defaults to the first of encoder, cross and decoder."""
    names: dict[Kind, list[str]] = {"encoder": [], "cross": [], "decoder": []}
    for name, _ in seams(model):
        names[kind_of(name)].append(name)
    present = [known for known in names if names[known]]
    if not present:
        choices = "a transformer, a convs2s, a bahdanau or a luong model"
        raise ValueError(f"this model has no attention to explain: choose {choices}")
    kind = kind or present[0]
    layers = names[kind]
    if not layers:
        would_look = KINDS[kind].replace("looks", "would look")
        raise ValueError(f"this model has no {kind} attention, in which {would_look}: choose {' or '.join(present)}")
    if not -len(layers) <= layer < len(layers):
        known = f"choose 0 to {len(layers) - 1}, or -1 for the last"
        raise ValueError(f"there is no layer {layer} of {kind} attention: {known}")
    return AttentionLayer(layers[layer], kind, layer % len(layers), len(layers))


def find_word(choice: str | None, tokens: Tokens, kind: Kind) -> WordChoice:
    """Return the word with this number (from 0) or spelling; by default, the longest word."""
    words = [tokens.text[start:end] for start, end in tokens.word_spans]
    if not words:
        raise ValueError("the target has no word to explain: give another target with --target")
    reason = "as you chose"
    if choice is None:
        # The decoder's first word has nothing but the beginning to look at: any other is better.
        first = 1 if kind == "decoder" and len(words) > 1 else 0
        number = max(range(first, len(words)), key=lambda i: sum(map(str.isalnum, words[i])))
        reason = "the longest word" + " after the first" * first
    elif choice.isascii() and choice.isdecimal() and int(choice) < len(words):
        number = int(choice)
    elif matches := _find_spelling(choice, words):
        number = matches[0]
        reason += f", the first of {len(matches)}" if len(matches) > 1 else ""
    else:
        pieces = [i for i, piece in enumerate(tokens.pieces[:-1]) if choice and piece.removeprefix("▁") == choice]
        if not pieces:
            raise ValueError(_unknown_word(choice, [*map(strip_marks, words)], kind))
        return WordChoice(pieces[0], choice, (pieces[0],), "as you chose: a piece of a word")
    of_word = tuple(i for i, word in enumerate(tokens.words) if word == number)
    if not of_word:
        raise ValueError(f"the word {words[number]} shares a token with another word: choose the other word")
    return WordChoice(of_word[0], strip_marks(words[number]), of_word, reason)


def find_row(row: int, tokens: Tokens) -> WordChoice:
    """Return the word or the piece of a word whose attention is row `row`; EOS has a row, too."""
    if not 0 <= row < len(tokens):
        raise ValueError(f"there is no row {row}: choose 0 to {len(tokens) - 1}")
    word = tokens.words[row]
    if word < 0 or tokens.words.index(word) < row:
        piece = tokens.pieces[row]
        return WordChoice(row, piece.removeprefix("▁") or piece, (row,), f"row {row}, as you chose")
    start, end = tokens.word_spans[word]
    pieces = tuple(i for i, number in enumerate(tokens.words) if number == word)
    return WordChoice(row, strip_marks(tokens.text[start:end]), pieces, f"row {row}, as you chose")


def find_head(
    choice: int | None, weights: Float[ndarray, "heads keys"], visible: Bool[ndarray, " keys"]
) -> tuple[int, str]:
    """Return the head to explain, and the reason; by default, the head whose entropy is nearest to 0.5."""
    num_heads = len(weights)
    if choice is not None:
        if not 0 <= choice < num_heads:
            raise ValueError(f"there is no head {choice}: choose 0 to {num_heads - 1}")
        return choice, "as you chose"
    if num_heads == 1:
        return 0, "its only one"
    if visible.sum() < 2:
        return 0, "every head here has but one key to look at"
    spread = [entropy(row[visible]) for row in weights]
    middle = min(range(num_heads), key=lambda i: abs(spread[i] - 0.5))
    others = ", ".join(f"{value:.2f}" for i, value in enumerate(spread) if i != middle)
    where = f"its entropy, {spread[middle]:.2f}, is nearest to the middle between 0, all on one key, and 1, all alike"
    return middle, f"the most instructive of {num_heads}: {where}; the others have {others}"


def strip_marks(word: str) -> str:
    """Return a word without the punctuation around it; a word of only punctuation is unchanged."""
    marks = {letter for letter in word if unicodedata.category(letter)[0] in "PS"}
    return word.strip("".join(marks)) or word


def _find_spelling(choice: str, words: list[str]) -> list[int]:
    """Return the indices of the words that match exactly, else without punctuation, else ignoring case."""
    forms: tuple[Callable[[str], str], ...] = (str, strip_marks, lambda word: strip_marks(word).casefold())
    matches = ([i for i, word in enumerate(words) if form(word) == form(choice)] for form in forms)
    return next(filter(None, matches), [])


def _unknown_word(choice: str, words: list[str], kind: Kind) -> str:
    side = "source" if kind == "encoder" else "target, whose words this attention is about"
    numbered = [f"{i} {word}" for i, word in enumerate(words)]
    known = ", ".join(numbered[:LISTED]) + (f", … {numbered[-1]}" if len(words) > LISTED else "")
    near = get_close_matches(choice, words, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"there is no word {choice!r} in the {side}: {hint}choose by spelling or number: {known}"
