"""From scores to a mix of values: the steps that every attention has, whatever its scores are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from dragoman.inspection.explanation.board import (
    Mark,
    Row,
    Softmax,
    Step,
    Table,
    dimensions,
    entropy,
    first,
    plain,
    softmax,
    vector,
    vectors,
    written,
)


@dataclass(frozen=True, eq=False)
class Recomputed:
    """The arithmetic of one head for one row, done again from its pieces with all digits."""

    query: Float[ndarray, " d_query"]
    keys: Float[ndarray, "keys d_key"]
    values: Float[ndarray, "keys d_v"]
    scores: Float[ndarray, " keys"]
    """As the softmax gets them, hidden keys too."""
    visible: Bool[ndarray, " keys"]
    weights: Float[ndarray, " keys"]
    output: Float[ndarray, " d_v"]


@dataclass(frozen=True, eq=False)
class Keys:
    """What is looked at: the labels of the keys, which of them may be seen, and which one is asking, if it is there."""

    labels: tuple[str, ...]
    visible: Bool[ndarray, " keys"]
    asking: int | None = None
    score: str = "s"
    """How a key's score is called."""

    def mark(self, j: int) -> Mark:
        """How the row of a key looks."""
        if not self.visible[j]:
            return "hidden"
        return "explained" if j == self.asking else ""

    def vectors(self, numbers: Float[ndarray, "keys d"]) -> Table:
        """A vector for each key."""
        rows = (vector(label, numbers[j], mark=self.mark(j)) for j, label in enumerate(self.labels))
        return vectors(rows, keys=True)

    def table(self, columns: Mapping[str, Sequence[Decimal | str]]) -> Table:
        """For each key its number in every column."""
        rows = (
            Row(label, tuple(column[j] for column in columns.values()), mark=self.mark(j))
            for j, label in enumerate(self.labels)
        )
        return Table(tuple(columns), tuple(rows), keys=True)


def exact_weights(scores: Float[ndarray, " keys"], visible: Bool[ndarray, " keys"]) -> Float[ndarray, " keys"]:
    """The softmax over what is visible, with all digits."""
    weights = np.zeros_like(scores)
    if visible.any():
        seen = np.exp(scores[visible] - scores[visible].max())
        weights[visible] = seen / seen.sum()
    return weights


def spread(scores: Float[ndarray, " keys"], visible: Bool[ndarray, " keys"]) -> tuple[Decimal, Decimal]:
    """The entropy of the weights that these scores give, and the largest of them."""
    weights = exact_weights(scores, visible)[visible]
    return written(entropy(weights), 2), written(float(weights.max(initial=0.0)))


def spread_table(labelled: dict[str, Float[ndarray, " keys"]], visible: Bool[ndarray, " keys"]) -> Table:
    """What becomes of several ways to make the scores."""
    rows = tuple(Row(label, spread(scores, visible)) for label, scores in labelled.items())
    return Table(("entropy", "largest weight"), rows)


def mask_step(scores: tuple[Decimal, ...], keys: Keys, why: str, section: str) -> Step:
    """Which keys are hidden."""
    hidden = int((~keys.visible).sum())
    title = f"The mask: {hidden} of {len(scores)} keys hidden" if hidden else "The mask: nothing is hidden"
    if not hidden:
        return Step(title, why, "", section, ())
    after = tuple(score if shown else "-∞" for score, shown in zip(scores, keys.visible, strict=True))
    table = keys.table({keys.score: scores, "after the mask": after})
    return Step(title, why, f"{keys.score}_j = -∞ where j is hidden", section, (table,))


def softmax_step(
    scores: Sequence[Decimal],
    keys: Keys,
    section: str,
    model: Float[ndarray, " keys"] | None = None,
) -> tuple[Step, Softmax]:
    """The weights; beside them `model`, the model's own, where nothing else follows before they are used."""
    board = softmax(scores, keys.visible.tolist())
    columns = _softmax_columns(scores, keys, board)
    sums: list[Decimal | str] = [*[""] * (len(columns) - 2), board.total, sum(board.weights, Decimal(0))]
    if model is not None:
        columns["model"] = all_written(model)
        sums.append(written(float(model.sum())))
    shares = map(float, board.weights) if model is None else model.tolist()
    rows = tuple(
        Row(keys.labels[j], tuple(column[j] for column in columns.values()), bar=share, mark=keys.mark(j))
        for j, share in enumerate(shares)
    )
    step = Step(
        "Softmax: the scores become shares",
        "exp makes every score positive and lets the best stand out; divided by their sum, they become shares that "
        "add up to 1.",
        f"w_j = exp({keys.score}_j) / Σ_j exp({keys.score}_j)",
        section,
        (Table(tuple(columns), rows, Row("sum", tuple(sums)), keys=True), _how(board, keys)),
    )
    return step, board


def _softmax_columns(scores: Sequence[Decimal], keys: Keys, board: Softmax) -> dict[str, tuple[Decimal | str, ...]]:
    visible = [score if shown else None for score, shown in zip(scores, keys.visible, strict=True)]
    columns: dict[str, tuple[Decimal | str, ...]] = {keys.score: tuple("-∞" if s is None else s for s in visible)}
    exp = f"exp({keys.score})"
    if board.shift:
        columns[f"{keys.score} - max"] = tuple("-∞" if s is None else s - board.shift for s in visible)
        exp = "exp"
    return columns | {exp: board.exps, "weight": board.weights}


def mix_step(
    words: Step,
    weights: Sequence[Decimal],
    values: Float[ndarray, "keys d_v"],
    model: Float[ndarray, " d_v"],
    keys: Keys,
) -> Step:
    """The values, each as much of it as its weight says: `words` with the numbers, and the model's own, behind them."""
    products = [tuple(written(weight * number) for number in first(values[j])) for j, weight in enumerate(weights)]
    rows = tuple(Row(label, (weights[j], *products[j]), mark=keys.mark(j)) for j, label in enumerate(keys.labels))
    added = tuple(sum(column, Decimal(0)) for column in zip(*products, strict=True))
    width = values.shape[1]
    table = Table(("weight", *dimensions(width)), rows, Row("sum", ("", *added)), of=width, keys=True)
    own = vectors([vector("model", model)])
    return replace(words, blocks=(*words.blocks, table, "The model's own, with all its digits behind it:", own))


def all_written(numbers: Float[ndarray, " n"]) -> tuple[Decimal, ...]:
    """Every number of a vector, as it is written."""
    return tuple(written(number) for number in numbers.tolist())


def _how(board: Softmax, keys: Keys) -> str:
    """One line of the table, spelled out, and what may look odd about it."""
    if not board.total:
        return "Nothing is visible, so nothing has any weight."
    j = max(range(len(board.weights)), key=lambda i: board.weights[i])
    said = f"{keys.labels[j]}: {plain(board.exps[j])} / {plain(board.total)} = {plain(board.weights[j])}."
    if board.shift:
        said += f" The largest score, {board.shift:f}, is subtracted from all first: the shares stay the same."
    added = sum(board.weights, Decimal(0))
    return said + (f" They add up to {added:f}, because each is rounded." if added != 1 else "")
