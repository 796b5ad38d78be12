"""The Transformer as search and training see it: steps, rows, padding, limits; and what it is made of."""

from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.attention.attend import Attend
from dragoman.attention.multihead import MultiHead
from dragoman.layers.dropout import Dropout
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer, TransformerMemory, TransformerState
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD

ROWS, SOURCE, TARGET = 4, 7, 5
SMALL = {
    "source_vocabulary": 19,
    "target_vocabulary": 23,
    "d_model": 15,
    "d_ff": 11,
    "num_heads": 3,
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
    "tie": "none",
    "max_positions": 13,
}
SHAPES: list[dict[str, Any]] = [
    {},
    {"norm": "pre"},
    {"positions": "learned"},
    {"positions": "sinusoidal-halves", "attention_bias": True},
    {"d_k": 2, "d_v": 8},
    {"positions": "rotary", "d_k": 4},
    {"positions": "none"},
]


def made(**changes: Any) -> Transformer:
    model = Transformer(TransformerConfig.model_validate(SMALL | changes))
    model.eval()
    return model


def drawn() -> tuple[Tensor, Tensor]:
    """Sources of lengths 7, 4, 1 and 6; targets that begin with BOS."""
    source = torch.randint(NUM_SPECIALS, 19, (ROWS, SOURCE))
    for row, length in enumerate([7, 4, 1, 6]):
        source[row, length - 1] = EOS
        source[row, length:] = PAD
    target = torch.randint(NUM_SPECIALS, 23, (ROWS, TARGET))
    target[:, 0] = BOS
    return source, target


def walk(model: Transformer, state: TransformerState, target: Tensor) -> tuple[Tensor, TransformerState]:
    logits = torch.empty(len(target), 0, model.vocabulary)
    for tokens in target.T:
        scores, state = model.step(tokens, state)
        logits = torch.cat([logits, scores[:, None]], dim=1)
    return logits, state


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


# Steps


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_step_by_step_is_teacher_forcing(changes: dict[str, Any]) -> None:
    model = made(**changes)
    source, target = drawn()
    memory = model.encode(source)
    forced = model.decode(memory, target)
    assert forced.shape == (ROWS, TARGET, 23)
    close(walk(model, model.start(memory), target)[0], forced)
    close(model(source, target), forced)
    close(model.projection(model.hidden(memory, target)), forced)


def test_a_step_leaves_the_state_it_came_from_as_it_was() -> None:
    model = made()
    source, target = drawn()
    _, state = walk(model, model.start(model.encode(source)), target[:, :3])
    first, grown = model.step(target[:, 3], state)
    model.step(target[:, 4], grown)
    assert torch.equal(model.step(target[:, 3], state)[0], first)
    assert state.position == 3
    assert [cache.key.shape[2] for cache in state.written] == [3, 3]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("positions", "sees_order"), [("sinusoidal", True), ("rotary", True), ("none", False)])
def test_positions_make_the_encoder_see_the_order(positions: str, sees_order: bool) -> None:
    model, order = made(positions=positions, d_k=4), torch.tensor([3, 0, 2, 1])
    source = torch.randint(NUM_SPECIALS, 19, (2, 4))
    moved = model.encode(source[:, order]).hidden
    assert torch.allclose(moved, model.encode(source).hidden[:, order], atol=1e-5) != sees_order


def test_rotary_positions_turn_self_attention_alone() -> None:
    model = made(positions="rotary", d_k=4)
    turning = {name for name, part in model.named_modules() if isinstance(part, MultiHead) and part.rotary}
    assert turning == {"encoder.layers.0.self_attention", *(f"decoder.layers.{i}.self_attention" for i in range(2))}


def test_a_position_does_not_see_what_comes_after_it() -> None:
    model = made()
    source, target = drawn()
    changed = target.clone()
    changed[:, 4] = (target[:, 4] - NUM_SPECIALS + 1) % (23 - NUM_SPECIALS) + NUM_SPECIALS
    before, after = model(source, target), model(source, changed)
    close(after[:, :4], before[:, :4])
    assert ((after - before)[:, 4:].abs().amax(dim=-1) > 1e-6).all()


# Rows


ORDERS = [[3, 2, 1, 0], [0, 0, 2, 2, 2], [1], [0, 1, 2, 3], [2, 3, 3, 0, 1, 1]]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("rows", ORDERS, ids=str)
@pytest.mark.parametrize("steps_before", [0, 2])
def test_selected_rows_go_on_as_if_they_had_always_been_those(rows: list[int], steps_before: int) -> None:
    model, chosen = made(), torch.tensor(rows)
    source, target = drawn()
    _, state = walk(model, model.start(model.encode(source)), target[:, :steps_before])
    ours, _ = walk(model, state.select(chosen), target[chosen, steps_before:])
    close(ours, model(source[chosen], target[chosen])[:, steps_before:])


@pytest.mark.usefixtures("float64")
def test_beams_move_within_their_sentences_and_sentences_leave() -> None:
    """As beam search does it: repeat each source, exchange rows of one source, drop a finished source."""
    model = made()
    source, _ = drawn()
    state = model.start(model.encode(source)).select(torch.tensor([0, 0, 1, 1, 3, 3]))
    lines = [[BOS], [BOS], [BOS], [BOS], [BOS], [BOS]]
    owners = [0, 0, 1, 1, 3, 3]
    for rows in ([1, 1, 2, 3, 5, 4], [1, 0, 3, 3, 4, 5], [2, 3, 5, 4], [1, 1, 2, 3]):
        tokens = torch.randint(NUM_SPECIALS, 23, (len(rows),))
        _, state = model.step(torch.tensor([line[-1] for line in lines]), state)
        state = state.select(torch.tensor(rows))
        lines = [[*lines[row], int(token)] for row, token in zip(rows, tokens, strict=True)]
        owners = [owners[row] for row in rows]
        logits, _ = model.step(tokens, state)
        close(logits, model(source[torch.tensor(owners)], torch.tensor(lines))[:, -1])


def test_the_sources_part_is_not_copied_while_rows_stay_in_their_sentence() -> None:
    model = made()
    source, _ = drawn()
    state = model.start(model.encode(source)).select(torch.tensor([0, 0, 1, 1]))
    moved = state.select(torch.tensor([1, 0, 3, 2]))
    assert moved.source is state.source
    assert state.select(torch.tensor([2, 3, 0, 1])).source is not state.source


# Padding


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_padding_changes_nothing(changes: dict[str, Any]) -> None:
    model = made(**changes)
    source, target = drawn()
    padded = torch.nn.functional.pad(source, (0, 5), value=PAD)
    close(model(padded, target), model(source, target))
    longer = torch.nn.functional.pad(target, (0, 3), value=PAD)
    close(model(source, longer)[:, :TARGET], model(source, target))


@pytest.mark.usefixtures("float64")
def test_a_sentence_is_read_alike_alone_and_in_company() -> None:
    model = made()
    source, target = drawn()
    together = model(source, target)
    for row, length in enumerate([7, 4, 1, 6]):
        close(model(source[row : row + 1, :length], target[row : row + 1]), together[row : row + 1])


def test_a_word_in_the_place_of_padding_changes_everything_after_it() -> None:
    model = made()
    source, target = drawn()
    read = source.clone()
    read[1, 5] = NUM_SPECIALS
    gap = (model(read, target) - model(source, target)).abs().amax(dim=-1)
    assert (gap[1] > 1e-4).all()
    assert gap[[0, 2, 3]].max() < 1e-5


def test_a_memory_knows_which_positions_are_real() -> None:
    source, _ = drawn()
    memory = made().encode(source)
    assert isinstance(memory, TransformerMemory)
    assert torch.equal(memory.visible[:, 0, 0], source != PAD)


# Limits


def test_what_is_longer_than_max_positions_is_refused_with_the_mend() -> None:
    model = made()
    fits, too_long = torch.full((2, 13), 5), torch.full((2, 14), 5)
    assert model(fits, fits).shape == (2, 13, 23)
    with pytest.raises(ValueError, match=r"sequence of 14 tokens is longer than .* 13 positions.*split the text"):
        model.encode(too_long)
    with pytest.raises(ValueError, match=r"sequence of 14 tokens is longer than .* 13 positions"):
        model.decode(model.encode(fits), too_long)


def test_a_decoder_that_has_no_position_left_says_so() -> None:
    model = made()
    _, state = walk(model, model.start(model.encode(torch.full((2, 3), 5))), torch.full((2, 13), 5))
    with pytest.raises(ValueError, match=r"sequence of 14 tokens is longer than .* 13 positions"):
        model.step(torch.tensor([5, 5]), state)


# What it is made of


def count(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_tying_makes_matrices_one() -> None:
    tables = {}
    for tie in ("all", "target", "none"):
        model = made(tie=tie, source_vocabulary=23)
        tables[tie] = [
            model.encoder.embedding.tokens.weight,
            model.decoder.embedding.tokens.weight,
            model.projection.tokens.weight,
        ]
        distinct = {"all": 1, "target": 2, "none": 3}[tie]
        assert len(set(tables[tie])) == distinct
        assert count(model) - count(made(tie="all", source_vocabulary=23)) == (distinct - 1) * 23 * 15
    assert tables["target"][0] is not tables["target"][1]
    assert tables["target"][1] is tables["target"][2]


def test_what_is_tied_stays_tied_when_weights_are_loaded() -> None:
    one, other = made(tie="all", source_vocabulary=23), made(tie="all", source_vocabulary=23)
    other.load_state_dict(one.state_dict())
    assert other.encoder.embedding.tokens.weight is other.projection.tokens.weight
    source, target = drawn()
    assert torch.equal(one(source, target), other(source, target))


def test_the_number_of_parameters_is_what_the_paper_adds_up_to() -> None:
    d, ff, layers, vocabulary = 16, 40, 3, 29
    model = made(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        d_model=d,
        d_ff=ff,
        num_heads=2,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        tie="all",
    )
    attention, feed_forward, norm = 4 * d * d, d * ff + ff + ff * d + d, 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    assert count(model) == vocabulary * d + layers * (encoder_layer + decoder_layer)
    assert count(made(norm="pre")) - count(made()) == 2 * 2 * 15


RECOUNT = [
    ({}, 63.05),
    ({"d_k": 16}, 55.97),
    ({"d_k": 32}, 58.33),
    ({"num_encoder_layers": 2, "num_decoder_layers": 2}, 33.64),
    ({"num_encoder_layers": 8, "num_decoder_layers": 8}, 77.75),
    ({"d_model": 256}, 26.82),
    ({"d_ff": 4096}, 88.24),
    ({"d_model": 1024, "d_ff": 4096, "num_heads": 16}, 214.17),
]
"""Rows of Table 3 recounted by hand, in millions: one shared matrix of 37,000 tokens, no bias in attention. The printed
counts fit no single vocabulary."""


@pytest.mark.parametrize(("changes", "millions"), RECOUNT, ids=str)
def test_rows_of_table_3_have_their_size(changes: dict[str, int], millions: float) -> None:
    config = TransformerConfig.model_validate({"source_vocabulary": 37_000, "target_vocabulary": 37_000} | changes)
    with torch.device("meta"):
        model = Transformer(config)
    assert round(count(model) / 1e6, 2) == millions


def test_dropout_sits_where_the_paper_puts_it() -> None:
    model = made(dropout=0.3)
    active = {name for name, module in model.named_modules() if isinstance(module, Dropout) and module.rate > 0}
    assert active == {
        "encoder.embedding.dropout",
        "encoder.layers.0.around_attention.dropout",
        "encoder.layers.0.around_feed_forward.dropout",
        "decoder.embedding.dropout",
        "decoder.layers.0.around_self.dropout",
        "decoder.layers.0.around_cross.dropout",
        "decoder.layers.0.around_feed_forward.dropout",
        "decoder.layers.1.around_self.dropout",
        "decoder.layers.1.around_cross.dropout",
        "decoder.layers.1.around_feed_forward.dropout",
    }
    assert {module.rate for module in model.modules() if isinstance(module, Dropout)} == {0.0, 0.3}
    assert attention_rates(model) == {0.0}


def attention_rates(model: Transformer) -> set[float]:
    return {module.dropout for module in model.modules() if isinstance(module, Attend)}


def test_dropout_elsewhere_is_an_option() -> None:
    model = made(dropout=0.0, attention_dropout=0.2, activation_dropout=0.4)
    active = [name for name, module in model.named_modules() if isinstance(module, Dropout) and module.rate > 0]
    assert len(active) == 3
    assert all(name.endswith("feed_forward.dropout") and "around" not in name for name in active)
    assert attention_rates(model) == {0.2}


def test_each_dropout_is_felt_in_training_and_none_otherwise() -> None:
    source, target = drawn()
    for rate in ("dropout", "attention_dropout", "activation_dropout"):
        model = made(**({"dropout": 0.0} | {rate: 0.5}))
        assert torch.equal(model(source, target), model(source, target))
        model.train()
        assert not torch.equal(model(source, target), model(source, target))


def test_every_parameter_is_used() -> None:
    for changes in SHAPES:
        model = made(**changes)
        model(*drawn()).square().sum().backward()
        felt = {name: weight.grad is not None and bool(weight.grad.any()) for name, weight in model.named_parameters()}
        # A bias of the keys shifts all scores of a query alike, which a softmax does not feel.
        assert [name for name, used in felt.items() if not used and not name.endswith("attention.key.bias")] == []


def test_sinusoids_are_computed_and_not_saved() -> None:
    assert not [name for name in made().state_dict() if "position" in name]
    learned = [name for name in made(positions="learned").state_dict() if "position" in name]
    assert learned == ["encoder.embedding.positions.table", "decoder.embedding.positions.table"]


def test_the_final_norm_belongs_to_pre_norm_alone() -> None:
    assert not [name for name, _ in made().named_parameters() if name in {"encoder.norm.weight", "decoder.norm.weight"}]
    names = dict(made(norm="pre").named_parameters())
    assert {"encoder.norm.weight", "decoder.norm.weight"} <= set(names)


def test_options_reach_the_parts_they_name() -> None:
    model = made(norm_epsilon=0.5, d_k=2, d_v=8)
    norms = [module.eps for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert norms == [0.5] * (2 + 2 * 3)
    weights = dict(model.named_parameters())
    assert weights["decoder.layers.1.cross_attention.key.weight"].shape == (3 * 2, 15)
    assert weights["decoder.layers.1.cross_attention.value.weight"].shape == (3 * 8, 15)
    assert model.vocabulary == 23
