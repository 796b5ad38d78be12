"""An explanation's arithmetic is the model's: every family, kind and norm, from the pieces, against the real pass."""

import json
import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.attention.rotary import rotate
from dragoman.attention.tap import Sight, Tap
from dragoman.bundle import open_bundle
from dragoman.inspection.capture import capture
from dragoman.inspection.explanation import Explanation, explain, to_json
from dragoman.inspection.explanation.attention_row import capture_row, record_calls
from dragoman.inspection.explanation.selection import find_attention
from dragoman.inspection.explanation.transformer_steps import MultiHeadArithmetic
from dragoman.inspection.explanation.worksheet import Step, Table
from dragoman.inspection.inspector import Inspector
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import Vocab

GOLDEN = Path(__file__).parents[2] / "golden"
SOURCE, TARGET = "two red dogs.", "zwei rote Hunde."


@pytest.fixture(scope="module")
def vocab() -> Vocab:
    return open_bundle(GOLDEN / "v1").vocab


def transformer(vocab: Vocab, **changes: Any) -> Inspector:
    sizes: dict[str, Any] = {
        "d_model": 18, "d_ff": 11, "num_heads": 3, "d_k": 5, "d_v": 7, "num_encoder_layers": 2,
        "num_decoder_layers": 3, "max_positions": 64,
    }  # fmt: skip
    config = TransformerConfig(
        source_vocabulary=vocab.source.size, target_vocabulary=vocab.target.size, **{**sizes, **changes}
    )
    return Inspector(unlike(build(config)), vocab)


def convolutional(vocab: Vocab, **changes: Any) -> Inspector:
    sizes: dict[str, Any] = {"d_model": 10, "d_embedding": 8, "num_encoder_layers": 2, "num_decoder_layers": 3}
    config = ConvolutionalConfig(
        source_vocabulary=vocab.source.size, target_vocabulary=vocab.target.size, **{**sizes, **changes}
    )
    return Inspector(unlike(build(config)), vocab)


def recurrent(vocab: Vocab, **changes: Any) -> Inspector:
    sizes: dict[str, Any] = {"d_model": 16, "d_embedding": 10, "d_score": 7}
    config = RecurrentConfig(
        source_vocabulary=vocab.source.size, target_vocabulary=vocab.target.size, **{**sizes, **changes}
    )
    return Inspector(unlike(build(config)), vocab)


def unlike(model: Seq2Seq[Any, Any]) -> Seq2Seq[Any, Any]:
    """Biases and norms begin as zeros and ones, which would hide that they were left out."""
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.3)
    return model.eval()


TRANSFORMERS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "biases": {"attention_bias": True},
    "pre-norm, biases, learned positions": {"norm": "pre", "attention_bias": True, "positions": "learned"},
    "rotary": {"positions": "rotary", "d_k": 6},
    "no positions": {"positions": "none"},
    "tensor2tensor's positions": {"positions": "sinusoidal-halves"},
}
RECURRENT: dict[str, dict[str, Any]] = {
    "bahdanau": {},
    "bahdanau, lstm, one direction": {"cell": "lstm", "bidirectional": False, "num_layers": 2},
    "bahdanau, tanh, reversed": {"cell": "tanh", "reverse_source": True},
    "luong, dot": {"context": "luong", "score": "dot"},
    "luong, general": {"context": "luong", "score": "general", "input_feeding": False},
    "luong, concat": {"context": "luong", "score": "concat"},
    "luong, location": {"context": "luong", "score": "location"},
    "luong, cosine": {"context": "luong", "score": "cosine"},
    "luong, biased": {"context": "luong", "score": "biased-general"},
    "luong, activated": {"context": "luong", "score": "activated-general"},
    "luong, local-m": {"context": "luong", "score": "general", "locality": "local-m", "window": 2},
    "luong, local-p": {"context": "luong", "score": "dot", "locality": "local-p", "window": 3},
}
PLACES = [("encoder", 0), ("encoder", 1), ("cross", 0), ("cross", 2), ("decoder", 0), ("decoder", -1)]


def agrees(inspector: Inspector, shown: Explanation) -> None:
    """With a pass of another kind: the one that traces are made by."""
    source = inspector.tokenize_source(SOURCE)
    target = inspector.tokenize_target(TARGET)
    name, row, head, exact = shown.layer.name, shown.word.row, shown.head, shown.recomputed
    sights: list[Sight] = []
    with Tap(inspector.model, edit=lambda sight: sights.append(sight) if sight.name == name else None):
        seen = capture(inspector.model, source.ids, target.ids)
    key, value = sights[0].vectors.key[0, head].numpy(), sights[0].vectors.value[0, head].numpy()
    np.testing.assert_allclose(exact.weights, seen.attention[name][head, row], atol=1e-5)
    np.testing.assert_allclose(shown.weights, seen.attention[name][:, row], atol=1e-6)
    if shown.model.family != "recurrent":  # the query of a recurrent one is its state, and the score's matrix is ours
        np.testing.assert_allclose(exact.query, sights[0].vectors.query[0, head, row].numpy(), atol=1e-5)
    if getattr(inspector.model.config, "score", "") != "location":  # which looks at no key
        np.testing.assert_allclose(exact.keys, key, atol=1e-5)
    np.testing.assert_allclose(exact.values, value, atol=1e-5)
    mixed = seen.attention[name][head, row] @ value
    np.testing.assert_allclose(exact.output, mixed, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "layer"), PLACES)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_head_is_recomputed_from_its_matrices(vocab: Vocab, name: str, kind: Any, layer: int) -> None:
    inspector = transformer(vocab, **TRANSFORMERS[name])
    target = None if kind == "encoder" else TARGET
    for head, word in enumerate(("0", "2", "1")):
        agrees(inspector, explain(inspector, SOURCE, target, kind=kind, layer=layer, head=head, word=word))


@pytest.mark.parametrize("word", ["0", "2"])
@pytest.mark.parametrize("name", RECURRENT)
def test_a_look_of_a_recurrent_decoder_is_recomputed_from_its_matrices(vocab: Vocab, name: str, word: str) -> None:
    inspector = recurrent(vocab, **RECURRENT[name])
    shown = explain(inspector, SOURCE, TARGET, word=word)
    assert shown.layer.kind == "cross"
    agrees(inspector, shown)
    if "local" in name:
        assert not shown.recomputed.visible.all()


CONVOLUTIONAL: dict[str, dict[str, Any]] = {
    "normed": {},
    "plain": {"weight_norm": False, "kernel_size": 5},
    "without a window": {"kernel_size": 1},
}


@pytest.mark.parametrize(("layer", "word"), [(0, "0"), (1, "2"), (-1, "1")])
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_the_attention_of_a_convs2s_block_is_recomputed_from_its_gate_on(
    vocab: Vocab, name: str, layer: int, word: str
) -> None:
    inspector = convolutional(vocab, **CONVOLUTIONAL[name])
    states: list[Tensor] = []
    hook = inspector.model.get_submodule(f"decoder.layers.{layer % 3}.attention").register_forward_hook(
        lambda _, given, made: states.append(made)
    )
    shown = explain(inspector, SOURCE, TARGET, layer=layer, word=word)
    agrees(inspector, shown)
    hook.remove()
    ours = tables(shown.steps[-1])[-1].rows[-1].whole
    np.testing.assert_allclose(ours, states[0][0, shown.word.row].numpy(force=True), atol=1e-5)


@pytest.mark.parametrize("bundle", ["v1", "v1-recurrent", "v1-convolutional"])
@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
def test_the_golden_models_agree_too(bundle: str, kind: Any) -> None:
    inspector = Inspector.load(GOLDEN / bundle)
    if bundle != "v1" and kind != "cross":
        with pytest.raises(ValueError, match=f"no {kind} attention, in which .*: choose cross"):
            explain(inspector, SOURCE, kind=kind)
        return
    agrees(inspector, explain(inspector, SOURCE, None if kind == "encoder" else TARGET, kind=kind))


@torch.no_grad()
@pytest.mark.parametrize(("kind", "layer"), PLACES)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_what_the_heads_add_makes_the_modules_output_and_what_goes_on(
    vocab: Vocab, name: str, kind: Any, layer: int
) -> None:
    """Against the layer itself: the mix of each head, the sum through W_O, and the residual with its norm."""
    inspector = transformer(vocab, **TRANSFORMERS[name])
    model = inspector.model
    assert isinstance(model, Transformer)
    where = find_attention(model, kind, layer)
    source, target, row = inspector.tokenize_source(SOURCE), inspector.tokenize_target(TARGET), 4
    attention = model.get_submodule(where.name)
    outputs: list[Tensor] = []
    hooks = [
        attention.register_forward_hook(lambda _, given, made: outputs.append(made)),
        attention.output.register_forward_hook(lambda _, given, made: outputs.append(given[0])),
    ]
    entered: list[Tensor] = []
    following = {"encoder": "around_feed_forward", "decoder": "around_cross", "cross": "around_feed_forward"}[kind]
    layer_module = model.get_submodule(where.name.rpartition(".")[0])
    reads = "feed_forward" if following == "around_feed_forward" else "cross_attention.query"
    if inspector.model.config.norm == "post":
        part = layer_module.get_submodule(reads)
    else:
        part = layer_module.get_submodule(following).norm
    hooks.append(part.register_forward_pre_hook(lambda _, given: entered.append(given[0])))
    capture = capture_row(model, source.ids, target.ids, where.name, row, MultiHeadArithmetic.watch(where))
    for hook in hooks:
        hook.remove()
    joined, made = (one[0, row].double().numpy() for one in outputs)
    head = MultiHeadArithmetic(model, where, row, 1, capture)
    np.testing.assert_allclose(head.recomputed.output, joined.reshape(3, 7)[1], atol=1e-5)
    np.testing.assert_allclose(head.added.sum(0) + head.output_bias, made, atol=1e-5)
    np.testing.assert_allclose(head.output, made, atol=1e-5)
    total = head.stream + head.output
    leaving = total if head.is_pre_norm else head.normalise(total)
    np.testing.assert_allclose(leaving, entered[0][0, row].double().numpy(), atol=1e-5)


def test_calls_are_recorded_only_inside_the_block_even_after_an_error(vocab: Vocab) -> None:
    inspector = transformer(vocab)
    source = torch.tensor([inspector.tokenize_source(SOURCE).ids])

    def run_and_fail() -> None:
        inspector.model.encode(source)
        raise KeyError("failed")

    with pytest.raises(KeyError), record_calls(inspector.model, ["encoder.embedding"]) as calls:
        run_and_fail()
    inspector.model.encode(source)
    assert len(calls["encoder.embedding"]) == 1


# The worksheet, checked as a student would: from the printed numbers alone, with exact decimals.


def tables(step: Step) -> list[Table]:
    return [block for block in step.blocks if isinstance(block, Table)]


def titled(shown: Explanation, title: str) -> Step:
    (step,) = [step for step in shown.steps if step.title.startswith(title)]
    return step


def by_label(table: Table) -> dict[str, tuple[Any, ...]]:
    return {row.label: row.cells for row in table.rows}


def rounded(exact: Decimal, like: Decimal) -> Decimal:
    return exact.quantize(like, ROUND_HALF_UP)


def check_softmax(shown: Explanation) -> None:
    (table,) = tables(titled(shown, "Softmax"))
    column = {name: [row.cells[i] for row in table.rows] for i, name in enumerate(table.columns)}
    assert table.total is not None
    total = table.total.cells[table.columns.index("weight") - 1]
    s = shown.keys.symbol
    exps = column.get(f"exp({s})") or column["exp"]
    scores = column.get(f"{s} - max") or column[s]
    for score, exp, weight, visible in zip(scores, exps, column["weight"], shown.keys.visible, strict=True):
        assert score == "-∞" if not visible else rounded(score.exp(), exp) == exp
        assert rounded(exp / total, weight) == weight
    assert sum(exps) == total
    if "model" in column:
        model = shown.weights[shown.head]
        assert column["model"] == [rounded(Decimal(w), Decimal("0.0001")) for w in model.tolist()]
        # A score is rounded at the fourth digit, so a weight is right to within one part in ten thousand.
        assert max(abs(a - b) for a, b in zip(column["weight"], column["model"], strict=True)) <= Decimal("0.0002")


def check_mix(shown: Explanation, title: str) -> None:
    weights, own = tables(titled(shown, title))
    values = shown.recomputed.values
    for row, value in zip(weights.rows, values, strict=True):
        printed = [rounded(Decimal(number), Decimal("0.0001")) for number in value[:4].tolist()]
        assert [rounded(row.cells[0] * number, number) for number in printed] == list(row.cells[1:])
    assert weights.total is not None
    assert weights.total.cells[1:] == tuple(map(sum, zip(*(row.cells[1:] for row in weights.rows), strict=True)))
    near = zip(weights.total.cells[1:], own.rows[0].cells, strict=True)
    assert all(abs(a - b) <= Decimal("0.002") for a, b in near)


def check_dot_products(shown: Explanation) -> int:
    """Wherever two rows are multiplied: returns how often that was."""
    found = 0
    for step in shown.steps:
        for i, block in enumerate(step.blocks):
            if isinstance(block, Table) and block.rows[-1].label == "product":
                a, b, product = (row.cells for row in block.rows)
                assert product == tuple(rounded(x * y, x) for x, y in zip(a, b, strict=True))
                sentence = step.blocks[i + 1]
                assert isinstance(sentence, str)
                assert f"add up to {sum(product):f}" in sentence
                parts = [Decimal(number) for number in re.findall(r"-?\d+\.\d{4}", sentence)]
                assert sum(parts[:-1]) == parts[-1]
                found += 1
    return found


def check_norm(table: Table, sentence: str) -> None:
    mean, deviation = (Decimal(number) for number in re.findall(r"-?\d+\.\d{6}", sentence))
    before, unit, gain, bias, result = (row.cells for row in table.rows)
    assert unit == tuple(rounded((x - mean) / deviation, x) for x in before)
    assert result == tuple(rounded(u * g + b, u) for u, g, b in zip(unit, gain, bias, strict=True))
    assert all(abs(float(a) - b) < 0.002 for a, b in zip(result, table.rows[-1].whole, strict=False))


@pytest.mark.parametrize(("kind", "layer"), PLACES)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_printed_number_follows_from_those_printed_before_it(
    vocab: Vocab, name: str, kind: Any, layer: int
) -> None:
    inspector = transformer(vocab, **TRANSFORMERS[name])
    shown = explain(inspector, SOURCE, None if kind == "encoder" else TARGET, kind=kind, layer=layer)
    check_softmax(shown)
    check_mix(shown, "The values, mixed")
    assert check_dot_products(shown) == 3
    embedding, scaled = tables(titled(shown, "A piece"))[0].rows
    root = Decimal(18).sqrt().quantize(Decimal("0.000001"))
    assert scaled.label == f"· √18 = {root}"
    assert scaled.cells == tuple(rounded(x * root, Decimal("0.0001")) for x in embedding.cells)
    *waves, total = tables(titled(shown, "Its position"))
    from_before, position, x = total.rows
    assert from_before.cells == scaled.cells
    assert x.cells == tuple(a + b for a, b in zip(from_before.cells, position.cells, strict=True))
    assert np.allclose([float(cell) for cell in x.cells], x.whole[:4], atol=2e-4)
    for wave in waves:
        for row, cell in zip(wave.rows, position.cells, strict=True):
            function = math.sin if " sin " in row.label else math.cos
            assert rounded(Decimal(function(row.cells[0])), cell) == row.cells[1] == cell
    if inspector.model.config.positions == "rotary" and kind != "cross":
        angles, turned, turned_keys = tables(titled(shown, "Query and keys turn"))
        keys = torch.tensor([row.whole for row in tables(titled(shown, "Query, key"))[2].rows])
        expected = [row.whole for row in turned_keys.rows]
        np.testing.assert_allclose(rotate(keys[None, None])[0, 0].numpy(), expected, atol=1e-5)
        before, after = (row.cells for row in turned.rows)
        assert tables(titled(shown, "Query, key"))[1].rows[0].cells == before
        for i, row in enumerate(angles.rows):
            angle, cos, sin = row.cells
            assert (rounded(Decimal(math.cos(angle)), cos), rounded(Decimal(math.sin(angle)), sin)) == (cos, sin)
            a, b = before[2 * i : 2 * i + 2]
            assert after[2 * i : 2 * i + 2] == (rounded(a * cos - b * sin, a), rounded(a * sin + b * cos, a))
    (scores, _) = tables(titled(shown, "Divided by"))
    root = Decimal(inspector.model.config.key_width).sqrt().quantize(Decimal("0.000001"))
    assert all(rounded(score / root, score) == divided for score, divided in (row.cells for row in scores.rows))
    after = titled(shown, "What happens next")
    before, added, summed = tables(after)[0].rows
    assert summed.cells == tuple(a + b for a, b in zip(before.cells, added.cells, strict=True))
    below = [step for step in shown.steps if step.title.startswith("What the layers below")]
    start = tables(below[0])[0].rows if below else ()
    assert not start or start[0].cells == x.cells
    later = [row.cells for step in shown.steps for table in tables(step) for row in table.rows if row.label == "x"]
    assert set(later) == {start[1].cells if start else x.cells}
    pre = inspector.model.config.norm == "pre"
    if pre:
        query = tables(titled(shown, "Query"))[0].rows[0]
        assert (query.label, query.cells) == ("y", tables(titled(shown, "It is brought"))[0].rows[-1].cells)
    normed = titled(shown, "It is brought") if pre else after
    check_norm(
        tables(normed)[-1],
        next(sentence for sentence in normed.blocks if isinstance(sentence, str) and "mean" in sentence),
    )


@pytest.mark.parametrize("name", RECURRENT)
def test_every_printed_number_of_a_recurrent_look_follows_too(vocab: Vocab, name: str) -> None:
    inspector = recurrent(vocab, **RECURRENT[name])
    shown = explain(inspector, SOURCE, TARGET)
    check_softmax(shown)
    check_mix(shown, "The source, mixed")
    config = inspector.model.config
    has_product = config.score not in ("additive", "concat")
    assert check_dot_products(shown) == has_product + (config.context == "luong")
    if config.score == "activated-general":
        scores = tables(titled(shown, "How well"))[-1].rows
        assert all(rounded(Decimal(math.tanh(row.cells[0])), row.cells[0]) == row.cells[1] for row in scores)
    if config.score in ("additive", "concat"):
        query, key, tanh, v, product = (row.cells for row in tables(titled(shown, "How well"))[0].rows)
        assert tanh == tuple(rounded(Decimal(math.tanh(a + b)), a) for a, b in zip(query, key, strict=True))
        assert product == tuple(rounded(t * w, t) for t, w in zip(tanh, v, strict=True))
    if config.context == "luong":
        summed, tanh = (row.cells for row in tables(shown.steps[-1])[-1].rows)
        assert tanh == tuple(rounded(Decimal(math.tanh(x)), x) for x in summed)
    if name == "luong, local-p":
        (table,) = tables(titled(shown, "What is near"))
        for row in table.rows:
            softmax, bell, weight, model = row.cells
            assert weight == rounded(softmax * bell, bell)
            assert abs(weight - model) <= Decimal("0.0002")


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_every_printed_number_of_a_convs2s_block_follows_too(vocab: Vocab, name: str) -> None:
    shown = explain(convolutional(vocab, **CONVOLUTIONAL[name]), SOURCE, TARGET, layer=1)
    check_softmax(shown)
    check_mix(shown, "The source, mixed")
    assert check_dot_products(shown) == 2
    passing, gate, opened, state = (row.cells for row in tables(titled(shown, "A gate"))[0].rows)
    assert opened == tuple(rounded(1 / (1 + (-b).exp()), b) for b in gate)
    assert state == tuple(rounded(a * b, a) for a, b in zip(passing, opened, strict=True))
    for step in ("The position asks", "What happens next"):
        one, other, total, scaled = tables(titled(shown, step))[-1].rows
        assert total.cells == tuple(a + b for a, b in zip(one.cells, other.cells, strict=True))
        root = Decimal("0.5").sqrt().quantize(Decimal("0.000001"))
        assert scaled.cells == tuple(rounded(x * root, x) for x in total.cells)
    assert one.cells == state
    asked = tables(titled(shown, "The position asks"))[0].rows[-1].cells
    assert tables(titled(shown, "How well"))[0].rows[0].cells == asked


def test_a_large_score_is_subtracted_first_and_the_weights_are_the_same(vocab: Vocab) -> None:
    inspector = transformer(vocab)
    with torch.no_grad():
        attention = inspector.model.get_submodule("encoder.layers.0.self_attention")
        attention.query.weight.copy_(60 * attention.key.weight)  # so that the position answers itself best
    shown = explain(inspector, SOURCE)
    (table,) = tables(titled(shown, "Softmax"))
    assert "s - max" in table.columns
    check_softmax(shown)
    agrees(inspector, shown)


# What it says.


def test_the_mask_hides_what_is_not_yet_written(vocab: Vocab) -> None:
    shown = explain(transformer(vocab), SOURCE, TARGET, kind="decoder", word="rote")
    row = shown.word.row
    assert shown.recomputed.visible.tolist() == [j <= row for j in range(len(shown.keys.labels))]
    mask = titled(shown, "The mask")
    hidden = len(shown.keys.labels) - row - 1
    assert mask.title == f"The mask: {hidden} of {len(shown.keys.labels)} keys hidden"
    assert [cells[1] for cells in by_label(tables(mask)[0]).values()][row + 1 :] == ["-∞"] * hidden
    assert shown.keys.labels[:2] == ("0 <s>", f"1 {shown.target.pieces[0]}")
    assert {row.mark for row in tables(mask)[0].rows[row + 1 :]} == {"hidden"}
    assert tables(mask)[0].rows[row].mark == "explained"


def test_nothing_is_hidden_from_the_encoder(vocab: Vocab) -> None:
    mask = titled(explain(transformer(vocab), SOURCE), "The mask")
    assert (mask.title, tables(mask)) == ("The mask: nothing is hidden", [])


def test_division_makes_the_weights_more_even(vocab: Vocab) -> None:
    shown = explain(transformer(vocab), SOURCE)
    step = titled(shown, "Divided by √d_k = √5 = 2.236068")
    divided, not_divided = tables(step)[1].rows
    assert (divided.label, not_divided.label) == ("divided", "not divided")
    weights = shown.weights[shown.head]
    entropy = -(weights * np.log(weights)).sum() / np.log(len(weights))
    expected = rounded(Decimal(entropy), Decimal("0.01")), rounded(Decimal(weights.max()), Decimal("0.0001"))
    assert divided.cells == expected
    assert not_divided.cells[0] < divided.cells[0]


def test_above_the_first_layer_it_speaks_of_a_position(vocab: Vocab) -> None:
    titles = [step.title for step in explain(transformer(vocab), SOURCE).steps]
    assert "What the layers below have made of it" not in titles
    shown = explain(transformer(vocab), SOURCE, layer=1, word="dogs")
    step = titled(shown, "What the layers below")
    assert f"this is position {shown.word.row} at layer 1, not a word" in step.why
    assert step.blocks[0] == "It went through layer 0."
    cross = titled(explain(transformer(vocab), SOURCE, TARGET, kind="cross", layer=2), "What the layers below")
    assert cross.blocks[0] == "It went through layers 0 to 1 and the self-attention of layer 2."


def test_the_first_piece_of_a_split_word_is_explained_and_it_says_so(vocab: Vocab) -> None:
    shown = explain(transformer(vocab), "two red houses.", word="houses")
    source = shown.source
    assert len(shown.word.pieces) > 1
    assert shown.word.row == shown.word.pieces[0] == source.words.index(2)
    sentence = titled(shown, "A piece").blocks[0]
    assert isinstance(sentence, str)
    assert sentence.startswith("“houses.” is cut into: ")
    assert all(f"{source.pieces[i]} (id {source.ids[i]})" in sentence for i in shown.word.pieces)
    assert sentence.endswith(f"This is about the first of them, at position {shown.word.row}.")
    assert tables(titled(shown, "A piece"))[0].rows[0].label == f"E[{source.ids[shown.word.row]}]"


def test_a_step_of_the_decoder_starts_from_the_piece_written_last(vocab: Vocab) -> None:
    inspector = transformer(vocab)
    shown = explain(inspector, SOURCE, TARGET, kind="decoder", word="Hunde")
    assert shown.target is not None
    before = shown.target.ids[shown.word.row - 1]
    assert tables(titled(shown, "A piece"))[0].rows[0].label == f"E[{before}]"
    sentence = titled(shown, "A piece").blocks[0]
    assert f"the piece written last is {shown.target.pieces[shown.word.row - 1]} (id {before})" in sentence
    first = explain(inspector, SOURCE, TARGET, kind="decoder", word="zwei")
    assert tables(titled(first, "A piece"))[0].rows[0].label == "E[1]"
    assert "nothing is written yet, and the decoder begins with <s> (id 1)" in titled(first, "A piece").blocks[0]


def test_without_a_target_it_is_the_models_own() -> None:
    inspector = Inspector.load(GOLDEN / "v1")
    shown = explain(inspector, SOURCE, kind="cross")
    assert (shown.target.text, shown.free) == (TARGET, True)
    assert not explain(inspector, SOURCE, TARGET, kind="cross").free
    assert explain(inspector, SOURCE).target is None


def test_the_same_words_as_json(vocab: Vocab) -> None:
    shown = explain(transformer(vocab), SOURCE, TARGET, kind="cross")
    data = json.loads(to_json(shown))
    assert data["recomputed"]["weights"] == shown.recomputed.weights.tolist()
    assert data["model_weights"] == shown.weights[shown.head].tolist()
    assert [step["title"] for step in data["steps"]] == [step.title for step in shown.steps]
    assert data["schema_version"] == 1
    assert (data["kind"], data["attention"]) == ("cross", "decoder.layers.0.cross_attention")


MISTAKES: dict[str, tuple[Callable[[Inspector], object], str]] = {
    "a target for the encoder": (
        lambda i: explain(i, SOURCE, TARGET),
        "give --kind cross",
    ),
    "no text": (lambda i: explain(i, "  "), "the source has no text"),
    "a target without words": (lambda i: explain(i, SOURCE, "", kind="cross"), "the target has no word to explain"),
    "too many tokens": (lambda i: explain(i, "dogs " * 80), "but the model takes 64: shorten the"),
    "a model gone wrong": (lambda i: explain(gone_wrong(i), SOURCE), "NaN or infinity"),
    "a model in training": (lambda i: explain(in_training(i), SOURCE), "training mode"),
}


def gone_wrong(inspector: Inspector) -> Inspector:
    with torch.no_grad():
        inspector.model.get_submodule("encoder.layers.0.self_attention.key").weight[0, 0] = torch.nan
    return inspector


def in_training(inspector: Inspector) -> Inspector:
    inspector.model.train()
    return inspector


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_raises_a_value_error(vocab: Vocab, name: str) -> None:
    mistake, message = MISTAKES[name]
    with pytest.raises(ValueError, match=message):
        mistake(transformer(vocab))


@pytest.mark.parametrize("context", ["first", "every"])
def test_a_model_without_attention_cannot_be_explained(vocab: Vocab, context: str) -> None:
    with pytest.raises(ValueError, match="no attention to explain: choose a transformer"):
        explain(recurrent(vocab, context=context), SOURCE)
