"""A sentence and a model in, a lesson out: the arithmetic of one attention head for one word, step by step."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from jaxtyping import Float
from numpy import ndarray

from dragoman.data.vocab import BOS
from dragoman.inspection.explanation.asking import Asking
from dragoman.inspection.explanation.board import DIGITS, Row, Step
from dragoman.inspection.explanation.head import Head
from dragoman.inspection.explanation.look import Look, look
from dragoman.inspection.explanation.place import Place, Word, find_head, find_word, place
from dragoman.inspection.explanation.recurrent import recurrent_steps
from dragoman.inspection.explanation.transformer import transformer_steps
from dragoman.inspection.explanation.weights import Keys, Recomputed
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.labels import clean
from dragoman.inspection.trace import Identity, Kind, Tokens
from dragoman.inspection.view import BEGIN, CAVEAT
from dragoman.models.recurrent import Recurrent
from dragoman.models.transformer import Transformer

SCHEMA_VERSION: Final = 1
PAPER: Final = 'Sections are those of "Attention Is All You Need" (Vaswani et al., 2017), where no other is named.'
ROUNDING: Final = (
    f"Numbers are rounded where they are written, most of them to {DIGITS} digits after the point, and the next ones "
    "are computed from what is written: a pocket calculator gives the same. The model itself carries more digits; its "
    "own results stand beside."
)


@dataclass(frozen=True, eq=False)
class Explanation:
    """A lesson about one row of one head."""

    source: Tokens
    target: Tokens | None
    """None where it is not needed: the encoder looks at the source alone."""
    free: bool
    """The model chose the target itself; else it was given."""
    model: Identity
    place: Place
    word: Word
    head: int
    reason: str
    """Why this head."""
    keys: Keys
    weights: Float[ndarray, "heads keys"]
    """The model's own, of all heads."""
    recomputed: Recomputed
    steps: tuple[Step, ...]

    @property
    def title(self) -> str:
        """What it is about, in a line."""
        word = clean(self.word.text)
        if self.place.kind == "encoder":
            return f"How one attention head looks from “{word}”"
        at = "the source" if self.place.kind == "cross" else "what was written"
        return f"How one attention head looks at {at} to write “{word}”"

    @property
    def chosen(self) -> tuple[str, ...]:
        """Which word, layer and head it is, and why."""
        layers, heads = self.place.num_layers, len(self.weights)
        lines = [
            f"Word: {clean(self.word.text)} ({self.word.reason}).",
            f"Attention: {self.place.name}, "
            + (f"layer {self.place.layer} of {layers} counted from 0." if layers > 1 else "its only layer."),
            f"Head: {self.head} ({self.reason})." if heads > 1 else "Head: its only one.",
        ]
        model = f"{self.model.sha256[:12]}, {self.model.family}" if self.model.sha256 else "one that was never saved"
        return (*lines, f"Model: {model}.")

    @property
    def caveats(self) -> str:
        """What it does not say."""
        mixed = bool(self.place.layer) or self.place.kind == "cross"
        more = " What stands at a position here is more than its own word." if mixed else ""
        return f"{CAVEAT} This is one head for one word of one sentence; others look elsewhere.{more}"


def explain(
    inspector: Inspector,
    source: str,
    target: str | None = None,
    *,
    kind: Kind | None = None,
    word: str | None = None,
    layer: int = 0,
    head: int | None = None,
) -> Explanation:
    """The lesson about a word: of the source for the encoder, else the word of the target that is being written.

    Without `target` the model's own translation is taken. Words, layers and heads are counted from 0; a layer of -1 is
    the last. What is not given is chosen, and the lesson says why.
    """
    where = place(inspector.model, kind, layer)
    if target is not None and where.kind == "encoder":
        raise ValueError(
            "the encoder looks at the source alone: leave the target out, or choose the kind cross or decoder"
        )
    read = inspector.read(source)
    written = None
    if where.kind != "encoder":
        written = inspector.forced(target) if target is not None else inspector.written(inspector.search(read))
    about = find_word(word, written or read, where.kind)
    watch = _watch(inspector, where)
    seen = look(inspector.model, read.ids, written.ids if written else None, where.name, about.row, watch)
    number, reason = find_head(head, seen.weights, seen.visible)
    asking = None if where.kind == "cross" else about.row
    score = "s" if isinstance(inspector.model, Transformer) else "e"  # where s is a state, e is a score
    keys = Keys(_labels(where.kind, read, written), seen.visible, asking, score)
    recomputed, steps = _lesson(inspector, where, about, number, seen, keys, written or read)
    return Explanation(
        source=read,
        target=written,
        free=written is not None and target is None,
        model=inspector.identity,
        place=where,
        word=about,
        head=number,
        reason=reason,
        keys=keys,
        weights=seen.weights,
        recomputed=recomputed,
        steps=steps,
    )


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The lesson as plain data, with all digits of what was recomputed."""
    exact = explanation.recomputed
    return {
        "schema_version": SCHEMA_VERSION,
        "title": explanation.title,
        "source": explanation.source.text,
        "target": None if explanation.target is None else explanation.target.text,
        "free": explanation.free,
        "model": explanation.model.model_dump(),
        "attention": explanation.place.name,
        "kind": explanation.place.kind,
        "layer": explanation.place.layer,
        "head": explanation.head,
        "word": explanation.word.text,
        "row": explanation.word.row,
        "chosen": explanation.chosen,
        "keys": explanation.keys.labels,
        "model_weights": explanation.weights[explanation.head].tolist(),
        "recomputed": {name: getattr(exact, name).tolist() for name in Recomputed.__dataclass_fields__},
        "steps": [_step_as_json(step) for step in explanation.steps],
        "notes": [ROUNDING, PAPER, explanation.caveats],
    }


def _watch(inspector: Inspector, where: Place) -> list[str]:
    model = inspector.model
    if isinstance(model, Transformer):
        return Head.watch(where)
    assert isinstance(model, Recurrent)
    return Asking.watch(model)


def _lesson(
    inspector: Inspector, where: Place, about: Word, number: int, seen: Look, keys: Keys, tokens: Tokens
) -> tuple[Recomputed, tuple[Step, ...]]:
    model = inspector.model
    if isinstance(model, Transformer):
        head = Head(model, where, about.row, number, seen)
        token = tokens.ids[about.row] if where.kind == "encoder" else _read(tokens, about.row)[0]
        return head.recomputed, tuple(transformer_steps(head, keys, token, _about(where.kind, about, tokens)))
    assert isinstance(model, Recurrent)
    asking = Asking(model, about.row, seen)
    said = _about(where.kind, about, tokens)
    return asking.recomputed, tuple(recurrent_steps(asking, keys, _read(tokens, about.row)[1], said))


def _labels(kind: Kind, read: Tokens, written: Tokens | None) -> tuple[str, ...]:
    pieces = read.pieces
    if kind == "decoder":
        assert written is not None
        pieces = (BEGIN, *written.pieces[:-1])
    return tuple(f"{j} {clean(piece)}" for j, piece in enumerate(pieces))


def _read(tokens: Tokens, row: int) -> tuple[int, str]:
    """What the decoder reads in the step that writes this token: the one before it."""
    return (BOS, BEGIN) if row == 0 else (tokens.ids[row - 1], clean(tokens.pieces[row - 1]))


def _about(kind: Kind, about: Word, tokens: Tokens) -> str:
    """What the row has to do with the word."""
    pieces = [f"{clean(tokens.pieces[i])} (id {tokens.ids[i]})" for i in about.pieces]
    spelled = clean("".join(tokens.pieces[i] for i in about.pieces).replace("▁", " ").strip())
    several = len(pieces) > 1
    mark = " (▁ stands for a space)" if "▁" in "".join(pieces) else ""
    cut = f"“{spelled}” is {'cut into' if several else 'one piece'}: {', '.join(pieces)}{mark}."
    if kind == "encoder":
        return f"{cut} {'This is about the first of them, at' if several else 'It stands at'} position {about.row}."
    token, piece = _read(tokens, about.row)
    before = "the piece written last is" if about.row else "nothing is written yet, and the decoder begins with"
    writes = f"Step {about.row} writes {'the first of them' if several else 'it'}; {before} {piece} (id {token})."
    return f"{cut} {writes}"


def _step_as_json(step: Step) -> dict[str, Any]:
    blocks = [
        block
        if isinstance(block, str)
        else {
            "columns": block.columns,
            "rows": [_row_as_json(row) for row in block.rows],
            "total": block.total and _row_as_json(block.total),
            "of": block.of,
        }
        for block in step.blocks
    ]
    return {"title": step.title, "why": step.why, "formula": step.formula, "section": step.section, "blocks": blocks}


def _row_as_json(row: Row) -> dict[str, Any]:
    cells = [float(cell) if isinstance(cell, Decimal) else cell for cell in row.cells]
    return {"label": row.label, "cells": cells, "whole": row.whole, "mark": row.mark}
