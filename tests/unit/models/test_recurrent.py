"""The recurrent family through the interface every model has: what must hold for each decoder, cell and depth."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.attention.tap import Sight, Tap, seams
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent import Recurrent
from dragoman.text.vocab import BOS, EOS, PAD

DECODERS: dict[str, dict[str, Any]] = {
    "first": {"context": "first"},
    "every": {"context": "every"},
    "bahdanau": {"context": "bahdanau"},
    "luong-dot": {"context": "luong", "score": "dot"},
    "luong-general": {"context": "luong", "score": "general"},
    "luong-concat": {"context": "luong", "score": "concat"},
    "luong-location": {"context": "luong", "score": "location", "max_locations": 9},
    "luong-cosine": {"context": "luong", "score": "cosine"},
    "luong-biased": {"context": "luong", "score": "biased-general"},
    "luong-activated": {"context": "luong", "score": "activated-general"},
    "luong-unfed": {"context": "luong", "score": "general", "input_feeding": False},
    "luong-local-m": {"context": "luong", "score": "dot", "locality": "local-m"},
    "luong-local-p": {"context": "luong", "score": "general", "locality": "local-p"},
}
OF_PAPERS = ["first", "every", "bahdanau", "luong-general", "luong-local-p"]
ATTENDING = [name for name in DECODERS if name not in ("first", "every")]
GLOBAL = [name for name in ATTENDING if "local" not in name]
every_decoder = pytest.mark.parametrize("decoder", DECODERS)
every_kind = pytest.mark.parametrize(
    ("decoder", "cell", "num_layers"),
    [
        *product(OF_PAPERS, ("gru", "lstm", "tanh"), (1, 2)),
        *((name, "gru", 2) for name in DECODERS if name not in OF_PAPERS),
    ],
)
exactly = {"rtol": 0.0, "atol": 1e-10}


def make(decoder: str, **changes: Any) -> Recurrent:
    torch.manual_seed(1)
    options = {"d_model": 10, "d_embedding": 7, "d_score": 6, "window": 2, "dropout": 0.3} | DECODERS[decoder] | changes
    config = RecurrentConfig(source_vocabulary=17, target_vocabulary=13, **options)
    return Recurrent(config).double().eval()


def sentences(*lengths: int, vocabulary: int = 17) -> Tensor:
    """Random rows of these lengths, each ended by EOS and filled up with PAD."""
    draw = torch.Generator().manual_seed(sum(lengths))
    rows = torch.randint(EOS + 1, vocabulary, (len(lengths), max(lengths)), generator=draw)
    for row, length in zip(rows, lengths, strict=True):
        row[length - 1] = EOS
        row[length:] = PAD
    return rows


def targets(batch: int, length: int) -> Tensor:
    rows = torch.randint(EOS + 1, 13, (batch, length), generator=torch.Generator().manual_seed(length))
    rows[:, 0] = BOS
    return rows


def stepped(model: Recurrent, source: Tensor, target: Tensor) -> Tensor:
    state = model.start(model.encode(source))
    logits = []
    for tokens in target.unbind(1):
        scores, state = model.step(tokens, state)
        logits.append(scores)
    return torch.stack(logits, dim=1)


@every_kind
def test_steps_score_as_teacher_forcing_does(decoder: str, cell: str, num_layers: int) -> None:
    model = make(decoder, cell=cell, num_layers=num_layers)
    source, target = sentences(5, 8, 2), targets(3, 4)
    logits = model(source, target)
    assert logits.shape == (3, 4, 13)
    torch.testing.assert_close(stepped(model, source, target), logits, **exactly)


@every_kind
def test_a_sentence_scores_the_same_in_any_company(decoder: str, cell: str, num_layers: int) -> None:
    model = make(decoder, cell=cell, num_layers=num_layers)
    source, target = sentences(4, 7, 1), targets(3, 5)
    together = model(nn.functional.pad(source, (0, 2), value=PAD), target)
    for row, length in enumerate((4, 7, 1)):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, **exactly)


@every_decoder
def test_an_encoder_may_read_forwards_only(decoder: str) -> None:
    model, source, target = make(decoder, bidirectional=False, num_layers=2), sentences(5, 8, 2), targets(3, 4)
    logits = model(source, target)
    torch.testing.assert_close(stepped(model, source, target), logits, **exactly)
    torch.testing.assert_close(model(source[:1, :5], target[:1]), logits[:1], **exactly)


@every_decoder
def test_a_reversed_source_is_the_same_model_reading_the_tokens_in_reverse(decoder: str) -> None:
    plain, reversing = make(decoder), make(decoder, reverse_source=True)
    source, target = sentences(5, 8, 1), targets(3, 4)
    backwards = source.clone()
    backwards[0, :4], backwards[1, :7] = source[0, :4].flip(0), source[1, :7].flip(0)
    memory, expected = reversing.encode(source), plain.encode(backwards)
    for layer, other in zip(memory.layers, expected.layers, strict=True):
        torch.testing.assert_close(layer, other, **exactly)
    if "loc" not in decoder:  # the order is nothing that other attention sees
        torch.testing.assert_close(reversing(source, target), plain(backwards, target), **exactly)
    if memory.seen is not None and expected.seen is not None:  # and each vector stands where its token does
        torch.testing.assert_close(memory.seen.value[1, 0, :7].flip(0), expected.seen.value[1, 0, :7], **exactly)
        torch.testing.assert_close(memory.seen.value[:, :, 7:], expected.seen.value[:, :, 7:], **exactly)
    torch.testing.assert_close(stepped(reversing, source, target), reversing(source, target), **exactly)
    alone = reversing(source[:1, :5], target[:1])
    torch.testing.assert_close(alone, reversing(source, target)[:1], **exactly)


@every_decoder
def test_the_order_of_the_batch_is_the_order_of_the_scores(decoder: str) -> None:
    model, order = make(decoder), torch.tensor([2, 0, 3, 1])
    source, target = sentences(3, 8, 5, 7), targets(4, 6)
    torch.testing.assert_close(model(source[order], target[order]), model(source, target)[order], **exactly)


@every_decoder
def test_the_scores_depend_on_the_source(decoder: str) -> None:
    model, target = make(decoder), targets(1, 3)
    one, other = torch.tensor([[5, 6, EOS]]), torch.tensor([[5, 7, EOS]])
    assert not torch.allclose(model(one, target), model(other, target), atol=1e-6)


@pytest.mark.parametrize("cell", ["gru", "lstm", "tanh"])
@every_decoder
def test_selected_rows_go_on_as_they_would_have(decoder: str, cell: str) -> None:
    model, rows = make(decoder, cell=cell, num_layers=2), torch.tensor([2, 0, 2, 2])
    source, target = sentences(6, 9, 4), targets(3, 5)
    state = model.start(model.encode(source))
    for tokens in target[:, :3].unbind(1):
        _, state = model.step(tokens, state)
    state = state.select(rows)
    assert state.position == 3
    expected = stepped(model, source[rows], target[rows])
    for position in (3, 4):
        scores, state = model.step(target[rows, position], state)
        torch.testing.assert_close(scores, expected[:, position], **exactly)


def test_rows_that_move_within_their_sentence_leave_the_source_where_it_is() -> None:
    model = make("bahdanau")
    state = model.start(model.encode(sentences(6, 4))).select(torch.tensor([0, 0, 0, 1, 1, 1]))
    moved = state.select(torch.tensor([2, 1, 1, 3, 5, 5]))
    assert moved.seen is state.seen
    assert state.select(torch.tensor([3, 1, 1, 3, 5, 5])).seen is not state.seen


def test_a_step_leaves_the_state_it_came_from_as_it_was() -> None:
    model, tokens = make("luong-general", num_layers=2, cell="lstm"), torch.tensor([BOS, 4])
    state = model.start(model.encode(sentences(6, 4)))
    first, _ = model.step(tokens, state)
    again, _ = model.step(tokens, state)
    torch.testing.assert_close(again, first, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("decoder", ["first", "luong-general"])
def test_the_decoder_begins_where_a_forward_encoder_ended(decoder: str) -> None:
    model, source = make(decoder, bidirectional=False), sentences(6, 3)
    memory = model.encode(source)
    alone = model.encode(source[1:, :3])
    torch.testing.assert_close(memory.layers[0][0][1:], alone.layers[0][0], **exactly)
    if memory.seen is not None:
        ends = torch.stack([memory.seen.value[0, 0, 5], memory.seen.value[1, 0, 2]])
        torch.testing.assert_close(memory.layers[-1][0], ends, **exactly)


@pytest.mark.parametrize("decoder", GLOBAL)
def test_a_tap_reads_one_row_of_weights_for_each_target_position(decoder: str) -> None:
    model, source, target = make(decoder), sentences(5, 8, 2), targets(3, 6)
    with Tap(model) as tap:
        model(source, target)
    assert list(tap) == ["decoder.attention"]
    weights = tap["decoder.attention"]
    assert weights.shape == (3, 1, 6, 8)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 1, 6, dtype=torch.float64), **exactly)
    padding = (source == PAD)[:, None, None].expand_as(weights)
    assert (weights[padding] == 0).all()
    assert (weights[~padding] > 0).all()


@pytest.mark.parametrize("decoder", ["first", "every"])
def test_a_decoder_that_does_not_attend_has_nothing_to_tap(decoder: str) -> None:
    assert not list(seams(make(decoder)))


@pytest.mark.parametrize("decoder", ATTENDING)
def test_a_tap_that_only_reads_changes_nothing(decoder: str) -> None:
    model, source, target = make(decoder), sentences(5, 8, 2), targets(3, 6)
    untapped = model(source, target)
    with Tap(model) as forced:
        torch.testing.assert_close(model(source, target), untapped, **exactly)
    with Tap(model) as steps:
        torch.testing.assert_close(stepped(model, source, target), untapped, **exactly)
    torch.testing.assert_close(steps["decoder.attention"], forced["decoder.attention"], **exactly)


@pytest.mark.parametrize("decoder", ATTENDING)
def test_replaced_weights_decide_what_is_read(decoder: str) -> None:
    """With all weight on the last real position, what stands at the others no longer reaches the context."""
    model, target = make(decoder, bidirectional=False), targets(1, 4)
    source = sentences(6)

    def last(sight: Sight) -> Tensor:
        return torch.zeros_like(sight.weights).index_fill(-1, torch.tensor([5]), 1.0)

    memory = model.encode(source)
    assert memory.seen is not None
    memory.seen.value[:, :, :5] = 1e3
    with Tap(model, last):
        edited = model.decode(memory, target)
        torch.testing.assert_close(edited, model(source, target), **exactly)
    assert not torch.allclose(model(source, target), edited, atol=1e-6)


@pytest.mark.parametrize(("decoder", "feeds"), [("luong-general", True), ("luong-unfed", False)])
def test_input_feeding_tells_the_next_step_where_this_one_looked(decoder: str, feeds: bool) -> None:
    model, source, target = make(decoder), sentences(5, 8), targets(2, 4)

    def second_step_looks_away(sight: Sight) -> Tensor | None:
        return sight.weights.flip(-1) if sight.position == 1 else None

    plain = model(source, target)
    with Tap(model, second_step_looks_away):
        changed = (model(source, target) - plain).abs().amax(dim=(0, 2)) > 1e-9
    assert changed.tolist() == [False, True, feeds, feeds]


@pytest.mark.parametrize("length", [1, 9])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_target_may_be_shorter_or_longer_than_its_source(decoder: str, length: int) -> None:
    """Nine steps over a source of two tokens leave the window of local-m empty."""
    model = make(decoder)
    logits = model(sentences(2, 3), targets(2, length))
    logits.logsumexp(dim=-1).sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@every_kind
def test_every_parameter_learns(decoder: str, cell: str, num_layers: int) -> None:
    model = make(decoder, cell=cell, num_layers=num_layers)
    model(sentences(5, 8, 4), targets(3, 6)).logsumexp(dim=-1).square().sum().backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert idle == []


@pytest.mark.parametrize("decoder", DECODERS)
def test_tied_matrices_are_one(decoder: str) -> None:
    size = {"source_vocabulary": 13, "target_vocabulary": 13, "d_model": 10, "d_embedding": 7} | DECODERS[decoder]
    models = {tie: Recurrent(RecurrentConfig(tie=tie, **size)) for tie in ("all", "target", "none")}
    tables = {tie: _tables(model) for tie, model in models.items()}
    assert [tie for tie, (source, target, _) in tables.items() if source is target] == ["all"]
    assert [tie for tie, (_, target, output) in tables.items() if target is output] == ["all", "target"]
    for model in models.values():
        assert model(sentences(4, 6, vocabulary=13), targets(2, 5)).shape == (2, 5, 13)


def _tables(model: Recurrent) -> tuple[Tensor, Tensor, Tensor]:
    return model.encoder.embedding.weight, model.embedding.weight, model.projection.tokens.weight


@pytest.mark.parametrize("d_model", [10, 7])
def test_a_map_to_the_tied_width_exists_only_where_widths_differ(d_model: int) -> None:
    model = make("luong-dot", d_model=d_model, bidirectional=False, tie="target")
    assert isinstance(model.decoder.readout, nn.Linear if d_model != 7 else nn.Identity)
    assert isinstance(make("luong-dot", d_model=d_model, bidirectional=False).decoder.readout, nn.Identity)


@pytest.mark.parametrize("cell", ["gru", "lstm", "tanh"])
def test_cells_begin_as_written_down(cell: str) -> None:
    model, num_gates = make("bahdanau", cell=cell, num_layers=2), {"gru": 3, "lstm": 4, "tanh": 1}[cell]
    cells = [part for part in model.modules() if isinstance(part, nn.RNNBase | nn.RNNCellBase)]
    assert len(cells) == 4
    for name, parameter in (named for part in cells for named in part.named_parameters()):
        for i, gate in enumerate(parameter.detach().chunk(num_gates)):
            if name.startswith("weight_hh"):
                torch.testing.assert_close(gate @ gate.T, torch.eye(len(gate), dtype=gate.dtype), rtol=0.0, atol=1e-5)
            elif name.startswith("weight_ih"):
                assert _is_glorot(gate)
            else:
                assert (gate == (cell == "lstm" and i == 1 and name.startswith("bias_ih"))).all()


@every_decoder
def test_linear_maps_begin_after_glorot_with_biases_of_zero(decoder: str) -> None:
    maps = [
        part for part in make(decoder, tie="target", d_model=34, d_score=40).modules() if isinstance(part, nn.Linear)
    ]
    assert maps
    assert all(_is_glorot(part.weight.detach()) for part in maps)
    assert all((part.bias == 0).all() for part in maps if part.bias is not None)


def _is_glorot(weight: Tensor) -> bool:
    """Uniform up to the limit of its own shape: some number comes close to the limit, and none passes it."""
    limit = (6 / sum(weight.shape)) ** 0.5
    return 0.7 * limit < weight.abs().max().item() <= limit


def test_the_same_seed_makes_the_same_model() -> None:
    one, other = make("luong-local-p").state_dict(), make("luong-local-p").state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@every_decoder
def test_dropout_is_drawn_anew_from_the_seed_and_only_in_training(decoder: str) -> None:
    model, source, target = make(decoder, num_layers=2), sentences(5, 8), targets(2, 3)
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    draws = [_seeded(model, seed)(source, target) for seed in (3, 3, 4)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.allclose(draws[0], draws[2], atol=1e-6)


def _seeded(model: Recurrent, seed: int) -> Recurrent:
    torch.manual_seed(seed)
    return model


def test_dropout_stands_on_embeddings_between_layers_and_before_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("bahdanau", num_layers=3).train()
    dropped: list[tuple[int, ...]] = []

    def note(x: Tensor, rate: float) -> Tensor:
        dropped.append(tuple(x.shape))
        return torch.ones_like(x)

    monkeypatch.setattr("dragoman.layers.dropout.keep_mask", note)
    model(sentences(5, 8), targets(2, 4))
    encoder = [(13, 7), (13, 10), (13, 10)]
    assert dropped == [*encoder, (2, 4, 7), *[(2, 10)] * 2 * 4, (2, 4, 7)]
