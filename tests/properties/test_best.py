"""Beam search against brute force, where every target can be written down; and stopping safely against not stopping."""

import itertools
import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.scoring import score
from dragoman.decoding.search import beam_search
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import EOS, PAD, UNK

VOCABULARY = 6
LONGEST = 4
"""Three tokens that can be written and the EOS, in at most four places: 1 + 3 + 9 + 27 = 40 targets."""
WIDE = 40
"""No step has more extensions than 9 * 4, so such a beam drops nothing."""

PENALTIES = [
    Penalty(formula="none"),
    *(Penalty(formula="gnmt", alpha=alpha) for alpha in (-1.3, 0.6, 2.0)),
    *(Penalty(formula="length", alpha=alpha) for alpha in (-0.5, 0.6, 1.0, 1.5)),
]

Family = Callable[..., Seq2Seq]


def every_target(shortest: int = 1, prefix: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    written = range(UNK, VOCABULARY)
    targets = (target for n in range(LONGEST) for target in itertools.product(written, repeat=n))
    return [target for target in targets if len(target) + 1 >= shortest and target[: len(prefix)] == prefix]


def by_brute_force(
    model: Seq2Seq, source: torch.Tensor, penalty: Penalty, targets: list[tuple[int, ...]]
) -> list[tuple[float, tuple[int, ...]]]:
    """All targets with their scores, best first."""
    rows = torch.tensor([[*target, EOS] + [PAD] * (LONGEST - 1 - len(target)) for target in targets])
    totals = score(model, source.expand(len(targets), -1), rows).sum(dim=1).tolist()
    scores = [penalty.score(total, len(target) + 1) for total, target in zip(totals, targets, strict=True)]
    return sorted(zip(scores, targets, strict=True), reverse=True)


def sources(lots: random.Random, num: int) -> torch.Tensor:
    return torch.tensor([[*(lots.randint(UNK, 10) for _ in range(4)), EOS] for _ in range(num)])


@pytest.mark.parametrize("seed", range(25))
def test_a_wide_beam_finds_all_targets_in_their_exact_order(family: Family, seed: int) -> None:
    """25 models of each of 8 families. A beam that drops nothing must rank as brute force ranks."""
    lots = random.Random(seed)
    model, penalty = family(1000 + seed, vocabulary=VOCABULARY), PENALTIES[seed % len(PENALTIES)]
    shortest, prefix = lots.choice([(1, ()), (1, (4,)), (3, ())])
    source = sources(lots, 1)
    truth = by_brute_force(model, source, penalty, every_target(shortest, prefix))
    options = SearchOptions(
        beam_size=WIDE,
        num_best=lots.choice([1, 5, WIDE]),
        penalty=penalty,
        max_length=LengthLimit(ratio=0.0, extra=LONGEST),
        min_length=shortest,
        stop=lots.choice(["safe", "never"]),
    )
    found = beam_search(model, source, options, [prefix])[0].hypotheses
    assert len(found) == min(options.num_best, len(truth))
    for hypothesis, (best_score, target) in zip(found, truth, strict=False):
        assert hypothesis.tokens == target
        assert abs(hypothesis.score - best_score) <= 1e-10


def safe_is_never(model: Seq2Seq, source: torch.Tensor, options: SearchOptions) -> int:
    """Gives how many steps were saved, so that it can be seen that it did stop."""
    early, late = (
        beam_search(model, source, options.model_copy(update={"stop": stop}), keep_history=True)
        for stop in ("safe", "never")
    )
    for safe, never in zip(early, late, strict=True):
        assert [h.tokens for h in safe.hypotheses] == [h.tokens for h in never.hypotheses]
        assert [h.score for h in safe.hypotheses] == pytest.approx(
            [h.score for h in never.hypotheses], abs=1e-10, rel=0
        )
    return sum(len(never.history) - len(safe.history) for safe, never in zip(early, late, strict=True))


@st.composite
def narrow(draw: st.DrawFn) -> SearchOptions:
    beam_size = draw(st.integers(1, 4))
    return SearchOptions(
        beam_size=beam_size,
        num_best=draw(st.integers(1, beam_size)),
        penalty=draw(st.sampled_from(PENALTIES)),
        max_length=LengthLimit(ratio=0.0, extra=draw(st.integers(2, 8))),
        min_length=draw(st.integers(1, 3)),
    )


@settings(max_examples=26, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 9), order=st.randoms(use_true_random=False), options=narrow())
def test_stopping_safely_gives_what_never_stopping_gives(
    family: Family, seed: int, order: random.Random, options: SearchOptions
) -> None:
    """26 cases of each of 8 families, two sources each."""
    safe_is_never(family(seed), sources(order, 2), options)


def test_a_bound_that_forgets_the_length_limit_is_noticed(make_model: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a live hypothesis judged by the length it has now, searches would stop too soon."""
    long = Penalty(formula="length", alpha=1.5)
    options = SearchOptions(beam_size=2, num_best=1, penalty=long, max_length=LengthLimit(ratio=0.0, extra=8))
    models, source = [make_model("bahdanau", seed) for seed in range(4)], sources(random.Random(0), 5)
    assert sum(safe_is_never(model, source, options) for model in models) > 0
    monkeypatch.setattr(
        Penalty, "best_future_score", lambda self, total, shortest, longest: self.score(total, shortest)
    )
    with pytest.raises(AssertionError):
        _ = [safe_is_never(model, source, options) for model in models]
