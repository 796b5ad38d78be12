"""Each rule by itself: what it strikes out, and what it leaves exactly as it was."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.rules import Rules
from dragoman.text.vocab import BOS, EOS, PAD, UNK

VOCABULARY = 7
SOURCE = torch.tensor([[5, 6, 4, EOS], [5, EOS, PAD, PAD], [6, 6, EOS, PAD]])
ORDINARY = {UNK, 4, 5, 6}


def rules(longest: list[int], shortest: int = 1, prefix: list[list[int]] | None = None) -> Rules:
    prefix = prefix or [[] for _ in longest]
    return Rules(torch.tensor(longest), shortest, torch.tensor(prefix, dtype=torch.int64).reshape(len(longest), -1))


def allowed(rules: Rules, step: int, beam: int = 2) -> list[set[int]]:
    """What each source may write at this step. All places of a beam have the same choice, and scores stay the same."""
    before = torch.randn(len(rules.longest), beam, VOCABULARY).log_softmax(-1)
    after = before.clone()
    rules.strike(after, step)
    struck = after == -math.inf
    assert torch.equal(after.masked_fill(struck, 0.0), before.masked_fill(struck, 0.0))
    assert torch.equal(struck, struck[:, :1].expand_as(struck))
    return [set((~row[0]).nonzero().flatten().tolist()) for row in struck]


def test_padding_and_bos_are_never_written() -> None:
    assert allowed(rules([9, 9, 9]), step=0) == [ORDINARY | {EOS}] * 3
    assert allowed(rules([9, 9, 9]), step=5) == [ORDINARY | {EOS}] * 3


def test_at_its_limit_an_output_can_only_end() -> None:
    """Steps count from 0, so that of a limit of 3 the last is step 2."""
    of = rules([3, 5, 4])
    assert allowed(of, step=1) == [ORDINARY | {EOS}] * 3
    assert allowed(of, step=2) == [{EOS}, ORDINARY | {EOS}, ORDINARY | {EOS}]
    assert allowed(of, step=3) == [ORDINARY | {EOS}, ORDINARY | {EOS}, {EOS}]
    assert allowed(of, step=4) == [ORDINARY | {EOS}, {EOS}, ORDINARY | {EOS}]


def test_which_outputs_end_at_a_step() -> None:
    of = rules([1, 3, 2, 1])
    assert [of.ending(step).tolist() for step in range(3)] == [
        [True, False, False, True],
        [False, False, True, False],
        [False, True, False, False],
    ]


def test_no_output_ends_before_its_shortest_length() -> None:
    of = rules([9, 9], shortest=3)
    assert allowed(of, step=0) == [ORDINARY] * 2
    assert allowed(of, step=1) == [ORDINARY] * 2
    assert allowed(of, step=2) == [ORDINARY | {EOS}] * 2
    assert allowed(of, step=3) == [ORDINARY | {EOS}] * 2


def test_the_longest_length_wins_over_the_shortest() -> None:
    assert allowed(rules([2, 9], shortest=5), step=1) == [{EOS}, ORDINARY]
    assert allowed(rules([1, 9], shortest=5), step=0) == [{EOS}, ORDINARY]


def test_a_prefix_leaves_no_choice_while_it_lasts() -> None:
    of = rules([9, 9, 9], prefix=[[5, 6], [4, PAD], [PAD, PAD]])
    assert allowed(of, step=0) == [{5}, {4}, ORDINARY | {EOS}]
    assert allowed(of, step=1) == [{6}, ORDINARY | {EOS}, ORDINARY | {EOS}]
    assert allowed(of, step=2) == [ORDINARY | {EOS}] * 3


def test_after_its_prefix_an_output_still_keeps_to_its_lengths() -> None:
    of = rules([3, 9], shortest=4, prefix=[[5, 6], [4, PAD]])
    assert allowed(of, step=1) == [{6}, ORDINARY]
    assert allowed(of, step=2) == [{EOS}, ORDINARY]


def test_rules_can_be_narrowed_to_some_sources() -> None:
    of = rules([3, 5, 4], shortest=2, prefix=[[5, 6], [4, PAD], [PAD, PAD]]).select(torch.tensor([2, 0]))
    assert of.longest.tolist() == [4, 3]
    assert of.shortest == 2
    assert of.prefix.tolist() == [[PAD, PAD], [5, 6]]


def options(ratio: float = 1.0, extra: int = 0, min_length: int = 1) -> SearchOptions:
    return SearchOptions(max_length=LengthLimit(ratio=ratio, extra=extra), min_length=min_length)


def test_the_limit_follows_the_tokens_of_each_source_but_not_its_padding() -> None:
    of = Rules.of(options(ratio=2.0, extra=1, min_length=3), SOURCE)
    assert of.longest.tolist() == [9, 5, 7]
    assert of.shortest == 3
    assert of.prefix.shape == (3, 0)
    assert of.prefix.dtype == of.longest.dtype == torch.int64


def test_a_model_may_have_a_limit_of_its_own() -> None:
    assert Rules.of(options(ratio=2.0, extra=1), SOURCE, model_limit=6).longest.tolist() == [6, 5, 6]
    assert Rules.of(options(ratio=2.0, extra=1), SOURCE, model_limit=None).longest.tolist() == [9, 5, 7]


def test_prefixes_are_filled_up_with_padding() -> None:
    of = Rules.of(options(extra=9), SOURCE, [[4], [], (5, 6, UNK)])
    assert of.prefix.tolist() == [[4, PAD, PAD], [PAD, PAD, PAD], [5, 6, UNK]]
    assert of.prefix.dtype == torch.int64


def test_a_prefix_may_pass_the_length_limit_and_still_has_its_end() -> None:
    of = Rules.of(options(ratio=0.0, extra=2), SOURCE, [[4, 5, 6, 4], [4], [4, 5]])
    assert of.longest.tolist() == [5, 2, 3]


def test_a_prefix_may_fill_a_model_but_for_the_end() -> None:
    of = Rules.of(options(ratio=0.0, extra=2), SOURCE, [[4, 5, 6], [4], []], model_limit=4)
    assert of.longest.tolist() == [4, 2, 2]


def test_a_prefix_may_not_pass_the_limit_of_the_model() -> None:
    with pytest.raises(ValueError, match="the forced prefix has 4 tokens, the limit is 3"):
        Rules.of(options(), SOURCE, [[], [4, 5, 6, 4], []], model_limit=4)


@pytest.mark.parametrize("special", [PAD, BOS, EOS])
def test_a_prefix_is_made_of_ordinary_tokens(special: int) -> None:
    with pytest.raises(ValueError, match=r"the forced prefix \[4, .\] contains PAD, BOS or EOS"):
        Rules.of(options(), SOURCE, [[], [], [4, special]])


def test_an_unknown_piece_is_an_ordinary_token() -> None:
    assert Rules.of(options(), SOURCE, [[], [], [UNK]]).prefix.tolist() == [[PAD], [PAD], [UNK]]


def test_each_source_needs_its_prefix() -> None:
    with pytest.raises(ValueError, match="2 prefixes for 3 sources: give one per source"):
        Rules.of(options(), SOURCE, [[4], [5]])


def test_what_is_struck_out_is_struck_out_in_place() -> None:
    scores: Tensor = torch.zeros(1, 1, VOCABULARY)
    rules([1]).strike(scores, step=0)
    assert scores.flatten().tolist() == [0.0 if token == EOS else -math.inf for token in range(VOCABULARY)]
