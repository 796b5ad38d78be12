"""The search for the head that aligns: planted heads are found, and every cell is the plain score of its own links."""

import numpy as np
import pytest

from dragoman.alignment.error_rate import alignment_score
from dragoman.alignment.moses import read_gold
from dragoman.alignment.tokens import Tokens
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.inspection.head_search import head_links, score_heads
from dragoman.inspection.trace import Trace

LAYERS = ["decoder.layers.0.cross_attention", "decoder.layers.1.cross_attention"]
GOLD = list(read_gold(["1-2 2-1 3-3 3p4 4-5", "2-1 1-2 3-3 1p1"]))
SIZES = [(4, 5), (3, 3)]
"""Words of source and target."""


def tokens(num_words: int) -> Tokens:
    words = range(num_words)
    text = " ".join("w" * (i + 1) for i in words)
    pieces = tuple(f"▁{word}" for word in text.split())
    return Tokens(text, (*words, 9), (*pieces, "</s>"), ((0, 0),) * (num_words + 1), (*words, -1))


def trace(num_source: int, num_target: int, maps: dict[str, np.ndarray], norms: dict[str, np.ndarray]) -> Trace:
    steps = num_target + 1
    none = np.zeros((steps, 0))
    return Trace(tokens(num_source), tokens(num_target), False, np.zeros(steps), none, none, maps, norms)


def random_traces(num_heads: int = 3, *, norms: bool = True) -> list[Trace]:
    generator = np.random.default_rng(5)
    made = []
    for num_source, num_target in SIZES:
        size = (num_heads, num_target + 1)
        drawn = [{name: generator.dirichlet(np.ones(num_source + 1), size) for name in LAYERS} for _ in range(2)]
        drawn[0] |= {"decoder.layers.0.self_attention": np.ones((num_heads, num_target + 1, num_target + 1))}
        made.append(trace(num_source, num_target, drawn[0], drawn[1] if norms else {}))
    return made


def plant(traces: list[Trace], layer: str, head: int, *, shift: int, norms: bool = False) -> None:
    """Makes one head point at the sure links, from the rows that many steps later."""
    for trace, gold in zip(traces, GOLD, strict=True):
        weights = (trace.norms if norms else trace.attention)[layer]
        weights[head] = 0.01
        for source, target in gold.sure:
            weights[head, target + shift, source] = 5.0


def test_every_cell_is_the_plain_score_of_its_own_links() -> None:
    traces = random_traces()
    found = score_heads(traces, GOLD)
    assert len(found.scores) == 2 * 2 * 2 * 4  # measures, layers, conventions, heads and their mean
    for head, score in found.scores.items():
        plain = alignment_score([head_links(one, head) for one in traces], GOLD)
        assert score.counts.tolist() == plain.counts.tolist(), head


@pytest.mark.parametrize(("rows", "shift"), [("written", 0), ("read", 1)])
@pytest.mark.parametrize("norms", [False, True])
def test_the_planted_head_wins_under_its_own_convention_and_measure(rows: str, shift: int, norms: bool) -> None:
    traces = random_traces()
    plant(traces, LAYERS[1], 2, shift=shift, norms=norms)
    found = score_heads(traces, GOLD)
    best = next(head for head, _ in found.ranked() if head.head is not None)
    assert best.model_dump() == {
        "layer": LAYERS[1],
        "head": 2,
        "rows": rows,
        "measure": "norm" if norms else "attention",
    }
    # All seven sure links, and one for the fourth target word, which has none: the first source word, a wrong one.
    assert found.scores[best].aer == pytest.approx(1 - (7 + 7) / (8 + 7))


def test_the_mean_of_heads_is_ranked_too() -> None:
    traces = random_traces()
    for head in range(3):
        plant(traces, LAYERS[0], head, shift=0)
        for trace in traces:  # each head has a fault of its own, which the others outvote
            trace.attention[LAYERS[0]][head, head % 2] = 0.0
    ranking = score_heads(traces, GOLD).ranked()
    assert ranking[0][0].head is None
    assert [score.aer for _, score in ranking] == sorted(score.aer for _, score in ranking)


def test_a_panel_has_the_layers_as_rows_and_the_mean_as_its_last_column() -> None:
    found = score_heads(random_traces(), GOLD)
    layers, rates = found.panel("read", "norm")
    assert layers == LAYERS
    assert rates.shape == (2, 4)
    for i, layer in enumerate(LAYERS):
        for j, head in enumerate([0, 1, 2, None]):
            key = AlignmentHead(layer=layer, head=head, rows="read", measure="norm")
            assert rates[i, j] == found.scores[key].aer


def test_one_head_has_no_mean_and_a_trace_without_norms_no_such_cells() -> None:
    found = score_heads(random_traces(1, norms=False), GOLD)
    assert {head.measure for head in found.scores} == {"attention"}
    assert {head.head for head in found.scores} == {0}
    assert np.isnan(found.panel("written", "attention")[1][:, 1]).all()


def test_gold_of_other_length_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 1 gold lines but more traces"):
        score_heads(random_traces(), GOLD[:1])
    with pytest.raises(ValueError, match="no traces to search"):
        score_heads([], [])


def test_traces_of_two_models_are_refused() -> None:
    with pytest.raises(ValueError, match="trace 2 and trace 1 have different"):
        score_heads([random_traces()[0], random_traces(2)[1]], GOLD)
