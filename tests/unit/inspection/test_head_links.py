"""Links from the heads of a trace whose words have several pieces, or none."""

import numpy as np
import pytest

from dragoman.alignment.tokens import Tokens
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection.head_search import head_links, links_of_heads
from dragoman.inspection.trace import Trace

LAYERS = ["decoder.layers.9.cross_attention", "decoder.layers.10.cross_attention"]


def tokens(text: str, words: tuple[int, ...]) -> Tokens:
    size = len(words)
    return Tokens(text, (5,) * size, ("x",) * size, ((0, 0),) * size, words)


SOURCE = tokens("a bc d", (0, 1, 1, -1))
"""Its last word has no piece."""
TARGET = tokens("uv w", (0, 0, 1, -1))


def trace(attention: dict[str, np.ndarray], norms: dict[str, np.ndarray]) -> Trace:
    steps = len(TARGET.ids)
    none = np.zeros((steps, 0))
    return Trace(SOURCE, TARGET, False, np.zeros(steps), none, none, attention, norms)


def example() -> Trace:
    heads = np.array(
        [
            [[0.5, 0.25, 0.25, 0.0], [0.75, 0.0, 0.25, 0.0], [0.25, 0.5, 0.25, 0.0], [0.25, 0.25, 0.25, 0.25]],
            [[0.0, 0.5, 0.5, 0.0], [0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.5]],
            [[0.0, 0.0, 0.0, 1.0], [0.0, 0.25, 0.0, 0.75], [0.0, 0.0, 0.0, 1.0], [0.25, 0.0, 0.0, 0.75]],
        ]
    )
    return trace({LAYERS[0]: heads, LAYERS[1]: heads[::-1]}, {LAYERS[1]: heads})


@pytest.mark.parametrize(
    ("head", "rows", "expected"),
    [
        (0, "written", {(0, 0), (1, 1)}),  # (.5 + .75) / 2 on a, though bc is even with it in the first step
        (0, "read", {(0, 0), (1, 1)}),  # (.75 + .25) / 2 on a, even with bc: the first; then .25 + .25 on bc
        (1, "written", {(1, 0), (0, 1)}),
        (2, "written", {(1, 0)}),  # all that w gave went to EOS
        (2, "read", {(1, 0), (0, 1)}),
        (None, "written", {(1, 0), (0, 1)}),  # a has 1.25 / 6 of each step, bc (.5 + 1 + .25 + 1 + .25) / 6
    ],
)
def test_pieces_are_merged_before_links_are_taken(head: int | None, rows: str, expected: set[tuple[int, int]]) -> None:
    chosen = AlignmentHead.model_validate({"layer": LAYERS[0], "head": head, "rows": rows})
    assert head_links(example(), chosen) == expected


def test_all_links_are_those_of_each_head_in_the_order_of_the_layers() -> None:
    heads, found = links_of_heads(example())
    assert list(dict.fromkeys((head.measure, head.layer) for head in heads)) == [
        ("attention", LAYERS[0]),
        ("attention", LAYERS[1]),
        ("norm", LAYERS[1]),
    ]
    assert found.shape == (3 * 2 * 4, 2, 3)
    for head, own in zip(heads, found, strict=True):
        assert {(int(a), int(b)) for b, a in np.argwhere(own)} == head_links(example(), head), head


def test_a_head_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="there is no head 3 in"):
        head_links(example(), AlignmentHead(layer=LAYERS[0], head=3))
    with pytest.raises(
        ValueError, match=rf"no attention map of 'decoder\.attention'.*choose a layer from {LAYERS[0]}, {LAYERS[1]}"
    ):
        head_links(example(), AlignmentHead(layer="decoder.attention", head=0))
    with pytest.raises(ValueError, match=rf"no norm map of '{LAYERS[0]}': choose a layer from {LAYERS[1]}"):
        head_links(example(), AlignmentHead(layer=LAYERS[0], head=0, measure="norm"))


def test_a_model_without_attention_cannot_align() -> None:
    with pytest.raises(ValueError, match="cannot align"):
        links_of_heads(trace({"decoder.layers.0.self_attention": np.ones((1, 4, 4))}, {}))
