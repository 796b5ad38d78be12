"""A blackboard: what an explanation writes down, and schoolbook arithmetic that goes on from what was written.

A number is rounded when it is written, and the next one is computed from it as it stands there: so a pocket calculator
gives every number on the board, to the last digit. Ties are rounded away from zero, as at school.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

DIGITS: Final = 4
"""Numbers are written with so many digits after the point."""
FINE: Final = 6
"""Those that are multiplied by something large, or divide, have more."""
SHOWN: Final = 4
"""Of a vector, so many numbers are written down."""

Mark = Literal["", "explained", "hidden"]
"""Of a row: it is what the lesson is about, or it may not be seen."""


@dataclass(frozen=True)
class Row:
    """A line of a table: a label, and numbers or words."""

    label: str
    cells: tuple[Decimal | str, ...]
    whole: tuple[float, ...] = ()
    """Of a vector, all its numbers, with the model's own digits."""
    bar: float | None = None
    """How long a bar to draw beside it: 0 to 1."""
    mark: Mark = ""


@dataclass(frozen=True)
class Table:
    """Numbers side by side."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    total: Row | None = None
    """What stands below the line."""
    of: int | None = None
    """The rows are vectors of so many numbers, of which the first stand here."""
    keys: bool = False
    """There is a row for each key, in their order."""

    @property
    def goes_on(self) -> bool:
        """Whether the vectors have more numbers than stand here."""
        return self.of is not None and self.of > sum(column.startswith("[") for column in self.columns)


@dataclass(frozen=True)
class Step:
    """One step of an explanation. In formulas `_` lowers the word after it, `^` raises the letter or the braces."""

    title: str
    why: str
    formula: str
    section: str
    """Of the paper where it is described."""
    blocks: tuple[str | Table, ...]


def written(number: float | Decimal, digits: int = DIGITS) -> Decimal:
    """As it is written on the board. There is no negative zero there."""
    return Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0


def root(number: int) -> Decimal:
    """The square root: whole where it is whole, else with some more digits."""
    exact = Decimal(number).sqrt()
    return exact.quantize(Decimal(1)) if exact == exact.to_integral_value() else written(exact, FINE)


def plain(number: Decimal | str) -> str:
    """Without powers of ten."""
    return number if isinstance(number, str) else f"{number:f}"


def first(numbers: Float[ndarray, " n"], digits: int = DIGITS) -> tuple[Decimal, ...]:
    """The first few numbers of a vector."""
    return tuple(written(number, digits) for number in numbers[:SHOWN].tolist())


def vector(
    label: str,
    numbers: Float[ndarray, " n"],
    cells: Sequence[Decimal] | None = None,
    *,
    mark: Mark = "",
    digits: int = DIGITS,
) -> Row:
    """A vector as a row. `cells` are its first numbers where they follow from others on the board."""
    return Row(label, first(numbers, digits) if cells is None else tuple(cells), tuple(numbers.tolist()), mark=mark)


def vectors(rows: Iterable[Row], *, keys: bool = False) -> Table:
    """Vectors of one length below each other."""
    listed = tuple(rows)
    length = len(listed[0].whole)
    return Table(dimensions(length), listed, of=length, keys=keys)


def dimensions(length: int) -> tuple[str, ...]:
    """What stands above the first numbers of a vector."""
    return tuple(f"[{i}]" for i in range(min(SHOWN, length)))


def dot_product(
    names: tuple[str, str, str],
    a: Float[ndarray, " n"],
    b: Float[ndarray, " n"],
    bias: float | None = None,
    cells: Sequence[Decimal] | None = None,
) -> tuple[Table, str]:
    """How a sum of products begins, product by product, and what the rest of it adds. `names` are those of the two
    vectors and of the sum; `cells` are the first numbers of the first vector, if they are on the board.
    """
    total = written(float(a @ b) + (bias or 0.0))
    begins = first(a) if cells is None else cells
    products = tuple(written(x * y) for x, y in zip(begins, first(b), strict=True))
    begun = sum(products, Decimal(0))
    rest = total - begun - (0 if bias is None else written(bias))
    rows = [vector(names[0], a, begins), vector(names[1], b), vector("product", a * b, products)]
    left = len(a) - len(products)
    said = [f"these {len(products)} products add up to {begun:f}"]
    said += [f"the other {left} to {rest:f}"] if left else []
    said += [] if bias is None else [f"the bias is {written(bias):f}"]
    return vectors(rows), f"{_joined(said).capitalize()}: {names[2]} = {total:f}."


@dataclass(frozen=True)
class Softmax:
    """exp(s) over the sum of them all."""

    shift: Decimal
    """Subtracted from each score first: the weights stay the same, and exp stays readable. Often 0."""
    exps: tuple[Decimal, ...]
    total: Decimal
    weights: tuple[Decimal, ...]


def softmax(scores: Sequence[Decimal], visible: Sequence[bool]) -> Softmax:
    """Of the scores that are visible; the hidden ones weigh nothing, also where nothing is visible."""
    seen = [score for score, shown in zip(scores, visible, strict=True) if shown]
    largest = max(seen, default=Decimal(0))
    shift = Decimal(0) if -5 <= largest <= 12 else largest
    # Digits enough to tell the sum to a millionth: only then are the weights right to the last of theirs.
    size = sum(((score - shift).exp() for score in seen), Decimal(0))
    digits = max(0, 5 - size.adjusted()) if size else DIGITS
    exps = tuple(
        written((score - shift).exp() if shown else Decimal(0), digits)
        for score, shown in zip(scores, visible, strict=True)
    )
    total = sum(exps, Decimal(0))
    weights = tuple(written(exp / total if total else Decimal(0)) for exp in exps)
    return Softmax(shift, exps, total, weights)


def entropy(weights: Float[ndarray, " keys"]) -> float:
    """How evenly spread: 0 all on one key, 1 all keys alike. Hidden keys must be left out; one key alone gives 0."""
    if len(weights) < 2:
        return 0.0
    some = weights[weights > 0]
    return abs(float((some * np.log(some)).sum() / np.log(len(weights))))


def norm(numbers: Float[ndarray, " n"]) -> Decimal:
    """A vector's length."""
    return written(float(np.linalg.norm(numbers)))


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
