"""The contracts of a trace, for any model of every family: to look changes nothing, and what is seen is what was done.

Each property is a function of a model and a case. With a mask broken on purpose the same functions must fail.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from dragoman.attention import mask
from dragoman.attention.tap import Sight, Tap
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.scoring import score
from dragoman.decoding.search import beam_search
from dragoman.inspection.capture import Captured, capture
from dragoman.inspection.trace import pack_weights, unpack_weights
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS

BOUND = {torch.float64: 1e-10, torch.float32: 1e-5}
CASES = settings(max_examples=4, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
"""4 for each of 5 properties of 8 families."""

OPTIONS = SearchOptions(beam_size=3, min_length=5, max_length=LengthLimit(ratio=1.0, extra=5))
"""Random models tend to say nothing at all, of which little can be wrong."""

Family = Callable[..., Seq2Seq]
Property = Callable[[Seq2Seq, "Case"], None]


@dataclass(frozen=True)
class Case:
    seed: int
    dtype: torch.dtype
    source: list[int]
    target: list[int]

    @property
    def bound(self) -> float:
        return BOUND[self.dtype]


tokens = st.lists(st.integers(4, 8), min_size=1, max_size=7).map(lambda ids: [*ids, EOS])
cases = st.builds(Case, st.integers(0, 3), st.sampled_from(list(BOUND)), tokens, tokens)


def captured_is_the_fast_path(model: Seq2Seq, case: Case) -> None:
    """What beam search found on its way, with its cache and without a tap, is what the capture says of its output."""
    best = beam_search(model, torch.tensor([case.source]), OPTIONS)[0].best
    seen = capture(model, case.source, [*best.tokens, EOS])
    np.testing.assert_allclose(seen.log_probabilities, best.log_probabilities, rtol=0, atol=case.bound)


def captured_is_scoring(model: Seq2Seq, case: Case) -> None:
    seen = capture(model, case.source, case.target, alternatives=4)
    plain = score(model, torch.tensor([case.source]), torch.tensor([case.target]))[0]
    np.testing.assert_allclose(seen.log_probabilities, plain.numpy(), rtol=0, atol=case.bound)
    assert (seen.alternative_log_probabilities[:, 0] >= seen.log_probabilities).all()
    assert (np.diff(seen.alternative_log_probabilities) <= 0.0).all()


def rows_sum_to_one_over_visible_keys(model: Seq2Seq, case: Case) -> None:
    visible: dict[str, list[Tensor]] = {}

    def look(sight: Sight) -> None:
        seen = torch.ones_like(sight.weights) if sight.visible is None else sight.visible.expand_as(sight.weights)
        visible.setdefault(sight.name, []).append(seen[0].bool())

    with Tap(model, edit=look):
        seen = capture(model, case.source, case.target)
    for name, weights in seen.attention.items():
        may = torch.cat(visible[name], dim=1).numpy()
        assert may.shape == weights.shape
        assert (weights[~may] == 0.0).all()
        sums = weights.sum(axis=-1)
        if getattr(model.get_submodule("decoder"), "centre", None) is not None:
            assert (sums <= 1.0 + case.bound).all()  # local-p re-weights, and does not normalise again
        else:
            np.testing.assert_allclose(sums, may.any(axis=-1), rtol=0, atol=case.bound)
        if name.startswith("decoder.") and name.endswith("self_attention"):
            assert (weights[:, ~np.tri(len(case.target), dtype=bool)] == 0.0).all()
    assert all((seen.norms[name] >= 0.0).all() for name in seen.attention)


def cached_is_forced(model: Seq2Seq, case: Case) -> None:
    """Every step with the cache looks and speaks as the forced pass does."""
    stepped, said = stepwise(model, case)
    seen = capture(model, case.source, case.target)
    np.testing.assert_allclose(seen.log_probabilities, said, rtol=0, atol=case.bound)
    assert set(stepped) == set(seen.attention)
    for name in stepped:
        np.testing.assert_allclose(seen.attention[name], stepped[name], rtol=0, atol=case.bound, err_msg=name)


def stepwise(model: Seq2Seq, case: Case) -> tuple[dict[str, np.ndarray], list[float]]:
    said: list[float] = []
    with Tap(model) as tap, torch.no_grad():
        state = model.start(model.encode(torch.tensor([case.source])))
        for read, written in zip([BOS, *case.target[:-1]], case.target, strict=True):
            logits, state = model.step(torch.tensor([read]), state)
            said.append(logits[0].log_softmax(-1)[written].item())
    return {name: weights[0].numpy() for name, weights in tap.items()}, said


def to_look_changes_nothing(model: Seq2Seq, case: Case) -> None:
    source, read = torch.tensor([case.source]), torch.tensor([[BOS, *case.target[:-1]]])
    with torch.no_grad():
        before = model(source, read)
        first, second = (capture(model, case.source, case.target) for _ in range(2))
        assert torch.equal(model(source, read), before)
    assert same(first, second)


def same(first: Captured, second: Captured) -> bool:
    return all(np.array_equal(first.attention[name], second.attention[name]) for name in first.attention)


PROPERTIES: list[Property] = [
    captured_is_the_fast_path,
    captured_is_scoring,
    rows_sum_to_one_over_visible_keys,
    cached_is_forced,
    to_look_changes_nothing,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_of_every_family(family: Family, holds: Property) -> None:
    @CASES
    @given(case=cases)
    def check(case: Case) -> None:
        holds(family(case.seed, case.dtype), case)

    check()


CASE = Case(0, torch.float64, [5, 8, 4, EOS], [7, 6, 6, 5, EOS])


@pytest.mark.parametrize("name", ["transformer", "transformer-pre"])
@pytest.mark.parametrize("holds", [captured_is_the_fast_path, cached_is_forced], ids=lambda holds: holds.__name__)
def test_a_decoder_that_sees_ahead_would_be_found(
    make_model: Family, name: str, holds: Property, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mask, "causal", lambda n, device=None: torch.ones(n, n, dtype=torch.bool, device=device))
    with pytest.raises(AssertionError):
        holds(make_model(name, 0, torch.float64), CASE)


@pytest.mark.parametrize("name", ["transformer", "bahdanau", "concat"])
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_weights_that_are_not_shares_would_be_found(make_model: Family, name: str, factor: float) -> None:
    model = make_model(name, 0, torch.float64)
    with Tap(model, edit=lambda sight: sight.weights * factor), pytest.raises(AssertionError):
        rows_sum_to_one_over_visible_keys(model, CASE)


maps = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 40)),
    elements=st.one_of(st.just(0.0), st.floats(0.0, 1.0, width=32), st.sampled_from([0.25, 0.5, 1.0])),
)


@settings(max_examples=60, deadline=None, database=None)
@given(raw=maps)
def test_a_packed_map_keeps_zeros_sums_and_the_largest_weight(raw: np.ndarray) -> None:
    total = raw.astype(np.float64).sum(axis=-1, keepdims=True)
    weights = np.divide(raw, total, out=np.zeros(raw.shape), where=total > 0.0)
    back = unpack_weights(*pack_weights(weights))
    assert (back[weights == 0.0] == 0.0).all()
    assert (back.argmax(axis=-1) == weights.argmax(axis=-1)).all()
    np.testing.assert_allclose(back.sum(axis=-1), weights.sum(axis=-1), rtol=0, atol=1e-6)
    np.testing.assert_allclose(back, weights, rtol=0, atol=0.01)
