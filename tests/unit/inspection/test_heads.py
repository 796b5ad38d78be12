"""Heads of known habits are called what they are; the numbers are those done by hand."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dragoman.inspection.heads import REACH, HeadSummary, summarise_heads
from dragoman.inspection.interventions import HeadsOff
from dragoman.inspection.trace import Trace

Traced = Callable[..., Trace]
SOURCE = ("▁Wie", "▁geht", "s", "▁dir", "▁heute", "</s>")
TARGET = ("▁How", "▁are", "▁you", "</s>")
ENCODER, DECODER, CROSS = (
    "encoder.layers.0.self_attention", "decoder.layers.0.self_attention", "decoder.layers.0.cross_attention",
)  # fmt: skip


def on(columns: list[int], keys: int) -> np.ndarray:
    """A head that looks at one key in each row."""
    return np.eye(keys, dtype=np.float32)[columns]


def summaries(traced: Traced, name: str, *maps: np.ndarray) -> list[HeadSummary]:
    trace = traced(SOURCE, TARGET, num_layers=1, num_heads=len(maps))
    trace = replace(trace, attention={**trace.attention, name: np.stack(maps)})
    return [summary for summary in summarise_heads([trace]) if summary.name == name]


def test_heads_of_the_encoder_get_the_names_of_their_habits(traced: Traced) -> None:
    word = np.zeros((6, 6), np.float32)
    for i, own in enumerate([[0], [1, 2], [1, 2], [3], [4], [5]]):
        word[i, own] = 1 / len(own)
    uniform = np.full((6, 6), 1 / 6, np.float32)
    previous, following = on([0, 0, 1, 2, 3, 4], 6), on([1, 2, 3, 4, 5, 5], 6)
    mixed = 0.4 * previous + 0.4 * following + 0.2 * on([3, 3, 5, 0, 0, 0], 6)
    found = summaries(traced, ENCODER, previous, following, word, on([5] * 6, 6), uniform, mixed)
    expected = ["previous token", "next token", "same word", "sink", "diffuse", "mixed"]
    assert [summary.label for summary in found] == expected
    assert [summary.head for summary in found] == list(range(6))
    assert found[0].previous_token == 1.0
    assert found[0].evidence == "1.00 of the weight on the previous token; uniform attention has 0.17; over 1 sentence"
    assert found[2].same_word == pytest.approx(1.0)
    assert (found[3].sink_share, found[3].num_sentences) == (1.0, 1)
    assert found[4].entropy == pytest.approx(1.0)
    assert found[4].evidence.startswith("entropy 1.00")
    assert found[5].evidence.startswith("no clear role; the largest is 0.4")


def test_in_the_decoder_the_previous_token_is_the_one_before_what_was_just_read(traced: Traced) -> None:
    previous, own = summaries(traced, DECODER, on([0, 0, 1, 2], 4), on([0, 1, 2, 3], 4))
    assert (previous.label, previous.previous_token, previous.next_token) == ("previous token", 1.0, None)
    assert (own.label, own.same_word) == ("same word", 1.0)


def test_what_uniform_attention_would_show_too_is_no_habit(traced: Traced) -> None:
    """All that can be looked at but BOS is of the one word, so most weight lies on it by chance already."""
    target = ("▁2021", "-", "03", "-", "</s>")
    trace = traced(SOURCE, target, num_layers=1, num_heads=1)
    causal = np.tril(np.ones((5, 5), np.float32), -2) + 0.5 * np.eye(5, dtype=np.float32)
    causal[1:, 0] = 0.25
    maps = (causal / causal.sum(1, keepdims=True))[None]
    (summary,) = (h for h in summarise_heads([replace(trace, attention={DECODER: maps})]))
    assert summary.same_word is not None
    assert summary.same_word > 0.7
    uniform = np.mean([1 / 2, 2 / 3, 3 / 4, 4 / 5])
    assert f"uniform attention has {uniform:.2f}" in summary.evidence
    assert summary.label == "mixed"


def test_entropy_is_over_what_can_be_seen_and_rows_without_a_choice_do_not_count(traced: Traced) -> None:
    causal = np.tril(np.ones((4, 4), np.float32))
    (summary,) = summaries(traced, DECODER, causal / causal.sum(1, keepdims=True))
    assert summary.entropy == pytest.approx(1.0)
    half = np.zeros((6, 6), np.float32)
    half[:, :2] = 0.5
    (summary,) = summaries(traced, ENCODER, half)
    assert summary.entropy == pytest.approx(math.log(2) / math.log(6))


def test_the_distance_profile_gathers_what_is_far_at_its_ends(traced: Traced) -> None:
    (summary,) = summaries(traced, ENCODER, on([0, 0, 0, 5, 4, 0], 6))
    by_offset = dict(zip(range(-REACH, REACH + 1), summary.profile, strict=True))
    expected = dict.fromkeys(range(-REACH, REACH + 1), 0.0) | {0: 2 / 6, -1: 1 / 6, -2: 1 / 6, 2: 1 / 6, -5: 1 / 6}
    assert by_offset == pytest.approx(expected)


def test_alignment_is_focus_times_coverage(traced: Traced) -> None:
    stuck, walking = summaries(traced, CROSS, on([1] * 4, 6), 0.8 * on([0, 1, 3, 5], 6) + 0.2 * on([4] * 4, 6))
    assert stuck.alignment == pytest.approx(1 / 3)
    assert walking.alignment == pytest.approx(0.8)
    assert (stuck.label, walking.label) == ("mixed", "alignment")
    assert "focus times coverage" in walking.evidence


def test_rows_of_all_sentences_count_alike_and_rows_that_saw_nothing_not_at_all(traced: Traced) -> None:
    traces = []
    for n, weight in ((2, 1.0), (4, 0.5)):
        trace = traced([*"▁ab"[:n], "</s>"] if n == 2 else SOURCE, TARGET, num_layers=1, num_heads=1)
        keys = len(trace.source)
        maps = np.zeros((1, 4, keys), np.float32)
        maps[0, :n, -1] = weight
        maps[0, :n, 0] += 1 - weight
        traces.append(replace(trace, attention={**trace.attention, CROSS: maps}))
    (summary,) = (summary for summary in summarise_heads(traces) if summary.name == CROSS)
    assert summary.sink_share == pytest.approx((2 * 1.0 + 4 * 0.5) / 6)
    assert summary.num_sentences == 2


def test_a_head_that_was_switched_off_is_off_and_the_others_keep_their_habits(traced: Traced) -> None:
    previous, nothing = on([0, 0, 1, 2, 3, 4], 6), np.zeros((6, 6), np.float32)
    trace = traced(SOURCE, TARGET, num_layers=1, num_heads=2)
    maps = {**trace.attention, ENCODER: np.stack([nothing, previous]), CROSS: np.zeros((2, 4, 6), np.float32)}
    changed = replace(
        trace, attention=maps, interventions=(HeadsOff(where=ENCODER, heads=(0,)), HeadsOff(where="cross"))
    )
    found = [summary for summary in summarise_heads([changed]) if summary.name in (ENCODER, CROSS)]
    assert [summary.label for summary in found] == ["off", "previous token", "off", "off"]
    off, still = found[:2]
    assert off.evidence == "switched off by an intervention; over 1 sentence"
    assert (off.entropy, off.sink_share, off.previous_token, found[2].alignment) == (None, 0.0, None, None)
    (alone,) = summaries(traced, ENCODER, previous)
    assert (still.evidence, still.profile, still.entropy) == (alone.evidence, alone.profile, alone.entropy)


def test_habits_are_kept_as_json(traced: Traced) -> None:
    summary = summarise_heads([traced()])[0]
    assert HeadSummary.model_validate_json(summary.model_dump_json()) == summary


def test_traces_that_do_not_fit_are_refused(traced: Traced) -> None:
    with pytest.raises(ValueError, match="at least one"):
        summarise_heads([])
    with pytest.raises(ValueError, match="with one model"):
        summarise_heads([traced(), traced(num_layers=1)])
