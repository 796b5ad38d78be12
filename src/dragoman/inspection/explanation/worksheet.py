"""A worksheet: the tables and sentences of an explanation, with arithmetic on rounded numbers.

Each number is rounded when it is printed, and later numbers are computed from the rounded numbers, so that a calculator
reproduces the worksheet to the last digit. Ties are rounded away from zero.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from string import Template
from typing import Final, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from dragoman.inspection.html_file import part

DIGITS: Final = 4
"""Digits after the decimal point of most numbers."""
FINE: Final = 6
"""Digits after the decimal point of divisors and of numbers that are multiplied by large factors."""
SHOWN: Final = 4
"""The number of vector elements to print."""

Mark = Literal["", "explained", "hidden"]
"""The mark of a row: the explained position, or a key that the mask hides."""
WORDS: Final[dict[str, dict[str, str]]] = tomllib.loads(part("explanation/steps.toml"))
Vector = Float[ndarray, " n"]


@dataclass(frozen=True)
class Row:
    """A row of a table: a label, and numbers or words."""

    label: str
    cells: tuple[Decimal | str, ...]
    whole: tuple[float, ...] = ()
    """All numbers of a vector, in full precision."""
    bar: float | None = None
    """The length of the bar beside the row, from 0 to 1."""
    mark: Mark = ""


@dataclass(frozen=True)
class Table:
    """A table of numbers with a label for each row."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    total: Row | None = None
    """The row of sums at the bottom."""
    of: int | None = None
    """The length of the vectors whose first numbers are in the table."""
    keys: bool = False
    """True if the table has one row per key, in order."""

    @property
    def is_cut(self) -> bool:
        """True if the vectors are longer than the table shows."""
        return self.of is not None and self.of > sum(column.startswith("[") for column in self.columns)


@dataclass(frozen=True)
class Step:
    """One step of an explanation; the texts are in steps.toml."""

    title: str
    why: str
    section: str
    """The section of the paper that describes the step."""
    formula: str = ""
    blocks: tuple[str | Table, ...] = ()
    short: str = ""
    """The name of the step in a chain of all steps."""


def write_text(name: str, **values: object) -> str:
    """Return the named text of steps.toml with `values` substituted."""
    return Template(WORDS["texts"][name]).substitute(values)


def write_step(name: str, *blocks: str | Table, **values: object) -> Step:
    """Return the named step of steps.toml with `values` substituted in its texts."""
    words = {field: Template(text).substitute(values) for field, text in WORDS[name].items()}
    return Step(**words, blocks=blocks)


@dataclass(frozen=True, eq=False)
class KeyTable:
    """The keys of an attention row: labels, visibility, and the row's own position (None in cross-attention)."""

    labels: tuple[str, ...]
    visible: Bool[ndarray, " keys"]
    own: int | None = None
    symbol: str = "s"
    """The letter for a key's score."""
    example: int | None = None
    """The key whose numbers are worked through; None: the key with the largest weight."""

    def choose(self, weights: Sequence[float | Decimal]) -> int:
        """Return the key whose numbers are worked through."""
        return weights.index(max(weights)) if self.example is None else self.example

    def mark(self, j: int) -> Mark:
        """Return the mark of key `j`: explained, hidden or empty."""
        return "hidden" if not self.visible[j] else "explained" if j == self.own else ""

    def vectors(self, numbers: Float[ndarray, "keys d"]) -> Table:
        """Return a table with one row per key: the first numbers of the key's vector."""
        table = vectors(*zip(self.labels, numbers, strict=True))
        rows = tuple(replace(row, mark=self.mark(j)) for j, row in enumerate(table.rows))
        return replace(table, rows=rows, keys=True)

    def table(
        self, columns: Mapping[str, Sequence[Decimal | str]], bars: Sequence[float] = (), total: Row | None = None
    ) -> Table:
        """Return a table with one number per key in every column and, if given, a bar per key."""
        rows = tuple(
            Row(label, tuple(cells), bar=bars[j] if bars else None, mark=self.mark(j))
            for j, (label, *cells) in enumerate(zip(self.labels, *columns.values(), strict=True))
        )
        return Table(tuple(columns), rows, total, keys=True)

    def masked(self, scores: Sequence[Decimal]) -> tuple[Decimal | str, ...]:
        """Return the scores with -∞ for hidden keys."""
        return tuple(score if visible else "-∞" for score, visible in zip(scores, self.visible, strict=True))


def round_number(number: float | Decimal, digits: int = DIGITS) -> Decimal:
    """Return the number rounded for the worksheet, without negative zero."""
    return Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0


def round_all(numbers: Vector) -> tuple[Decimal, ...]:
    """Return every number of a vector, rounded for the worksheet."""
    return tuple(map(round_number, numbers.tolist()))


def first_numbers(numbers: Vector, digits: int = DIGITS) -> tuple[Decimal, ...]:
    """Return the first `SHOWN` numbers of a vector, rounded for the worksheet."""
    return tuple(round_number(number, digits) for number in numbers[:SHOWN].tolist())


def square_root(number: int) -> Decimal:
    """Return the square root: exact if it is an integer, otherwise rounded to `FINE` digits."""
    exact = Decimal(number).sqrt()
    return exact.quantize(Decimal(1)) if exact == exact.to_integral_value() else round_number(exact, FINE)


def format_number(number: Decimal | str) -> str:
    """Return the number as text without an exponent."""
    return number if isinstance(number, str) else f"{number:f}"


def vectors(*rows: tuple[str, Vector] | tuple[str, Vector, Sequence[Decimal]]) -> Table:
    """Return a table of vectors; each row is a label, a vector and, optionally, the numbers to print.

    The numbers to print are given if they follow from other numbers on the worksheet.
    """
    length = len(rows[0][1])
    written = [first_numbers(row[1]) if len(row) == 2 else tuple(row[2]) for row in rows]
    shown = (Row(row[0], cells, tuple(row[1].tolist())) for row, cells in zip(rows, written, strict=True))
    return Table(dimensions(length), tuple(shown), of=length)


def dimensions(length: int) -> tuple[str, ...]:
    """Return the column headings for the printed numbers of a vector: [0], [1], ..."""
    return tuple(f"[{i}]" for i in range(min(SHOWN, length)))


def dot_product(
    names: tuple[str, str, str], a: Vector, b: Vector, bias: float | None = None, cells: Sequence[Decimal] | None = None
) -> tuple[Table, str]:
    """Return the table of the first products of a dot product, and a sentence with the total.

    `names` are the names of the two vectors and of the total; `cells` are the printed numbers of `a`, if they are
    known.
    """
    cells = first_numbers(a) if cells is None else cells
    products = tuple(round_number(x * y) for x, y in zip(cells, first_numbers(b), strict=True))
    table = vectors((names[0], a, cells), (names[1], b), ("product", a * b, products))
    return table, add_up(products, len(a), float(a @ b) + (bias or 0.0), names[2], bias)


def add_up(products: Sequence[Decimal], length: int, value: float, name: str, bias: float | None = None) -> str:
    """Return the sentence that adds the printed products, the other products and the bias to the total."""
    total, begun = round_number(value), sum(products, Decimal(0))
    rest = total - begun - (0 if bias is None else round_number(bias))
    parts = [f"These {len(products)} products add up to {begun:f}"]
    parts += [f"the other {length - len(products)} to {rest:f}"] if length > len(products) else []
    parts += [] if bias is None else [f"the bias is {round_number(bias):f}"]
    return f"{' and '.join(filter(None, (', '.join(parts[:-1]), parts[-1])))}: {name} = {total:f}."


class Softmax(NamedTuple):
    """The printed numbers of a softmax: exp of each score, their sum, and the weights."""

    shift: Decimal
    """The number subtracted from each score to keep exp readable, often 0; the weights do not change."""
    exps: tuple[Decimal, ...]
    total: Decimal
    weights: tuple[Decimal, ...]


def softmax(scores: Sequence[Decimal], visible: Sequence[bool]) -> Softmax:
    """Compute the softmax over the visible keys; hidden keys have the weight 0."""
    largest = max((score for score, is_visible in zip(scores, visible, strict=True) if is_visible), default=Decimal(0))
    shift = Decimal(0) if -5 <= largest <= 12 else largest
    exact = [(s - shift).exp() if is_visible else Decimal(0) for s, is_visible in zip(scores, visible, strict=True)]
    # The sum needs its first six digits: only then are the weights right to their last one.
    size = sum(exact, Decimal(0))
    digits = max(0, 5 - size.adjusted()) if size else DIGITS
    exps = tuple(round_number(exp, digits) for exp in exact)
    total = sum(exps, Decimal(0))
    return Softmax(shift, exps, total, tuple(round_number(exp / total if total else Decimal(0)) for exp in exps))


def entropy(weights: Float[ndarray, " keys"]) -> float:
    """Return the entropy of the weights divided by the largest possible: 0 is one key, 1 is uniform."""
    if len(weights) < 2:
        return 0.0
    positive = weights[weights > 0]
    return abs(float((positive * np.log(positive)).sum() / np.log(len(weights))))


def exact_softmax(scores: Float[ndarray, " keys"], visible: Bool[ndarray, " keys"]) -> Float[ndarray, " keys"]:
    """Compute the softmax over the visible keys in full precision."""
    weights = np.zeros_like(scores)
    if visible.any():
        exps = np.exp(scores[visible] - scores[visible].max())
        weights[visible] = exps / exps.sum()
    return weights


def spread_table(keys: KeyTable, scores: Mapping[str, Float[ndarray, " keys"]]) -> tuple[str, Table]:
    """Return a table of the entropy and the largest weight under several scalings of the scores."""
    rows = []
    for label, numbers in scores.items():
        weights = exact_softmax(numbers, keys.visible)[keys.visible]
        rows.append(Row(label, (round_number(entropy(weights), 2), round_number(float(weights.max(initial=0.0))))))
    return write_text("spread"), Table(("entropy", "largest weight"), tuple(rows))


def mask_step(keys: KeyTable, scores: Sequence[Decimal], why: str, section: str) -> Step:
    """Return the step that masks keys, with the reason `why`."""
    hidden, symbol = int((~keys.visible).sum()), keys.symbol
    if not hidden:
        return write_step("mask_open", why=why, section=section)
    table = keys.table({symbol: scores, "after the mask": keys.masked(scores)})
    return write_step("mask", table, why=why, section=section, hidden=hidden, keys=len(scores), symbol=symbol)


def softmax_step(
    keys: KeyTable, scores: Sequence[Decimal], section: str, model: Float[ndarray, " keys"] | None = None
) -> tuple[Step, tuple[Decimal, ...]]:
    """Return the softmax step and the printed weights; `model` has the model's own weights, for comparison."""
    result, symbol = softmax(scores, keys.visible.tolist()), keys.symbol
    columns: dict[str, tuple[Decimal | str, ...]] = {symbol: keys.masked(scores)}
    if result.shift:
        columns[f"{symbol} - max"] = keys.masked([score - result.shift for score in scores])
    columns |= {"exp" if result.shift else f"exp({symbol})": result.exps, "weight": result.weights}
    sums: list[Decimal | str] = [""] * (len(columns) - 2)
    sums += [result.total, sum(result.weights, Decimal(0))]
    if model is not None:
        columns["model"] = round_all(model)
        sums.append(round_number(float(model.sum())))
    bars = [float(weight) for weight in result.weights] if model is None else model.tolist()
    table = keys.table(columns, bars, Row("sum", tuple(sums)))
    return write_step("softmax", table, _describe(result, keys), symbol=symbol, section=section), result.weights


def weighted_sum(
    keys: KeyTable, weights: Sequence[Decimal], values: Float[ndarray, "keys d_v"], model: Vector
) -> tuple[Table, str, Table]:
    """Return a table of the weighted values with their sum, and the sum that the model computed."""
    products = [tuple(round_number(weight * x) for x in first_numbers(values[j])) for j, weight in enumerate(weights)]
    columns = list(zip(*products, strict=True))
    total = Row("sum", ("", *(sum(column, Decimal(0)) for column in columns)))
    headings = dict(zip(dimensions(values.shape[1]), columns, strict=True))
    table = replace(keys.table({"weight": weights, **headings}, total=total), of=values.shape[1])
    return table, "The model's own, with all its digits:", vectors(("model", model))


def _describe(result: Softmax, keys: KeyTable) -> str:
    """Return sentences that work through one row of the softmax table."""
    if not result.total:
        return "Nothing is visible, so nothing has any weight."
    j = keys.choose(result.weights)
    text = f"{keys.labels[j]}: {result.exps[j]:f} / {result.total:f} = {result.weights[j]:f}."
    if result.shift:
        text += f" The largest score, {result.shift:f}, is subtracted from all first: the shares stay the same."
    total = sum(result.weights, Decimal(0))
    return text if total == 1 else f"{text} They add up to {total:f}, because each is rounded."
