"""Explain one attention head for one word: choose the head, recompute the steps, and export as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Final

from jaxtyping import Float
from numpy import ndarray

from dragoman.alignment.tokens import Tokens
from dragoman.attention.kinds import Kind
from dragoman.attention.multihead import MultiHead
from dragoman.inspection.explanation.attention_row import HeadArithmetic, InputToken, capture_row
from dragoman.inspection.explanation.convolutional_steps import ConvolutionalArithmetic
from dragoman.inspection.explanation.recurrent_steps import RecurrentArithmetic
from dragoman.inspection.explanation.selection import (
    AttentionLayer,
    WordChoice,
    find_attention,
    find_head,
    find_row,
    find_word,
)
from dragoman.inspection.explanation.transformer_steps import MultiHeadArithmetic
from dragoman.inspection.explanation.worksheet import DIGITS, KeyTable, Step, write_text
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import ModelIdentity
from dragoman.inspection.view import BEGIN, CAVEAT
from dragoman.models.convolutional import MultiStepAttention
from dragoman.text.vocab import BOS

SCHEMA_VERSION: Final = 1
PAPER: Final = write_text("paper")
ROUNDING: Final = write_text("rounding", digits=DIGITS)


@dataclass(frozen=True, eq=False)
class Explanation:
    """The step-by-step explanation of one attention row of one head."""

    source: Tokens
    target: Tokens | None
    """The target; None for the encoder, which attends to the source only."""
    free: bool
    """True if the model chose the target; False if the target was given."""
    model: ModelIdentity
    layer: AttentionLayer
    word: WordChoice
    head: int
    reason: str
    """The reason for the choice of the head."""
    keys: KeyTable
    weights: Float[ndarray, "heads keys"]
    """The attention weights of all heads, as the model computed them."""
    recomputed: HeadArithmetic
    divisor: float
    """The number by which the model divides the scores: √d_k, or 1 in other models than a Transformer."""
    steps: tuple[Step, ...]

    @property
    def title(self) -> str:
        """The title of the explanation, in one line."""
        word = clean(self.word.text)
        if self.layer.kind == "encoder":
            return f"How one attention head looks from “{word}”"
        seen = "the source" if self.layer.kind == "cross" else "what was written"
        return f"How one attention head looks at {seen} to write “{word}”"

    @property
    def choices(self) -> tuple[str, ...]:
        """Sentences that name the explained word, attention layer, head and model, with reasons."""
        layer, num_layers = self.layer, self.layer.num_layers
        which = f"layer {layer.layer} of {num_layers} counted from 0." if num_layers > 1 else "its only layer."
        model = f"{self.model.sha256[:12]}, {self.model.family}" if self.model.sha256 else "one that was never saved"
        return (
            f"Word: {clean(self.word.text)} ({self.word.reason}).",
            f"Attention: {layer.name}, {which}",
            f"Head: {self.head} ({self.reason})." if len(self.weights) > 1 else "Head: its only one.",
            f"Model: {model}.",
        )

    @property
    def target_origin(self) -> str:
        """The origin of the target: the model's translation or teacher forcing."""
        return "its own translation" if self.free else "as given: teacher forcing"

    @property
    def caveats(self) -> str:
        """The limits of the explanation, in sentences."""
        mixed = bool(self.layer.layer) or self.layer.kind == "cross"
        more = " A position here holds more than its own word." if mixed else ""
        return f"{CAVEAT} This is one head for one word of one sentence; others look elsewhere.{more}"


def explain(
    inspector: Inspector,
    source: str,
    target: str | None = None,
    *,
    kind: Kind | None = None,
    word: str | None = None,
    row: int | None = None,
    layer: int = 0,
    head: int | None = None,
    key: int | None = None,
) -> Explanation:
    """Explain one head for one word: a source word for the encoder, otherwise the target word being written.

    `target` defaults to the model's own translation. Words, layers and heads are counted from 0; layer -1 is the last.
    A `kind`, `word` or `head` of None is chosen automatically, and the explanation gives the reason. `row` is the index
    of a token, in place of a word; `key` is the index of the key whose numbers are worked through, by default the one
    with the largest weight.
    """
    attention = find_attention(inspector.model, kind, layer)
    if target is not None and attention.kind == "encoder":
        raise ValueError("the encoder attends to the source only: give --kind cross, or leave out --target")
    read, written = inspector.tokenize_source(source), None
    if attention.kind != "encoder":
        written = (
            inspector.tokenize_target(target) if target is not None else inspector.best_tokens(inspector.search(read))
        )
    tokens = written or read
    choice = find_word(word, tokens, attention.kind) if row is None else find_row(row, tokens)
    return explain_row(inspector, attention, read, written, choice, head, key, free=target is None)


def explain_row(
    inspector: Inspector,
    attention: AttentionLayer,
    read: Tokens,
    written: Tokens | None,
    choice: WordChoice,
    head: int | None = None,
    key: int | None = None,
    *,
    free: bool,
) -> Explanation:
    """Explain one head for one row of tokenized texts; the encoder has no target, which is then None."""
    model, tokens = inspector.model, written or read
    module = model.get_submodule(attention.name)
    kind_of_arithmetic: type[MultiHeadArithmetic | RecurrentArithmetic | ConvolutionalArithmetic] = RecurrentArithmetic
    if isinstance(module, MultiHead):
        kind_of_arithmetic = MultiHeadArithmetic
    elif isinstance(module, MultiStepAttention):
        kind_of_arithmetic = ConvolutionalArithmetic
    watch, target_ids = kind_of_arithmetic.watch(attention), written.ids if written else None
    capture = capture_row(model, read.ids, target_ids, attention.name, choice.row, watch)
    number, reason = find_head(head, capture.weights, capture.visible)
    arithmetic = kind_of_arithmetic(model, attention, choice.row, number, capture)
    pieces = (BEGIN, *tokens.pieces[:-1]) if attention.kind == "decoder" else read.pieces
    labels = tuple(f"{j} {clean(piece)}" for j, piece in enumerate(pieces))
    if key is not None and not 0 <= key < len(labels):
        raise ValueError(f"there is no key {key}: choose 0 to {len(labels) - 1}")
    own = None if attention.kind == "cross" else choice.row
    keys = KeyTable(labels, capture.visible, own, kind_of_arithmetic.symbol, key)
    return Explanation(
        source=read,
        target=written,
        free=written is not None and free,
        model=inspector.identity,
        layer=attention,
        word=choice,
        head=number,
        reason=reason,
        keys=keys,
        weights=capture.weights,
        recomputed=arithmetic.recomputed,
        divisor=arithmetic.divisor,
        steps=tuple(arithmetic.steps(keys, _input_token(attention.kind, choice, tokens))),
    )


def to_json(explanation: Explanation) -> str:
    """Return the explanation as JSON, with the recomputed numbers in full precision."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "title": explanation.title,
        "source": explanation.source.text,
        "target": explanation.target and explanation.target.text,
        "free": explanation.free,
        "model": explanation.model.model_dump(),
        "attention": explanation.layer.name,
        "kind": explanation.layer.kind,
        "layer": explanation.layer.layer,
        "head": explanation.head,
        "word": explanation.word.text,
        "row": explanation.word.row,
        "chosen": explanation.choices,
        "keys": explanation.keys.labels,
        "model_weights": explanation.weights[explanation.head].tolist(),
        "recomputed": {name: numbers.tolist() for name, numbers in vars(explanation.recomputed).items()},
        "steps": [asdict(step) for step in explanation.steps],
        "notes": [ROUNDING, PAPER, explanation.caveats],
    }
    return json.dumps(data, ensure_ascii=False, indent=1, default=float) + "\n"


def _input_token(kind: Kind, word: WordChoice, tokens: Tokens) -> InputToken:
    """Return the input token of the word's row: the word's first token in the encoder, else the token before it."""
    pieces = [f"{clean(tokens.pieces[i])} (id {tokens.ids[i]})" for i in word.pieces]
    spelled = clean("".join(tokens.pieces[i] for i in word.pieces).replace("▁", " ").strip())
    is_split, row = len(pieces) > 1, word.row
    mark = " (▁ stands for a space)" if "▁" in "".join(pieces) else ""
    cut = f"“{spelled}” is {'cut into' if is_split else 'one piece'}: {', '.join(pieces)}{mark}."
    if kind == "encoder":
        where = f"{'This is about the first of them, at' if is_split else 'It stands at'} position {row}."
        return InputToken(tokens.ids[row], clean(tokens.pieces[row]), f"{cut} {where}")
    token, piece = (tokens.ids[row - 1], clean(tokens.pieces[row - 1])) if row else (BOS, BEGIN)
    before = "the piece written last is" if row else "nothing is written yet, and the decoder begins with"
    writes = f"Step {row} writes {'the first of them' if is_split else 'it'}; {before} {piece} (id {token})."
    return InputToken(token, piece, f"{cut} {writes}")
