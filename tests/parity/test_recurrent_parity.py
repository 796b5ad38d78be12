"""The recurrent models beside live references: torch's own layers on single sentences, and the papers' formulas written
out in numpy, one number at a time."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.attention import mask
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent import Recurrent
from dragoman.text.vocab import BOS, PAD

Vector = NDArray[np.float64]
Weights = dict[str, Vector]
KINDS: dict[str, type[nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM, "tanh": nn.RNN}
exactly = {"rtol": 0.0, "atol": 1e-10}


def make(seed: int, **options: object) -> Recurrent:
    torch.manual_seed(seed)
    config = RecurrentConfig.model_validate({"source_vocabulary": 17, "target_vocabulary": 13} | options)
    model = Recurrent(config).double().eval()
    for parameter in model.parameters():  # large enough for every non-linearity to bend, and no bias left at zero
        nn.init.normal_(parameter, std=0.4)
    return model


def batch(lengths: list[int], spare: int = 0) -> Tensor:
    rows = torch.full((len(lengths), max(lengths) + spare), PAD)
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = torch.randint(1, 17, (length,))
    return rows


def targets(size: int, length: int) -> Tensor:
    return torch.cat([torch.full((size, 1), BOS), torch.randint(1, 13, (size, length - 1))], dim=1)


# The encoder beside torch's stacks.


def stack_like(model: Recurrent) -> nn.RNNBase:
    """torch's stack of several layers, with the weights of our separate ones."""
    config = model.config
    kind = KINDS[config.cell]
    d_direction = config.d_model // (2 if config.bidirectional else 1)
    stack = kind(config.d_embedding, d_direction, config.num_layers, bidirectional=config.bidirectional).double()
    for name, parameter in stack.named_parameters():
        parameter.data.copy_(layer_weights(model)[name])
    return stack


def layer_weights(model: Recurrent) -> dict[str, nn.Parameter]:
    return {
        name.replace("_l0", f"_l{i}"): parameter
        for i, layer in enumerate(model.encoder.layers)
        for name, parameter in layer.named_parameters()
    }


@pytest.mark.slow
@pytest.mark.parametrize("cell", KINDS)
@pytest.mark.parametrize("seed", range(25))
def test_a_padded_batch_is_read_as_torch_reads_each_sentence_alone(cell: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    d_model, d_embedding, num_layers = 2 * int(draw.integers(1, 7)), int(draw.integers(1, 9)), int(draw.integers(1, 4))
    shape = {"d_model": d_model, "d_embedding": d_embedding, "num_layers": num_layers}
    model = make(seed, cell=cell, bidirectional=bool(draw.integers(2)), **shape)
    lengths = draw.integers(1, 10, size=int(draw.integers(1, 6))).tolist()
    source = batch(lengths, spare=int(draw.integers(3)))

    reading = model.encoder(source, mask.padding(source, PAD))
    stack = stack_like(model)
    table = model.encoder.embedding.weight.detach().clone().requires_grad_()
    ours, theirs = torch.zeros(()), torch.zeros(())
    for row, length in enumerate(lengths):
        hidden, last = stack(table[source[row, :length]])
        torch.testing.assert_close(reading.hidden[row, :length], hidden, **exactly)
        assert (reading.hidden[row, length:] == 0).all()
        pull = torch.randn_like(hidden)
        ours, theirs = ours + (reading.hidden[row, :length] * pull).sum(), theirs + (hidden * pull).sum()
        for part, ended in enumerate(last if cell == "lstm" else (last,)):
            expected = ended.reshape(num_layers, d_model)  # [layers * directions, d] side by side
            final = torch.stack([layer[part][row] for layer in reading.final])
            torch.testing.assert_close(final, expected, **exactly)
            pull = torch.randn_like(expected)
            ours, theirs = ours + (final * pull).sum(), theirs + (expected * pull).sum()

    ours.backward()
    theirs.backward()
    torch.testing.assert_close(model.encoder.embedding.weight.grad, table.grad, **exactly)
    for name, parameter in stack.named_parameters():
        torch.testing.assert_close(layer_weights(model)[name].grad, parameter.grad, **exactly)


@pytest.mark.parametrize("cell", KINDS)
def test_sutskevers_decoder_is_torchs_stack_run_on_from_the_encoders_end(cell: str) -> None:
    model = make(5, cell=cell, context="first", d_model=6, d_embedding=5, num_layers=3, bidirectional=False)
    source, target = batch([4, 7]), targets(2, 8)
    encoder = stack_like(model)
    decoder = KINDS[cell](5, 6, 3).double()
    for i, layer in enumerate(model.decoder.cells.layers):
        for name, parameter in layer.named_parameters():
            getattr(decoder, f"{name}_l{i}").data.copy_(parameter)
    logits = model(source, target)
    for row, length in enumerate((4, 7)):
        _, last = encoder(model.encoder.embedding(source[row, :length]))
        hidden, _ = decoder(model.embedding(target[row]), last)
        torch.testing.assert_close(logits[row], hidden @ model.projection.tokens.weight.T, **exactly)


# The decoders beside their papers' formulas.


def sigmoid(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def gru(w: Weights, name: str, x: Vector, h: Vector) -> Vector:
    """r, z, n; h' = (1 - z) n + z h, with torch's reset after the product."""
    wr, wz, wn = np.split(w[f"{name}.weight_ih"] @ x + w[f"{name}.bias_ih"], 3)
    ur, uz, un = np.split(w[f"{name}.weight_hh"] @ h + w[f"{name}.bias_hh"], 3)
    r, z = sigmoid(wr + ur), sigmoid(wz + uz)
    return (1 - z) * np.tanh(wn + r * un) + z * h


def lstm(w: Weights, name: str, x: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    """i, f, g, o; c' = f c + i g; h' = o tanh(c')."""
    gates = w[f"{name}.weight_ih"] @ x + w[f"{name}.bias_ih"] + w[f"{name}.weight_hh"] @ h + w[f"{name}.bias_hh"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def tanh(w: Weights, name: str, x: Vector, h: Vector) -> Vector:
    inputs, states = w[f"{name}.weight_ih"] @ x, w[f"{name}.weight_hh"] @ h
    return np.tanh(inputs + w[f"{name}.bias_ih"] + states + w[f"{name}.bias_hh"])


def softmax(scores: list[float]) -> Vector:
    powers = np.exp(np.array(scores) - max(scores))
    return powers / powers.sum()


def deep_output(w: Weights, s: Vector, y: Vector, c: Vector) -> Vector:
    """W_o t, with t the maxout of t~ = U_o s + V_o y + C_o c."""
    pairs = w["decoder.readout.pairs.weight"] @ np.concatenate([s, y, c]) + w["decoder.readout.pairs.bias"]
    t = np.array([max(pairs[2 * j], pairs[2 * j + 1]) for j in range(len(pairs) // 2)])
    return w["projection.tokens.weight"] @ t


def numbers(model: Recurrent) -> Weights:
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def read(model: Recurrent, source: Tensor, row: int, length: int) -> tuple[list[Vector], list[list[Vector]]]:
    """The annotations h_1 .. h_S of one sentence, and what each layer held at the end; torch reads it, alone."""
    with torch.no_grad():
        one = source[row : row + 1, :length]
        reading = model.encoder(one, mask.padding(one, PAD))
    return list(reading.hidden[0].numpy()), [[part[0].numpy() for part in layer] for layer in reading.final]


def bahdanau(model: Recurrent, annotations: list[Vector], words: list[int]) -> Iterator[Vector]:
    w, embeddings = numbers(model), numbers(model)["embedding.weight"]
    backward = annotations[0][model.config.d_model // 2 :]
    s = np.tanh(w["decoder.first.layers.0.weight"] @ backward + w["decoder.first.layers.0.bias"])
    w_a, u_a, v_a = (w[f"decoder.attention.attend.score.{part}.weight"] for part in ("query", "key", "value"))
    for word in words:
        y = embeddings[word]
        alpha = softmax([(v_a @ np.tanh(w_a @ s + u_a @ h)).item() for h in annotations])
        c = sum(weight * h for weight, h in zip(alpha, annotations, strict=True))
        step = gru if model.config.cell == "gru" else tanh
        s = step(w, "decoder.cells.layers.0", np.concatenate([y, c]), s)
        yield deep_output(w, s, y, c)


def cho(model: Recurrent, last: Vector, words: list[int]) -> Iterator[Vector]:
    w, embeddings = numbers(model), numbers(model)["embedding.weight"]
    c = np.tanh(w["decoder.summary.weight"] @ last + w["decoder.summary.bias"])
    h = np.tanh(w["decoder.first.layers.0.weight"] @ c + w["decoder.first.layers.0.bias"])
    for word in words:
        y = embeddings[word]
        h = gru(w, "decoder.cells.layers.0", np.concatenate([y, c]), h)
        yield deep_output(w, h, y, c)


def luong(model: Recurrent, annotations: list[Vector], last: list[list[Vector]], words: list[int]) -> Iterator[Vector]:
    """Two LSTM layers, the general score, input feeding, global or local-p."""
    w, embeddings = numbers(model), numbers(model)["embedding.weight"]
    (h1, c1), (h2, c2) = last
    attentional = np.zeros(model.config.d_model)
    for word in words:
        h1, c1 = lstm(w, "decoder.cells.layers.0", np.concatenate([embeddings[word], attentional]), h1, c1)
        h2, c2 = lstm(w, "decoder.cells.layers.1", h1, h2, c2)
        weights = luong_weights(model, w, h2, annotations)
        context = sum(weight * h for weight, h in zip(weights, annotations, strict=True))
        attentional = np.tanh(w["decoder.combine.weight"] @ np.concatenate([context, h2]))
        yield w["projection.tokens.weight"] @ attentional


def luong_weights(model: Recurrent, w: Weights, h: Vector, annotations: list[Vector]) -> Vector:
    w_a = w["decoder.attention.attend.score.key.weight"]
    scores = [(h @ w_a @ annotation).item() for annotation in annotations]
    if model.config.locality == "global":
        return softmax(scores)
    v_p, w_p = w["decoder.centre.value.weight"][0], w["decoder.centre.hidden.weight"]
    p = len(annotations) * sigmoid(v_p @ np.tanh(w_p @ h))
    d = model.config.window
    window = [s for s in range(len(annotations)) if round(p) - d <= s <= round(p) + d]
    weights = np.zeros(len(annotations))
    for s, align in zip(window, softmax([scores[s] for s in window]), strict=True):
        weights[s] = align * np.exp(-((s - p) ** 2) / (2 * (d / 2) ** 2))
    return weights


LENGTHS = (6, 9, 1)


@pytest.mark.parametrize("cell", ["gru", "tanh"])
@pytest.mark.parametrize("seed", range(5))
def test_bahdanau_is_what_the_paper_writes(cell: str, seed: int) -> None:
    model = make(seed, cell=cell, context="bahdanau", d_model=8, d_embedding=5, d_score=7)
    source, target = batch(list(LENGTHS)), targets(3, 4)
    logits = model(source, target).detach()
    for row, length in enumerate(LENGTHS):
        annotations, _ = read(model, source, row, length)
        expected = np.stack(list(bahdanau(model, annotations, target[row].tolist())))
        np.testing.assert_allclose(logits[row].numpy(), expected, **exactly)


@pytest.mark.parametrize("seed", range(5))
def test_cho_is_what_the_paper_writes(seed: int) -> None:
    model = make(seed, context="every", d_model=8, d_embedding=5, bidirectional=False)
    source, target = batch(list(LENGTHS)), targets(3, 4)
    logits = model(source, target).detach()
    for row, length in enumerate(LENGTHS):
        annotations, _ = read(model, source, row, length)
        expected = np.stack(list(cho(model, annotations[-1], target[row].tolist())))
        np.testing.assert_allclose(logits[row].numpy(), expected, **exactly)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("locality", ["global", "local-p"])
def test_luong_is_what_the_paper_writes(locality: str, seed: int) -> None:
    options = {"context": "luong", "score": "general", "locality": locality, "window": 2}
    model = make(seed, **options, cell="lstm", num_layers=2, d_model=8, d_embedding=5)
    source, target = batch(list(LENGTHS)), targets(3, 4)
    logits = model(source, target).detach()
    for row, length in enumerate(LENGTHS):
        annotations, last = read(model, source, row, length)
        expected = np.stack(list(luong(model, annotations, last, target[row].tolist())))
        np.testing.assert_allclose(logits[row].numpy(), expected, **exactly)
