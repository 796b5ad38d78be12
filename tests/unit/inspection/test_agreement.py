"""The two directions side by side: planted heads that agree are found without any gold."""

import numpy as np
import pytest

from dragoman.data.alignment import swap
from dragoman.inspection.agreement import agreement
from dragoman.inspection.alignment_heads import head_links
from dragoman.inspection.trace import Tokens, Trace

LAYER = "decoder.attention"
PAIRS = [("a b c", "x y z w"), ("d e", "u v")]
LINKS = [{(0, 1), (1, 0), (2, 2), (2, 3)}, {(0, 1), (1, 0)}]


def tokens(text: str) -> Tokens:
    words = tuple(range(len(text.split())))
    return Tokens(text, (*words, 9), (*text.split(), "</s>"), ((0, 0),) * (len(words) + 1), (*words, -1))


def traces(pairs: list[tuple[str, str]], num_heads: int, seed: int) -> list[Trace]:
    generator = np.random.default_rng(seed)
    made = []
    for source, target in (map(tokens, pair) for pair in pairs):
        steps = len(target.ids)
        weights = generator.dirichlet(np.ones(len(source.ids)), (num_heads, steps))
        none = np.zeros((steps, 0))
        made.append(Trace(source, target, False, np.zeros(steps), none, none, {LAYER: weights}))
    return made


def both(plant: bool = True) -> tuple[list[Trace], list[Trace]]:
    there, back = traces(PAIRS, 3, 1), traces([(b, a) for a, b in PAIRS], 2, 2)
    for forward, backward, links in zip(there, back, LINKS, strict=True):
        for source, target in links if plant else ():
            forward.attention[LAYER][2, target + 1, source] = 9.0  # read
            backward.attention[LAYER][1, source, target] = 9.0  # written
    return there, back


def test_the_pair_of_heads_that_agrees_most_is_found() -> None:
    found = agreement(*both())
    forward, backward = found.best(single=True)
    assert (forward.head, forward.rows) == (2, "read")
    assert (backward.head, backward.rows) == (1, "written")
    # Word c points at one of z and w only: five links of six are in both.
    assert found.shares[found.forward.index(forward), found.backward.index(backward)] == pytest.approx(5 / 6)


def test_every_share_is_intersection_over_union_of_plain_links() -> None:
    there, back = both(plant=False)
    found = agreement(there, back)
    assert found.shares.shape == (2 * 4, 2 * 3)
    for i, one in enumerate(found.forward):
        for j, other in enumerate(found.backward):
            pairs = [(head_links(a, one), swap(head_links(b, other))) for a, b in zip(there, back, strict=True)]
            shared, either = sum(len(a & b) for a, b in pairs), sum(len(a | b) for a, b in pairs)
            assert found.shares[i, j] == pytest.approx(shared / either)


def test_other_texts_or_none_are_refused() -> None:
    there, back = both()
    with pytest.raises(ValueError, match="pair 1 is not the same both ways: 'a b c' and 'd e'"):
        agreement(there, back[::-1])
    with pytest.raises(ValueError, match="there are 1 backward traces but more forward traces"):
        agreement(there, back[:1])
    with pytest.raises(ValueError, match="no traces to compare"):
        agreement([], [])
