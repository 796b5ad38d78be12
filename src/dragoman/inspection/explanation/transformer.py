"""One head of a Transformer for one position, step by step as on a blackboard (sections 3.1 to 3.5)."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import numpy as np

from dragoman.inspection.explanation.board import (
    Row,
    Step,
    Table,
    dot_product,
    first,
    norm,
    root,
    vector,
    vectors,
    written,
)
from dragoman.inspection.explanation.entrance import entrance, normed
from dragoman.inspection.explanation.head import Head
from dragoman.inspection.explanation.look import array
from dragoman.inspection.explanation.weights import (
    Keys,
    all_written,
    mask_step,
    mix_step,
    softmax_step,
    spread_table,
)
from dragoman.inspection.trace import Kind

ANSWERS: Final[dict[Kind, str]] = {
    "encoder": "every position of the source answers with its key",
    "decoder": "every position of the target answers with its key",
    "cross": "every position of the encoder's output answers with its key",
}
MASKS: Final[dict[Kind, str]] = {
    "encoder": "Every position of the source may look at every other; only padding would be hidden, and a sentence "
    "that comes alone has none.",
    "decoder": "A position may look at itself and at what came before it: what comes after is not yet written when "
    "the model translates, and in training it would give the answer away.",
    "cross": "Every position of the target may look at the whole source, which is there from the beginning.",
}


def transformer_steps(head: Head, keys: Keys, token: int, said: str) -> Iterator[Step]:
    """From the token's id to what the head adds to its position, and what comes next."""
    before = entrance(head, token, said)
    yield from before.steps
    yield _projections(head, keys, before.entering)
    now = head.recomputed
    scores = all_written(now.keys @ now.query)
    yield _scores(head, keys, scores)
    divisor = root(len(now.query))
    scaled = tuple(written(score / divisor) for score in scores)
    yield _division(head, keys, scores, scaled)
    yield mask_step(scaled, keys, MASKS[head.place.kind], "section 3.2.3")
    step, board = softmax_step(scaled, keys, "section 3.2.1", head.seen.weights[head.number])
    yield step
    yield _mix(head, keys, board.weights)
    yield _output(head)
    yield _next(head, before.stream)


def _projections(head: Head, keys: Keys, entering: tuple[Decimal, ...]) -> Step:
    now, num_heads = head.recomputed, head.attention.num_heads
    x = "x" if head.residual.place == "post" else "y"
    m = "m" if head.place.kind == "cross" else x
    weight, bias = head.columns("query")
    names = (x, "W^Q, column 0", "q[0]")
    table, said = dot_product(names, head.entering, weight[0], float(bias[0]) if head.biased else None, entering)
    q, k, v = (f"W^{part} + b^{part}" if head.biased else f"W^{part}" for part in "QKV")
    d_k, d_v = len(now.query), now.values.shape[1]
    mine = f"This head has {d_k} of the {d_k * num_heads} columns of W^Q"
    rest = ", W^K and W^V" if d_v == d_k else f" and W^K, and {d_v} of the {d_v * num_heads} of W^V"
    return Step(
        "Query, key and value",
        f"The position asks with its query, {ANSWERS[head.place.kind]} and has its value to give: three views of the "
        "vectors, through three matrices that were learned.",
        f"q = {x} {q},  k_j = {m}_j {k},  v_j = {m}_j {v}",
        "section 3.2.2",
        (
            f"{mine}{rest}. How q begins:",
            table,
            said,
            "The query, and then the key of every position:",
            vectors([vector("q", now.query)]),
            keys.vectors(now.keys),
            "And the value of every position:",
            keys.vectors(now.values),
        ),
    )


def _scores(head: Head, keys: Keys, scores: tuple[Decimal, ...]) -> Step:
    now = head.recomputed
    j = int(np.argmax(head.seen.weights[head.number]))
    table, said = dot_product(("q", f"k of {keys.labels[j]}", "q · k"), now.query, now.keys[j])
    return Step(
        "How well does each key answer?",
        "A dot product is large where query and key point the same way, and below zero where they point apart.",
        "q · k_j",
        "section 3.2.1",
        (f"For {keys.labels[j]}:", table, said, "For every key:", keys.table({"q · k": scores})),
    )


def _division(head: Head, keys: Keys, scores: tuple[Decimal, ...], scaled: tuple[Decimal, ...]) -> Step:
    now = head.recomputed
    d_k, divisor = len(now.query), root(len(now.query))
    both = {"divided": now.scores, "not divided": now.scores * math.sqrt(d_k)}
    return Step(
        f"Divided by √d_k = √{d_k} = {divisor}",
        "The more products a score adds up, the larger it can get, and large scores drive the softmax to where it puts "
        "everything on one key and hardly learns any more.",
        "s_j = q · k_j / √d_k",
        "section 3.2.1",
        (
            keys.table({"q · k": scores, f"/ {divisor} = s": scaled}),
            "What the softmax would make of them. Entropy 0 is all weight on one key, 1 is all keys alike:",
            spread_table(both, keys.visible),
        ),
    )


def _mix(head: Head, keys: Keys, weights: tuple[Decimal, ...]) -> Step:
    words = Step(
        "The values, mixed",
        "Each position gives its value, as much of it as its weight says; the sum is what this head has found.",
        "head = Σ_j w_j v_j",
        "section 3.2.1",
        ("The weight of each key, and that times its value:",),
    )
    return mix_step(words, weights, head.recomputed.values, head.found, keys)


def _output(head: Head) -> Step:
    found, mine = head.found, head.added[head.number]
    names = ("head", "W^O, column 0", "the first number")
    table, said = dot_product(names, found, head.rows_of_output[0, head.number])
    lengths = {f"head {i}": head.added[i] for i in range(len(head.added))}
    if head.biased:
        lengths["the bias"] = array(head.attention.output.bias)
    lengths["x, going around"] = head.stream
    longest = max(float(np.linalg.norm(numbers)) for numbers in lengths.values())
    rows = tuple(
        Row(
            label,
            (norm(numbers),),
            bar=float(np.linalg.norm(numbers)) / longest,
            mark="explained" if label == f"head {head.number}" else "",
        )
        for label, numbers in lengths.items()
    )
    return Step(
        "What this head adds to the position",
        f"Its {len(found)} numbers become {len(mine)} again, through its own rows of W^O, so that they can be added to "
        "the position; the other heads do the same with what they have found.",
        "MultiHead = Concat(head_1, …, head_h) W^O",
        "section 3.2.2",
        (
            table,
            said,
            vectors([vector(f"head {head.number} adds", mine)]),
            "How long that vector is beside the others. Long does not mean important:",
            Table(("length",), rows),
        ),
    )


def _next(head: Head, stream: tuple[Decimal, ...]) -> Step:
    x, output = head.stream, head.output
    total = tuple(a + b for a, b in zip(stream, first(output), strict=True))
    rows = [vector("x", x, stream), vector("+ all heads", output), vector("= the sum", x + output, total)]
    after = "the attention over the source" if head.place.kind == "decoder" else "the feed-forward layer"
    why = "The position keeps what it had, and what all heads have found is added to it"
    if head.residual.place == "pre":
        said = f"This goes on as it is; {after} reads it next, normalised again."
        return Step("What happens next", f"{why}.", "x + Sublayer(LayerNorm(x))", "section 3.1", (vectors(rows), said))
    table, said, _ = normed("the sum", total, x + output, head.leaving, head.residual.norm)
    return Step(
        "What happens next",
        f"{why}; then the sum is brought to one size.",
        "LayerNorm(x + Sublayer(x))",
        "section 3.1",
        (vectors(rows), said, table, f"{after.capitalize()} reads it next."),
    )
