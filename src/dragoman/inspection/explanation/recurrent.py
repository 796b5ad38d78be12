"""One look of a recurrent decoder at the source, step by step as on a blackboard (Bahdanau, 2015; Luong, 2015)."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import numpy as np

from dragoman.inspection.explanation.asking import Asking
from dragoman.inspection.explanation.board import (
    Row,
    Softmax,
    Step,
    Table,
    dot_product,
    first,
    root,
    vector,
    vectors,
    written,
)
from dragoman.inspection.explanation.look import array
from dragoman.inspection.explanation.weights import (
    Keys,
    all_written,
    mask_step,
    mix_step,
    softmax_step,
    spread_table,
)
from dragoman.models.recurrent_decoder import Luong

BAHDANAU, LUONG = "Bahdanau et al., 2015", "Luong et al., 2015"
FORMULAS: Final = {
    "additive": "e_j = v · tanh(W s + U h_j)",
    "concat": "e_j = v · tanh(W [s; h_j])",
    "general": "e_j = s · W h_j",
    "dot": "e_j = s · h_j",
}


def recurrent_steps(asking: Asking, keys: Keys, read: str, said: str) -> Iterator[Step]:
    """From what the encoder left to what the decoder makes of it. `read` is the piece that enters in this step, and
    `said` tells what the step has to do with the word.
    """
    luong = isinstance(asking.model.decoder, Luong)
    yield _source(asking, keys, luong)
    yield _state(asking, read, said, luong)
    if asking.model.config.score != "dot":
        yield _compared(asking, keys, luong)
    scores = all_written(asking.recomputed.scores)
    yield _scores(asking, keys, scores, luong)
    yield _undivided(asking, keys)
    yield mask_step(scores, keys, *_mask(asking, luong))
    own = asking.seen.weights[0] if asking.predicted is None else None  # else the bell is in them, too
    step, board = softmax_step(scores, keys, _paper(luong, "section 3.1", "section 3.1"), own)
    yield step
    weights = board.weights
    if asking.predicted is not None:
        step, weights = _near(asking, keys, board)
        yield step
    yield _mix(asking, keys, weights, luong)
    yield _next(asking, luong)


def _paper(luong: bool, of_luong: str, of_bahdanau: str) -> str:
    return f"{LUONG}, {of_luong}" if luong else f"{BAHDANAU}, {of_bahdanau}"


def _source(asking: Asking, keys: Keys, luong: bool) -> Step:
    both = asking.model.config.bidirectional
    how = "from both ends" if both else "from left to right"
    halves = f" The first {asking.source.shape[1] // 2} numbers are of the reader that goes forwards." if both else ""
    return Step(
        "What there is to look at",
        f"The encoder has read the source {how} and kept what it held at each piece: so h_j is the piece j amid its "
        "neighbours.",
        "h_j = [forwards_j; backwards_j]" if both else "h_j = f(h_{j-1}, x_j)",
        _paper(luong, "section 3", "section 3.2"),
        (f"One vector for each position of the source.{halves}", keys.vectors(asking.source)),
    )


def _state(asking: Asking, read: str, about: str, luong: bool) -> Step:
    if luong:
        why = "A Luong decoder steps first and looks then: its state has already taken in what was written last."
        said = f"The state s after reading {read}:"
    elif asking.row == 0:
        why = "A Bahdanau decoder looks first and steps then; before its first step, its state is made of the source."
        said = "The first state s:"
    else:
        why = "A Bahdanau decoder looks first and steps then: its state is the one that the step before has left."
        said = f"The state s before reading {read}:"
    formula = "s = f(s before, y)" if luong else "s = tanh(W_s h_1)" if asking.row == 0 else "s = s_{i-1}"
    section = _paper(luong, "section 3", "section 3.1")
    return Step("Who is asking", why, formula, section, (about, said, vectors([vector("s", asking.state)])))


def _compared(asking: Asking, keys: Keys, luong: bool) -> Step:
    now, kind = asking.recomputed, asking.model.config.score
    if kind == "general":
        blocks: tuple[str | Table, ...] = ("W h of every position:", keys.vectors(now.keys))
        why = "A matrix that was learned turns each h into what a state would have to look like to find it."
    else:
        why = "State and source come from different networks: two matrices that were learned bring them into one space."
        blocks = (
            "The state:",
            vectors([vector("W s", now.query)]),
            "The source, at every position:",
            keys.vectors(now.keys),
        )
    formula = {"general": "W h_j", "additive": "W s,  U h_j", "concat": "W [s; h_j], in two halves"}[kind]
    return Step("Made comparable", why, formula, _paper(luong, "section 3.1", "appendix A.1.2"), blocks)


def _scores(asking: Asking, keys: Keys, scores: tuple[Decimal, ...], luong: bool) -> Step:
    now, kind = asking.recomputed, asking.model.config.score
    j = int(np.argmax(asking.seen.weights[0]))
    if asking.direction is None:
        table, said = dot_product(("s", f"that of {keys.labels[j]}", "e"), now.query, now.keys[j])
        why = "A dot product is large where both point the same way, and below zero where they point apart."
    else:
        table, said = _through_tanh(asking, j, keys.labels[j])
        why = "A small network gives the score: added up, squeezed by tanh to between -1 and 1, weighed by v."
    return Step(
        "How well does each position answer?",
        why,
        FORMULAS[kind],
        _paper(luong, "section 3.1", "appendix A.1.2"),
        (f"For {keys.labels[j]}:", table, said, "For every position:", keys.table({"e": scores})),
    )


def _through_tanh(asking: Asking, j: int, label: str) -> tuple[Table, str]:
    now, direction = asking.recomputed, asking.direction
    assert direction is not None
    squeezed = np.tanh(now.query + now.keys[j])
    tanh = tuple(written(math.tanh(a + b)) for a, b in zip(first(now.query), first(now.keys[j]), strict=True))
    products = tuple(written(t * v) for t, v in zip(tanh, first(direction), strict=True))
    begun, total = sum(products, Decimal(0)), written(float(now.scores[j]))
    rows = [
        vector("W s", now.query),
        vector(f"+ that of {label}", now.keys[j]),
        vector("tanh of the sum", squeezed, tanh),
        vector("· v", direction),
        vector("= product", squeezed * direction, products),
    ]
    left = len(direction) - len(products)
    rest = f", the other {left} to {total - begun:f}" if left else ""
    return vectors(rows), f"These {len(products)} products add up to {begun:f}{rest}: e = {total:f}."


def _undivided(asking: Asking, keys: Keys) -> Step:
    now = asking.recomputed
    width = now.keys.shape[1]
    if asking.direction is None:
        why = (
            "Luong's dot products go to the softmax as they are; the Transformer's authors divide theirs by √d_k, "
            "suspecting that long vectors make them too large."
        )
    else:
        why = "tanh and v keep these scores in bounds: it is dot products that grow with the length of the vectors."
    both = {"as they are": now.scores, f"over √{width} = {root(width)}": now.scores / math.sqrt(width)}
    said = "What the softmax would make of them. Entropy 0 is all weight on one position, 1 is all alike:"
    section = "Vaswani et al., 2017, section 3.2.1"
    return Step("Nothing is divided", why, "", section, (said, spread_table(both, keys.visible)))


def _mask(asking: Asking, luong: bool) -> tuple[str, str]:
    """Why it is as it is, and where that is described."""
    config = asking.model.config
    if config.locality == "global":
        section = _paper(luong, "section 3.1", "section 3.1")
        return "Every position of the source may be looked at; padding would be hidden, but there is none.", section
    where = f"position {asking.row}, as if both sides ran in step"
    if asking.predicted is not None:
        where = f"position {round(asking.predicted)}, which the state predicts"
    why = f"Attention is local: it sees {config.window} positions on either side of {where}."
    return why, f"{LUONG}, section 3.2"


def _near(asking: Asking, keys: Keys, board: Softmax) -> tuple[Step, tuple[Decimal, ...]]:
    assert asking.predicted is not None
    centre, window = written(asking.predicted), asking.model.config.window
    bell = tuple(written((-2 * (j - centre) ** 2 / window**2).exp()) for j in range(len(keys.labels)))
    weights = tuple(written(weight * near) for weight, near in zip(board.weights, bell, strict=True))
    own = asking.seen.weights[0].tolist()
    rows = tuple(
        Row(label, (board.weights[j], bell[j], weights[j], written(own[j])), bar=own[j], mark=keys.mark(j))
        for j, label in enumerate(keys.labels)
    )
    table = Table(("softmax", "bell", "weight", "model"), rows, keys=True)
    step = Step(
        "What is near counts more",
        "The state predicts where to look, and a bell around that place is laid over the weights; they are not divided "
        "by their sum again.",
        "w_j = softmax_j · exp(-2 (j - p)^2 / D^2)",
        f"{LUONG}, section 3.2",
        (f"It predicts p = {centre:f}; the window reaches D = {window} positions to either side.", table),
    )
    return step, weights


def _mix(asking: Asking, keys: Keys, weights: tuple[Decimal, ...], luong: bool) -> Step:
    words = Step(
        "The source, mixed",
        "Each position gives what the encoder held there, as much of it as its weight says; the sum is the context.",
        "c = Σ_j w_j h_j",
        _paper(luong, "section 3.1", "section 3.1"),
        ("The weight of each position, and that times its h:",),
    )
    return mix_step(words, weights, asking.source, asking.found, keys)


def _next(asking: Asking, luong: bool) -> Step:
    if not luong:
        rows = [vector("s before", asking.state), vector("c", asking.found), vector("s after", asking.leaving)]
        return Step(
            "What happens next",
            "The context enters the cell together with the word that was written last, and the new state, with both, "
            "chooses the next one.",
            "s_i = f(s_{i-1}, y_{i-1}, c_i)",
            f"{BAHDANAU}, section 3.1",
            (vectors(rows),),
        )
    decoder = asking.model.decoder
    assert isinstance(decoder, Luong)
    both, weight = np.concatenate([asking.found, asking.state]), array(decoder.combine.weight)
    table, said = dot_product(("[c; s]", "W_c, row 0", "the first number"), both, weight[0])
    summed = weight @ both
    tanh = tuple(written(math.tanh(number)) for number in first(summed))
    rows = [vector("W_c [c; s]", summed), vector("tanh of it", asking.leaving, tanh)]
    fed = " It enters the next step, too (input feeding)." if asking.model.config.input_feeding else ""
    return Step(
        "What happens next",
        "Context and state become one vector, from which the next word is chosen.",
        "h̃ = tanh(W_c [c; s])",
        f"{LUONG}, section 3.1",
        (table, said, vectors(rows), f"This vector is compared with every word of the vocabulary.{fed}"),
    )
