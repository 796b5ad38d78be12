"""What must hold of search, sampling and scoring for any model: of every family, in float64 and in float32.

Each property is a function of a model and a case. Hypothesis draws the cases; and with a mask broken on purpose the
same functions must fail, or they would prove nothing.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from dragoman.attention import mask
from dragoman.attention.attend import Attend
from dragoman.decoding.hypothesis import Candidate, Hypothesis, Result
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.sampling import sample, temperature, top_k, top_p
from dragoman.decoding.scoring import score
from dragoman.decoding.search import beam_search, greedy_search
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS, PAD, UNK

BOUND = {torch.float64: 1e-10, torch.float32: 1e-5}
CASES = settings(max_examples=6, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
"""6 for each of 11 properties of 12 families: 792 in all."""

Family = Callable[..., Seq2Seq]
Property = Callable[[Seq2Seq, "Case"], None]


@contextmanager
def shapes_checked() -> Iterator[None]:
    jaxtyping.config.update("jaxtyping_disable", False)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", True)


@dataclass(frozen=True)
class Case:
    seed: int
    dtype: torch.dtype
    sources: list[list[int]]
    prefixes: list[list[int]]
    options: SearchOptions

    @property
    def bound(self) -> float:
        return BOUND[self.dtype]

    @property
    def source(self) -> Tensor:
        return padded([[*row, EOS] for row in self.sources])


def padded(rows: list[list[int]], width: int = 0) -> Tensor:
    width = max(width, *map(len, rows)) if rows else width
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


penalties = st.builds(
    Penalty, formula=st.sampled_from(["gnmt", "length", "none"]), alpha=st.sampled_from([-0.5, 0.0, 0.6, 1.0, 1.7])
)


@st.composite
def options(draw: st.DrawFn) -> SearchOptions:
    beam_size = draw(st.integers(1, 4))
    return SearchOptions(
        beam_size=beam_size,
        num_best=draw(st.integers(1, beam_size)),
        penalty=draw(penalties),
        max_length=LengthLimit(ratio=draw(st.sampled_from([0.0, 0.5, 1.0])), extra=draw(st.integers(0, 4))),
        min_length=draw(st.integers(1, 4)),
        stop=draw(st.sampled_from(["safe", "count", "never"])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    num_sources = draw(st.integers(2, 3))
    tokens, num = st.integers(UNK, 8), {"min_size": num_sources, "max_size": num_sources}
    return Case(
        seed=draw(st.integers(0, 9)),
        dtype=draw(st.sampled_from([torch.float64, torch.float32])),
        sources=draw(st.lists(st.lists(st.integers(UNK, 10), max_size=6), **num)),
        prefixes=draw(st.lists(st.just([]) | st.lists(tokens, max_size=3), **num)),
        options=draw(options()),
    )


def search(model: Seq2Seq, case: Case) -> list[Result]:
    return beam_search(model, case.source, case.options, case.prefixes, keep_history=True)


def decided(result: Result, bound: float) -> bool:
    """Whether rounding cannot have turned the search: no two neighbouring candidates of any step nearly tie."""
    totals = [[candidate.log_probability for candidate in step] for step in result.history]
    return all(better - worse > 2 * bound for step in totals for better, worse in pairwise(step))


def apart(scores: list[float], bound: float) -> list[bool]:
    """Which hypotheses nearly tie with no other. In float32, the rival of the last may not be in the list."""
    gaps = [math.inf, *(a - b for a, b in pairwise(scores)), math.inf if bound < 1e-9 else 0.0]
    return [min(above, below) > 2 * bound for above, below in pairwise(gaps)]


def assert_close(one: Hypothesis, other: Hypothesis, bound: float) -> None:
    assert one.tokens == other.tokens
    assert one.cut == other.cut
    assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=bound, rel=0)
    assert abs(one.score - other.score) <= bound


def assert_same(one: Result, other: Result, bound: float) -> None:
    """The same hypotheses; those that nearly tie may stand in another order."""
    if not decided(one, bound):
        return
    scores = [hypothesis.score for hypothesis in one.hypotheses]
    assert scores == pytest.approx([hypothesis.score for hypothesis in other.hypotheses], abs=bound, rel=0)
    for mine, yours, clear in zip(one.hypotheses, other.hypotheses, apart(scores, bound), strict=True):
        if clear:
            assert_close(mine, yours, bound)


def does_not_depend_on_company(model: Seq2Seq, case: Case) -> None:
    together = search(model, case)
    for i, result in enumerate(together):
        alone = replace(case, sources=case.sources[i : i + 1], prefixes=case.prefixes[i : i + 1])
        assert_same(result, search(model, alone)[0], case.bound)


def does_not_depend_on_padding(model: Seq2Seq, case: Case) -> None:
    wide = F.pad(case.source, (0, 1 + case.seed), value=PAD)
    results = beam_search(model, wide, case.options, case.prefixes)
    for narrow, padded_more in zip(search(model, case), results, strict=True):
        assert_same(narrow, padded_more, case.bound)


def does_not_depend_on_the_order_of_rows(model: Seq2Seq, case: Case) -> None:
    turned = replace(case, sources=case.sources[::-1], prefixes=case.prefixes[::-1])
    for result, mirrored in zip(search(model, case), reversed(search(model, turned)), strict=True):
        assert_same(result, mirrored, case.bound)


@torch.no_grad()
def steps_are_the_whole(model: Seq2Seq, case: Case, num_steps: int = 5) -> None:
    """Step by step, with rows reordered, repeated and dropped on the way, as beams do."""
    lots = torch.Generator().manual_seed(case.seed)
    owner = torch.arange(len(case.sources))
    written = torch.full((len(owner), 1), BOS)
    seen = torch.zeros(len(owner), 0, model.vocabulary, dtype=case.dtype)
    state = model.start(model.encode(case.source))
    for step in range(num_steps):
        logits, state = model.step(written[:, -1], state)
        seen = torch.cat([seen, logits[:, None]], dim=1)
        rows = torch.randint(len(owner), (len(owner) + step % 2,), generator=lots)
        state, owner, written, seen = state.select(rows), owner[rows], written[rows], seen[rows]
        written = torch.cat([written, torch.randint(EOS, 9, (len(rows), 1), generator=lots)], dim=1)
    whole = model(case.source[owner], written[:, :-1])
    assert (whole.log_softmax(-1) - seen.log_softmax(-1)).abs().max() <= case.bound


def a_beam_of_one_is_greedy(model: Seq2Seq, case: Case) -> None:
    """When it stops at its first end; or where nothing that follows an end can win, that is without a penalty."""
    penalty = case.options.penalty if case.options.stop == "count" else Penalty(formula="none")
    options = case.options.model_copy(update={"beam_size": 1, "num_best": 1, "penalty": penalty})
    greedy = greedy_search(model, case.source, options, case.prefixes)
    for result, hypothesis in zip(search(model, replace(case, options=options)), greedy, strict=True):
        if decided(result, case.bound):
            assert_close(result.best, hypothesis, case.bound)


def forced(model: Seq2Seq, row: list[int], hypothesis: Hypothesis) -> list[float]:
    scores: list[float] = score(model, padded([[*row, EOS]]), padded([[*hypothesis.tokens, EOS]]))[0].tolist()
    return scores


def scores_are_forced_scores(model: Seq2Seq, case: Case) -> None:
    for row, result in zip(case.sources, search(model, case), strict=True):
        for hypothesis in result.hypotheses:
            truth = forced(model, row, hypothesis)
            assert hypothesis.log_probabilities == pytest.approx(truth, abs=case.bound, rel=0)
            length = len(hypothesis.tokens) + 1
            assert abs(hypothesis.score - case.options.penalty.score(sum(truth), length)) <= case.bound


def the_best_are_sorted_and_distinct(model: Seq2Seq, case: Case) -> None:
    for result in search(model, case):
        scores = [hypothesis.score for hypothesis in result.hypotheses]
        assert 1 <= len(scores) <= case.options.num_best
        assert scores == sorted(scores, reverse=True)
        assert result.best == result.hypotheses[0]
        assert len({hypothesis.tokens for hypothesis in result.hypotheses}) == len(scores)


def outputs_keep_to_their_limits(model: Seq2Seq, case: Case) -> None:
    for row, prefix, result in zip(case.sources, case.prefixes, search(model, case), strict=True):
        limit = case.options.max_length
        longest = max(math.floor(limit.ratio * (len(row) + 1)) + limit.extra, len(prefix) + 1)
        for hypothesis in result.hypotheses:
            length = len(hypothesis.tokens) + 1
            assert min(case.options.min_length, longest) <= length <= longest
            assert hypothesis.cut == (length == longest)
            assert len(hypothesis.log_probabilities) == length
            assert not {PAD, BOS, EOS} & set(hypothesis.tokens)
            assert all(-math.inf < log_probability <= 0.0 for log_probability in hypothesis.log_probabilities)


def prefixes_come_out_as_given(model: Seq2Seq, case: Case) -> None:
    greedy = greedy_search(model, case.source, case.options, case.prefixes)
    for prefix, result, plain in zip(case.prefixes, search(model, case), greedy, strict=True):
        for hypothesis in (*result.hypotheses, plain):
            assert list(hypothesis.tokens[: len(prefix)]) == prefix


def history_rebuilds_what_was_found(model: Seq2Seq, case: Case) -> None:
    size, penalty = case.options.beam_size, case.options.penalty
    for result in search(model, case):
        ended: dict[tuple[int, ...], float] = {}
        places: dict[int, tuple[int, ...]] = {0: ()}
        for step in result.history:
            assert_consistent(step, size)
            written = [(*places[candidate.parent], candidate.token) for candidate in step]
            ended |= {path: c.log_probability for path, c in zip(written, step, strict=True) if c.ended}
            places = {c.place: path for path, c in zip(written, step, strict=True) if c.place is not None}
        ranked = sorted(ended, key=lambda path: -penalty.score(ended[path], len(path)))
        scores = [penalty.score(ended[path], len(path)) for path in ranked]
        for hypothesis, path, clear in zip(result.hypotheses, ranked, apart(scores, case.bound), strict=False):
            if clear:
                assert (*hypothesis.tokens, EOS) == path
            assert abs(hypothesis.log_probability - ended[(*hypothesis.tokens, EOS)]) <= case.bound
        assert len(result.hypotheses) == min(len(ended), case.options.num_best)


def assert_consistent(step: tuple[Candidate, ...], beam_size: int) -> None:
    totals = [candidate.log_probability for candidate in step]
    assert totals == sorted(totals, reverse=True)
    live = [candidate for candidate in step if candidate.token != EOS]
    assert [candidate.place for candidate in live] == [i if i < beam_size else None for i in range(len(live))]
    for rank, candidate in enumerate(step):
        assert candidate.ended == (candidate.token == EOS and rank < beam_size)
        assert candidate.token != EOS or candidate.place is None


def samples_are_their_own(model: Seq2Seq, case: Case) -> None:
    """Each source has its seed, so that company changes nothing; and what is reported is the model's own score."""
    edits = [temperature(1.5), top_k(7), top_p(0.95)]
    seeds = [case.seed + i for i in range(len(case.sources))]
    together = sample(model, case.source, seeds, edits, case.options, case.prefixes)
    for i, (row, drawn) in enumerate(zip(case.sources, together, strict=True)):
        alone = padded([[*row, EOS]])
        one = sample(model, alone, seeds[i : i + 1], edits, case.options, case.prefixes[i : i + 1])[0]
        assert_close(drawn, one, case.bound)
        assert drawn.log_probabilities == pytest.approx(forced(model, row, drawn), abs=case.bound, rel=0)


PROPERTIES = [
    does_not_depend_on_company,
    does_not_depend_on_padding,
    does_not_depend_on_the_order_of_rows,
    steps_are_the_whole,
    a_beam_of_one_is_greedy,
    scores_are_forced_scores,
    the_best_are_sorted_and_distinct,
    prefixes_come_out_as_given,
    history_rebuilds_what_was_found,
]


@pytest.mark.parametrize("holds", PROPERTIES)
@CASES
@given(case=cases())
def test_for_any_model_it_holds_that(family: Family, holds: Property, case: Case) -> None:
    holds(family(case.seed, case.dtype), case)


@CASES
@given(case=cases())
def test_outputs_keep_to_their_limits_and_shapes_to_their_signatures(family: Family, case: Case) -> None:
    with shapes_checked():
        outputs_keep_to_their_limits(family(case.seed, case.dtype), case)


@CASES
@given(case=cases().map(lambda case: replace(case, dtype=torch.float64)))
def test_samples_do_not_depend_on_company_and_report_forced_scores(family: Family, case: Case) -> None:
    """Not in float32: where a lot falls very near to the border of two tokens, rounding may decide between them."""
    samples_are_their_own(family(case.seed, case.dtype), case)


KNOWN = Case(
    seed=3,
    dtype=torch.float64,
    sources=[[4, 9, 5], [7], [6, 3, 8, 10, 5]],
    prefixes=[[], [5], []],
    options=SearchOptions(beam_size=3, num_best=2, max_length=LengthLimit(ratio=1.0, extra=3)),
)


def see_everything(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One mask hides nothing any more."""
    whole = getattr(mask, name)
    monkeypatch.setattr(mask, name, lambda *given: torch.ones_like(whole(*given)))


@pytest.mark.parametrize(
    "holds",
    [does_not_depend_on_company, does_not_depend_on_padding, scores_are_forced_scores, samples_are_their_own],
)
def test_a_broken_padding_mask_is_noticed(family: Family, monkeypatch: pytest.MonkeyPatch, holds: Property) -> None:
    model = family(KNOWN.seed)
    holds(model, KNOWN)
    see_everything(monkeypatch, "padding")
    with pytest.raises(AssertionError):
        holds(model, KNOWN)


@pytest.mark.parametrize("holds", [steps_are_the_whole, scores_are_forced_scores, samples_are_their_own])
def test_a_broken_causal_mask_is_noticed(make_model: Family, monkeypatch: pytest.MonkeyPatch, holds: Property) -> None:
    """On the explicit path, which asks for the mask; the fused kernel has its own, broken below."""
    model = make_model("transformer", KNOWN.seed)
    for part in model.modules():
        if isinstance(part, Attend):
            monkeypatch.setattr(part, "path", "explicit")
    holds(model, KNOWN)
    see_everything(monkeypatch, "causal")
    with pytest.raises(AssertionError):
        holds(model, KNOWN)


@pytest.mark.parametrize("holds", [steps_are_the_whole, scores_are_forced_scores, samples_are_their_own])
def test_a_fused_kernel_that_sees_ahead_is_noticed(
    make_model: Family, monkeypatch: pytest.MonkeyPatch, holds: Property
) -> None:
    model, fused = make_model("transformer", KNOWN.seed), F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *given, **named: fused(*given, **named | {"is_causal": False})
    )
    with pytest.raises(AssertionError):
        holds(model, KNOWN)


def test_the_models_have_opinions_and_come_to_an_end(family: Family) -> None:
    """Else the properties would speak of nothing but flat distributions and outputs that were cut."""
    options = SearchOptions(beam_size=4, num_best=4, max_length=LengthLimit(ratio=1.0, extra=5))
    batches = [beam_search(family(seed, dtype), KNOWN.source, options) for seed in range(5) for dtype in BOUND]
    hypotheses = [hypothesis for batch in batches for result in batch for hypothesis in result.hypotheses]
    ended = [not hypothesis.cut for hypothesis in hypotheses]
    assert sum(ended) / len(ended) > 0.3
    differing = [len({result.best.tokens for result in batch}) for batch in batches]
    assert sum(differing) / len(differing) > 1.2  # of three sources
    best = [result.best for batch in batches for result in batch]
    chances = [math.exp(hypothesis.log_probability / (len(hypothesis.tokens) + 1)) for hypothesis in best]
    assert sum(chances) / len(chances) > 1.4 / 7  # a flat distribution gives 1/7 to each token that may come
