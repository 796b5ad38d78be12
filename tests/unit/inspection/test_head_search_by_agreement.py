"""The two directions side by side: planted heads that agree are found without any gold."""

import numpy as np
import pytest

from dragoman.alignment.links import swap
from dragoman.alignment.tokens import Tokens
from dragoman.inspection.head_search import head_links, rank_agreement
from dragoman.inspection.trace import Trace

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
    found = rank_agreement(*both())
    forward, backward, share = next(pair for pair in found if None not in (pair.forward.head, pair.backward.head))
    assert (forward.head, forward.rows) == (2, "read")
    assert (backward.head, backward.rows) == (1, "written")
    # Word c points at one of z and w only: five links of six are in both.
    assert share == pytest.approx(5 / 6)


def test_every_share_is_intersection_over_union_of_plain_links() -> None:
    there, back = both(plant=False)
    found = rank_agreement(there, back)
    assert len(found) == (2 * 4) * (2 * 3)
    assert [pair.share for pair in found] == sorted((pair.share for pair in found), reverse=True)
    for forward, backward, share in found:
        pairs = [(head_links(a, forward), swap(head_links(b, backward))) for a, b in zip(there, back, strict=True)]
        shared, either = sum(len(a & b) for a, b in pairs), sum(len(a | b) for a, b in pairs)
        assert share == pytest.approx(shared / either)


def test_other_texts_or_none_are_refused() -> None:
    there, back = both()
    with pytest.raises(ValueError, match=r"pair 1 differs \('a b c', 'd e'\)"):
        rank_agreement(there, back[::-1])
    with pytest.raises(ValueError, match="there are 1 backward traces but more forward traces"):
        rank_agreement(there, back[:1])
    with pytest.raises(ValueError, match="no traces to compare"):
        rank_agreement([], [])
