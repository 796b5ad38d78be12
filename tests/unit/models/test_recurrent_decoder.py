"""The parts the recurrent decoders share."""

import torch

from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent_decoder import FirstState, Maxout, build_decoder

SIZE = {"source_vocabulary": 5, "target_vocabulary": 8, "d_model": 6, "d_embedding": 7}


def test_maxout_takes_the_larger_of_each_neighbouring_pair() -> None:
    maxout = Maxout(4, 3)
    x = torch.randn(2, 5, 4)
    pairs = x @ maxout.pairs.weight.T + maxout.pairs.bias
    expected = torch.stack([torch.maximum(pairs[..., 2 * j], pairs[..., 2 * j + 1]) for j in range(3)], dim=-1)
    torch.testing.assert_close(maxout(x), expected)


def test_the_first_state_has_a_part_for_each_layer_and_for_each_memory_cell() -> None:
    config = RecurrentConfig(**SIZE, cell="lstm", num_layers=3)
    first, summary = FirstState(config, 4), torch.randn(2, 4)
    layers = first(summary)
    assert [[tuple(part.shape) for part in layer] for layer in layers] == [[(2, 6), (2, 6)]] * 3
    for linear, layer in zip(first.layers, layers, strict=True):
        torch.testing.assert_close(torch.cat(layer, dim=-1), torch.tanh(linear(summary)))


def test_each_context_has_the_decoder_of_its_paper() -> None:
    scores = {"first": "additive", "every": "additive", "bahdanau": "additive", "luong": "dot"}
    configs = [RecurrentConfig(**SIZE, context=context, score=score) for context, score in scores.items()]
    assert [type(build_decoder(config)).__name__ for config in configs] == ["Sutskever", "Cho", "Bahdanau", "Luong"]
