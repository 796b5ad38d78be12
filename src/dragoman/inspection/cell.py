"""The arithmetic of one cell of an attention map as data, for the studio's Cell screen. Does not import torch."""

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from dragoman.attention.kinds import Kind
from dragoman.config import Config
from dragoman.inspection.labels import clean

if TYPE_CHECKING:
    from dragoman.inspection.explanation.explain import Explanation
    from dragoman.inspection.explanation.worksheet import Row, Step, Table


class CellRow(Config):
    """A row of a table: a label, and the printed numbers."""

    label: str
    cells: tuple[str, ...]
    whole: tuple[float, ...] = Field(description="all numbers of a vector, if the table shows only the first")
    bar: float | None = Field(description="length of the bar beside the row, from 0 to 1")
    mark: Literal["", "explained", "hidden"]


class CellNumbers(Config):
    """A table of numbers with a label for each row."""

    columns: tuple[str, ...]
    rows: tuple[CellRow, ...]
    total: CellRow | None
    length: int | None = Field(description="length of the vectors whose first numbers are in the table")
    is_cut: bool = Field(description="true if the vectors are longer than the table shows")
    has_keys: bool = Field(description="true if the table has one row per key, in order")


class CellStep(Config):
    """One step of the arithmetic."""

    short: str
    title: str
    why: str
    section: str = Field(description="section of the paper that describes the step")
    formula: str
    blocks: tuple[str | CellNumbers, ...]


class CellKey(Config):
    """One key of the row: the numbers that its weight comes from."""

    label: str
    mark: Literal["", "explained", "hidden"]
    score: float = Field(description="score before the division")
    factor: float = Field(description="factor after the softmax: 1, except in local-p attention")
    weight: float = Field(description="weight that the model computed")
    printed: str = Field(description="that weight, rounded as in all tables")


class CellExplanation(Config):
    """The step-by-step arithmetic of one row of one head."""

    title: str
    name: str
    kind: Kind
    layer: int
    head: int
    row: int
    key: int = Field(description="the key whose numbers are worked through")
    choices: tuple[str, ...]
    divisor: float = Field(description="the number that the model divides scores by: √d_k, or 1")
    root: float = Field(description="√ of the length of a key")
    keys: tuple[CellKey, ...]
    steps: tuple[CellStep, ...]
    notes: tuple[str, ...]
    caveats: str


def describe_cell(explanation: "Explanation") -> CellExplanation:
    """Return an explanation as data for the studio's pages."""
    from dragoman.inspection.explanation.explain import PAPER, ROUNDING
    from dragoman.inspection.explanation.worksheet import exact_softmax, round_number

    now, keys, weights = explanation.recomputed, explanation.keys, explanation.weights[explanation.head]
    shares = exact_softmax(now.scores, keys.visible)
    factors = np.divide(now.weights, shares, out=np.ones_like(shares), where=shares > 0)
    numbers = zip((now.scores * explanation.divisor).tolist(), factors.tolist(), weights.tolist(), strict=True)
    return CellExplanation(
        title=explanation.title,
        name=explanation.layer.name,
        kind=explanation.layer.kind,
        layer=explanation.layer.layer,
        head=explanation.head,
        row=explanation.word.row,
        key=keys.choose(weights.tolist()),
        choices=explanation.choices,
        divisor=explanation.divisor,
        root=float(np.sqrt(now.keys.shape[1])),
        keys=tuple(
            CellKey(
                label=keys.labels[j],
                mark=keys.mark(j),
                score=score,
                factor=factor,
                weight=weight,
                printed=str(round_number(weight)),
            )
            for j, (score, factor, weight) in enumerate(numbers)
        ),
        steps=tuple(map(_step, explanation.steps)),
        notes=(ROUNDING, PAPER),
        caveats=explanation.caveats,
    )


def _step(step: "Step") -> CellStep:
    blocks = tuple(clean(block) if isinstance(block, str) else _table(block) for block in step.blocks)
    return CellStep(
        short=step.short, title=step.title, why=step.why, section=step.section, formula=step.formula, blocks=blocks
    )


def _table(table: "Table") -> CellNumbers:
    return CellNumbers(
        columns=table.columns,
        rows=tuple(map(_row, table.rows)),
        total=None if table.total is None else _row(table.total),
        length=table.of,
        is_cut=table.is_cut,
        has_keys=table.keys,
    )


def _row(row: "Row") -> CellRow:
    return CellRow(
        label=clean(row.label),
        cells=tuple(cell if isinstance(cell, str) else f"{cell:f}" for cell in row.cells),
        whole=tuple(round(number, 6) for number in row.whole) if len(row.whole) > len(row.cells) else (),
        bar=row.bar,
        mark=row.mark,
    )
