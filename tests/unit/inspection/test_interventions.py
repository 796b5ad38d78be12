"""Attention changed on purpose: by step and by whole pass alike, and only where it was meant."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.attention.tap import Tap
from dragoman.data.vocab import BOS, EOS
from dragoman.decoding.walk import next_log_probabilities
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.interventions import (
    Badge,
    Given,
    Interventions,
    Looking,
    Off,
    Permuted,
    Uniform,
    badge,
    edit_of,
    from_json,
    intervene,
    places,
    to_json,
)
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq

GOLDEN = Path(__file__).parents[2] / "golden"
TEXT = "four green women."
SOURCE, TARGET = [5, 9, 6, 11, EOS], [7, 4, 8, 10, 6, 12, EOS]
SELF, CROSS, ENCODER = (
    "decoder.layers.1.self_attention", "decoder.layers.1.cross_attention", "encoder.layers.0.self_attention",
)  # fmt: skip
ROWS = ((0.25, 0.75, 0.0, 0.0, 0.0), (0.0, 0.0, 0.5, 0.0, 0.5))
EVERY = [
    Off(where=SELF, heads=(1,)), Uniform(where="encoder"), Permuted(where="decoder.layers.0", seed=3),
    Permuted(where=SELF, seed=4), Looking(where=CROSS, position=2, heads=(0, 2)),
    Given(where=CROSS, matrix=ROWS, heads=(1,)),
]  # fmt: skip


@cache
def golden(name: str) -> Inspector:
    return Inspector.load(GOLDEN / name)


@cache
def transformer() -> Seq2Seq:
    config = TransformerConfig(
        source_vocabulary=13, target_vocabulary=17, d_model=12, d_ff=10, num_heads=3, d_k=5, d_v=7,
        num_encoder_layers=1, num_decoder_layers=2, norm="pre", tie="none",
    )  # fmt: skip
    return build(config).eval()


@cache
def recurrent() -> Seq2Seq:
    return build(RecurrentConfig(source_vocabulary=13, target_vocabulary=17, d_model=8, d_embedding=6)).eval()


@torch.no_grad()
def maps(model: Seq2Seq, interventions: Interventions) -> dict[str, torch.Tensor]:
    with Tap(model, edit_of(model, interventions)) as tap:
        model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]]))
    return {name: tap[name][0] for name in tap}


def test_switched_off_heads_give_nothing_and_the_others_are_not_touched() -> None:
    found, plain = maps(transformer(), [Off(where=CROSS, heads=(0, 2))]), maps(transformer(), [])
    assert not found[CROSS][[0, 2]].any()
    torch.testing.assert_close(found[CROSS][1], plain[CROSS][1])
    torch.testing.assert_close(found[SELF], plain[SELF])


def test_a_whole_layer_can_be_switched_off() -> None:
    found = maps(transformer(), [Off(where="decoder.layers.1")])
    assert not found[SELF].any()
    assert not found[CROSS].any()
    assert found["decoder.layers.0.cross_attention"].any()


def test_uniform_is_the_same_weight_for_all_that_can_be_seen() -> None:
    found = maps(transformer(), [Uniform(where="decoder"), Uniform(where="cross")])
    causal = torch.ones(7, 7).tril()
    torch.testing.assert_close(found[SELF], (causal / causal.sum(1, keepdim=True)).expand(3, 7, 7))
    torch.testing.assert_close(found[CROSS], torch.full((3, 7, 5), 0.2))
    assert not torch.allclose(found[ENCODER], torch.full((3, 5, 5), 0.2))


def test_permuted_weights_are_the_same_ones_in_another_order_by_the_seed() -> None:
    plain = maps(transformer(), [])
    one, again, other = (maps(transformer(), [Permuted(where=SELF, seed=seed)])[SELF] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
    assert not torch.allclose(one, plain[SELF])
    torch.testing.assert_close(one.sort(-1).values, plain[SELF].sort(-1).values)
    assert not one.triu(1).any()  # never to what comes later


def test_attention_can_be_forced_to_a_place_or_to_a_matrix() -> None:
    found = maps(transformer(), [Looking(where=CROSS, position=3), Given(where=CROSS, matrix=ROWS, heads=(1,))])
    torch.testing.assert_close(found[CROSS][0], torch.eye(5)[[3] * 7])
    torch.testing.assert_close(found[CROSS][1], torch.cat([torch.tensor(ROWS), torch.eye(5)[[3] * 5]]))


def test_rows_that_cannot_see_the_place_yet_stay_as_they_are() -> None:
    found, plain = maps(transformer(), [Looking(where=SELF, position=2)])[SELF], maps(transformer(), [])[SELF]
    torch.testing.assert_close(found[:, :2], plain[:, :2])
    torch.testing.assert_close(found[:, 2:], torch.eye(7)[[2] * 5].expand(3, 5, 7))


@torch.no_grad()
@pytest.mark.parametrize(
    ("make", "interventions"),
    [
        (transformer, EVERY),
        (recurrent, [Permuted(where="cross", seed=5)]),
        (recurrent, [Given(where="cross", matrix=ROWS)]),
    ],
)
def test_step_by_step_it_is_the_same_as_in_one_pass(make: Callable[[], Seq2Seq], interventions: Interventions) -> None:
    model = make()
    source, read = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]])
    with Tap(model, edit_of(model, interventions)):
        whole = model(source, read)[0]
    steps = []
    with Tap(model, edit_of(model, interventions)):
        state = model.start(model.encode(source))
        for token in read[0]:
            logits, state = model.step(token[None], state)
            steps.append(logits[0])
    torch.testing.assert_close(torch.stack(steps), whole, rtol=0, atol=1e-5)
    assert not torch.allclose(whole, model(source, read)[0], atol=1e-4)


@pytest.mark.parametrize("name", ["v1", "v1-recurrent"])
def test_the_model_decodes_again_and_the_trace_shows_what_it_then_saw(name: str) -> None:
    inspector = golden(name)
    plain = inspector.trace(TEXT)
    same = intervene(inspector, TEXT, [])
    assert same.target == plain.target
    np.testing.assert_allclose(same.log_probabilities, plain.log_probabilities, atol=1e-6)
    changed = intervene(inspector, TEXT, [Looking(where="cross", position=0)])
    assert changed.free
    cross = changed.attention[changed.names("cross")[0]]
    np.testing.assert_array_equal(cross[..., 0], np.ones(cross.shape[:-1]))
    assert changed.target.text != plain.target.text


@torch.no_grad()
def test_what_was_found_has_the_scores_that_the_trace_shows() -> None:
    inspector, todo = golden("v1"), [Permuted(where="cross", seed=1), Uniform(where="decoder")]
    read = inspector.read(TEXT)
    with Tap(inspector.model, edit_of(inspector.model, todo)):
        best = inspector.search(read).best
    trace = intervene(inspector, TEXT, todo)
    assert trace.target.ids == (*best.tokens, EOS)
    np.testing.assert_allclose(trace.log_probabilities, best.log_probabilities, atol=1e-4)


def test_a_target_can_be_forced_under_interventions() -> None:
    trace = intervene(golden("v1"), TEXT, [Off(where="cross")], "zehn rote Tische.")
    assert (trace.free, trace.target.text) == (False, "zehn rote Tische.")
    assert not trace.attention[trace.names("cross")[0]].any()


def test_a_list_is_kept_as_json() -> None:
    assert list(from_json(to_json(EVERY))) == EVERY
    assert from_json('[{"do": "off", "where": "cross"}]') == (Off(where="cross"),)
    with pytest.raises(ValueError, match="do"):
        from_json('[{"do": "nothing", "where": "cross"}]')


@torch.no_grad()
def test_the_badge_counts_tokens_that_stay_on_top_after_the_same_prefix() -> None:
    inspector = golden("v1")
    traces = [inspector.trace(text) for text in (TEXT, "two red dogs.")]
    found = badge(inspector, traces, seed=6)
    kept = 0
    for trace in traces:
        with Tap(inspector.model, edit_of(inspector.model, [Uniform(where="cross")])):
            logits = inspector.model(torch.tensor([trace.source.ids]), torch.tensor([[BOS, *trace.target.ids[:-1]]]))
        kept += int((next_log_probabilities(logits[0]).argmax(-1) == torch.tensor(trace.target.ids)).sum())
    num_tokens = sum(len(trace.target) for trace in traces)  # a model as sure as this one
    assert (found.num_tokens, found.kept_uniform, found.num_sentences) == (num_tokens, kept, 2)
    assert found.kept_uniform < num_tokens
    assert found.kept_permuted < num_tokens
    assert Badge.model_validate_json(found.model_dump_json()) == found
    assert found.text.startswith(
        f"of the {num_tokens} tokens (of {num_tokens}) that are the model's first choice, {found.kept_permuted} still "
    )


def test_the_badge_of_a_given_target_counts_first_choices_alone_and_says_of_how_many() -> None:
    inspector = golden("v1")
    trace = inspector.trace("two red dogs.", "zwei Frauen Hunde.")  # which no model of dogs would write
    found = badge(inspector, [trace])
    assert 0 < found.num_tokens < found.num_written == len(trace.target)
    assert f"of the {found.num_tokens} tokens (of {found.num_written}) that are the model's first choice" in found.text
    one = found.model_copy(update={"num_tokens": 1, "kept_permuted": 1, "kept_uniform": 0})
    assert one.text == (
        f"of the 1 token (of {found.num_written}) that is the model's first choice, 1 still is when cross-attention is "
        "permuted, 0 when it is uniform"
    )
    none = found.model_copy(update={"num_tokens": 0, "kept_permuted": 0, "kept_uniform": 0})
    assert none.text == (
        f"none of the {found.num_written} tokens is the model's first choice: there is nothing to count"
    )


def test_what_cannot_be_done_is_refused_with_a_mend() -> None:
    with pytest.raises(ValueError, match=r"no attention at 'encoder'; the model has: decoder\.attention"):
        edit_of(recurrent(), [Off(where="encoder")])
    with pytest.raises(ValueError, match="has 3 heads, counted from 0: there is no head 3"):
        maps(transformer(), [Off(where=CROSS, heads=(0, 3))])
    with pytest.raises(ValueError, match="has 5 keys"):
        maps(transformer(), [Looking(where=CROSS, position=5)])
    with pytest.raises(ValueError, match="2 columns, but there are 5 keys"):
        maps(transformer(), [Given(where=CROSS, matrix=((0.5, 0.5),))])
    with pytest.raises(ValueError, match=r"row 0 of the matrix .* cannot see"):
        maps(transformer(), [Given(where=SELF, matrix=((0.0, 1.0),))])
    with pytest.raises(ValueError, match="row 1 of the matrix is no distribution"):
        Given(where=CROSS, matrix=((1.0,), (0.5,)))
    with pytest.raises(ValueError, match="at least one"):
        badge(golden("v1"), [])


NAMES = [ENCODER, SELF, CROSS]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (CROSS, {CROSS: None}),
        (f"{CROSS}.2", {CROSS: (2,)}),
        (f"{CROSS}.2, {CROSS}.0,{SELF}.1", {CROSS: (2, 0), SELF: (1,)}),
        (f"{CROSS}.2,{CROSS}", {CROSS: None}),
        (f"{CROSS},{CROSS}.2", {CROSS: None}),
        ("decoder.layers.1", {"decoder.layers.1": None}),
        ("cross.3,encoder", {"cross": (3,), "encoder": None}),
    ],
)
def test_places_are_typed_as_names_with_a_head_behind(typed: str, meant: dict[str, tuple[int, ...] | None]) -> None:
    assert places(typed, NAMES) == meant


@pytest.mark.parametrize(
    "typed",
    ["", "cross,", "decoder.layers.2", "decoder.layers.1.0", "encoder.layers.0.cross_attention.1", "cross.x", "2"],
)
def test_a_place_that_is_not_there_is_named_with_those_that_are(typed: str) -> None:
    with pytest.raises(ValueError, match=rf"there is no attention at '.*'; the model has: {ENCODER}, "):
        places(typed, NAMES)


def test_a_trace_says_what_was_done_to_the_model_and_keeps_its_search_on_request() -> None:
    changes = [Off(where="cross", heads=(1,)), Uniform(where="encoder")]
    trace = intervene(golden("v1"), TEXT, changes, history=True)
    assert trace.interventions == tuple(changes)
    assert trace.history
    assert intervene(golden("v1"), TEXT, [], "vier").interventions == ()
