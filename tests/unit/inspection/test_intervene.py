"""Attention changed on purpose: by step and by whole pass alike, and only where it was meant."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.attention.tap import Tap
from dragoman.decoding.decode_loop import next_log_probabilities
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.intervene import counterfactual, edit_of
from dragoman.inspection.interventions import HeadsOff, HeadsPermuted, HeadsUniform, Interventions
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS

GOLDEN = Path(__file__).parents[2] / "golden"
TEXT = "four green women."
SOURCE, TARGET = [5, 9, 6, 11, EOS], [7, 4, 8, 10, 6, 12, EOS]
SELF, CROSS, ENCODER = (
    "decoder.layers.1.self_attention", "decoder.layers.1.cross_attention", "encoder.layers.0.self_attention",
)  # fmt: skip
EVERY = [
    HeadsOff(where=SELF, heads=(1,)), HeadsUniform(where="encoder"), HeadsPermuted(where="decoder.layers.0", seed=3),
    HeadsPermuted(where=SELF, seed=4), HeadsUniform(where=CROSS, heads=(0, 2)),
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
def convolutional() -> Seq2Seq:
    sizes = {"d_model": 8, "d_embedding": 6, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return build(ConvolutionalConfig(source_vocabulary=13, target_vocabulary=17, **sizes)).eval()


def recurrent() -> Seq2Seq:
    return build(RecurrentConfig(source_vocabulary=13, target_vocabulary=17, d_model=8, d_embedding=6)).eval()


@torch.no_grad()
def maps(model: Seq2Seq, interventions: Interventions) -> dict[str, torch.Tensor]:
    with Tap(model, edit_of(model, interventions)) as tap:
        model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]]))
    return {name: tap[name][0] for name in tap}


def test_switched_off_heads_give_nothing_and_the_others_are_not_touched() -> None:
    found, plain = maps(transformer(), [HeadsOff(where=CROSS, heads=(0, 2))]), maps(transformer(), [])
    assert not found[CROSS][[0, 2]].any()
    torch.testing.assert_close(found[CROSS][1], plain[CROSS][1])
    torch.testing.assert_close(found[SELF], plain[SELF])


def test_a_whole_layer_can_be_switched_off() -> None:
    found = maps(transformer(), [HeadsOff(where="decoder.layers.1")])
    assert not found[SELF].any()
    assert not found[CROSS].any()
    assert found["decoder.layers.0.cross_attention"].any()


def test_uniform_is_the_same_weight_for_all_that_can_be_seen() -> None:
    found = maps(transformer(), [HeadsUniform(where="decoder"), HeadsUniform(where="cross")])
    causal = torch.ones(7, 7).tril()
    torch.testing.assert_close(found[SELF], (causal / causal.sum(1, keepdim=True)).expand(3, 7, 7))
    torch.testing.assert_close(found[CROSS], torch.full((3, 7, 5), 0.2))
    assert not torch.allclose(found[ENCODER], torch.full((3, 5, 5), 0.2))


def test_permuted_weights_are_the_same_ones_in_another_order_by_the_seed() -> None:
    plain = maps(transformer(), [])
    one, again, other = (maps(transformer(), [HeadsPermuted(where=SELF, seed=seed)])[SELF] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
    assert not torch.allclose(one, plain[SELF])
    torch.testing.assert_close(one.sort(-1).values, plain[SELF].sort(-1).values)
    assert not one.triu(1).any()  # never to what comes later


@torch.no_grad()
@pytest.mark.parametrize(
    ("make", "interventions"),
    [
        (transformer, EVERY),
        (recurrent, [HeadsPermuted(where="cross", seed=5)]),
        (convolutional, [HeadsPermuted(where="cross", seed=5)]),
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


@pytest.mark.parametrize("name", ["v1", "v1-recurrent", "v1-convolutional"])
def test_the_model_decodes_again_and_the_trace_shows_what_it_then_saw(name: str) -> None:
    inspector = golden(name)
    plain = inspector.trace(TEXT)
    same = inspector.trace(TEXT, interventions=[])
    assert same.target == plain.target
    np.testing.assert_allclose(same.log_probabilities, plain.log_probabilities, atol=1e-6)
    changed = inspector.trace(TEXT, interventions=[HeadsUniform(where="cross")])
    assert changed.free
    cross = changed.attention[changed.names("cross")[0]]
    np.testing.assert_allclose(cross, 1 / cross.shape[-1], rtol=1e-6)
    assert changed.target.text != plain.target.text


@torch.no_grad()
def test_what_was_found_has_the_scores_that_the_trace_shows() -> None:
    inspector, todo = golden("v1"), [HeadsPermuted(where="cross", seed=1), HeadsUniform(where="decoder")]
    read = inspector.tokenize_source(TEXT)
    with Tap(inspector.model, edit_of(inspector.model, todo)):
        best = inspector.search(read).best
    trace = inspector.trace(TEXT, interventions=todo)
    assert trace.target.ids == (*best.tokens, EOS)
    np.testing.assert_allclose(trace.log_probabilities, best.log_probabilities, atol=1e-4)


def test_a_target_can_be_forced_under_interventions() -> None:
    trace = golden("v1").trace(TEXT, "zehn rote Tische.", interventions=[HeadsOff(where="cross")])
    assert (trace.free, trace.target.text) == (False, "zehn rote Tische.")
    assert not trace.attention[trace.names("cross")[0]].any()


@torch.no_grad()
def test_the_counterfactual_counts_tokens_that_stay_on_top_after_the_same_prefix() -> None:
    inspector = golden("v1")
    trace = inspector.trace("two red dogs.")
    found = counterfactual(inspector.model, trace, seed=6)
    with Tap(inspector.model, edit_of(inspector.model, [HeadsUniform(where="cross")])):
        logits = inspector.model(torch.tensor([trace.source.ids]), torch.tensor([[BOS, *trace.target.ids[:-1]]]))
    kept = int((next_log_probabilities(logits[0]).argmax(-1) == torch.tensor(trace.target.ids)).sum())
    num_tokens = len(trace.target)  # a model as sure as this one
    assert (found.num_tokens, found.kept_uniform) == (num_tokens, kept)
    assert found.kept_uniform < num_tokens
    assert found.kept_permuted < num_tokens
    assert found.text.startswith(
        f"of the {num_tokens} tokens (of {num_tokens}) that are the model's first choice, {found.kept_permuted} still "
    )


def test_the_counterfactual_of_a_given_target_counts_first_choices_alone_and_says_of_how_many() -> None:
    inspector = golden("v1")
    trace = inspector.trace("two red dogs.", "zwei Frauen Hunde.")  # which no model of dogs would write
    found = counterfactual(inspector.model, trace)
    assert 0 < found.num_tokens < found.num_written == len(trace.target)
    assert f"of the {found.num_tokens} tokens (of {found.num_written}) that are the model's first choice" in found.text
    one = found._replace(num_tokens=1, kept_permuted=1, kept_uniform=0)
    assert one.text == (
        f"of the 1 token (of {found.num_written}) that is the model's first choice, 1 still is when cross-attention is "
        "permuted, 0 when it is uniform"
    )
    none = found._replace(num_tokens=0, kept_permuted=0, kept_uniform=0)
    assert none.text == (
        f"none of the {found.num_written} tokens is the model's first choice: there is nothing to count"
    )


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no attention at 'encoder': choose from decoder\.attention"):
        edit_of(recurrent(), [HeadsOff(where="encoder")])
    with pytest.raises(ValueError, match="there is no head 3 in"):
        maps(transformer(), [HeadsOff(where=CROSS, heads=(0, 3))])


def test_a_trace_says_what_was_done_to_the_model_and_keeps_its_search_on_request() -> None:
    changes = [HeadsOff(where="cross", heads=(1,)), HeadsUniform(where="encoder")]
    trace = golden("v1").trace(TEXT, interventions=changes, history=True)
    assert trace.interventions == tuple(changes)
    assert trace.history
    assert golden("v1").trace(TEXT, "vier", interventions=[]).interventions == ()
