"""Token vectors: scaled, placed, thinned; and the projection that is the same matrix again."""

import math

import torch
from torch import nn

from dragoman.layers.embedding import Embedding, Projection, token_table
from dragoman.layers.positions import Positions

ROWS, LENGTH, VOCABULARY, D_MODEL = 3, 5, 13, 8


def made(dropout: float = 0.0) -> Embedding:
    return Embedding(token_table(VOCABULARY, D_MODEL), Positions("sinusoidal", 20, D_MODEL), dropout)


def test_an_embedding_is_the_token_times_root_d_model_plus_its_position() -> None:
    embedding, tokens = made(), torch.randint(VOCABULARY, (ROWS, LENGTH))
    for start in (0, 4):
        embedded = embedding(tokens, start)
        assert embedded.shape == (ROWS, LENGTH, D_MODEL)
        for row in range(ROWS):
            for i in range(LENGTH):
                vector = embedding.tokens.weight[tokens[row, i]]
                truth = vector * math.sqrt(D_MODEL) + embedding.positions.table[start + i]
                torch.testing.assert_close(embedded[row, i], truth)


def test_dropout_falls_on_the_sum_of_token_and_position() -> None:
    embedding, tokens = made(dropout=0.5), torch.randint(VOCABULARY, (ROWS, LENGTH))
    whole = embedding.eval()(tokens)
    thinned = embedding.train()(tokens)
    dropped = thinned == 0
    assert 0 < dropped.sum() < dropped.numel()
    torch.testing.assert_close(thinned[~dropped], whole[~dropped] * 2)


def test_a_projection_scores_each_token_by_its_vector() -> None:
    table = token_table(VOCABULARY, D_MODEL)
    x = torch.randn(ROWS, LENGTH, D_MODEL)
    scores = Projection(table)(x)
    assert scores.shape == (ROWS, LENGTH, VOCABULARY)
    for token in range(VOCABULARY):
        torch.testing.assert_close(scores[..., token], (x * table.weight[token]).sum(dim=-1))
    torch.testing.assert_close(Projection(table)(x[0, 0]), scores[0, 0])


def test_a_tied_table_learns_from_both_its_uses() -> None:
    embedding, tokens = made(), torch.tensor([[3, 3]])
    projection = Projection(embedding.tokens)
    projection(embedding(tokens)).sum().backward()
    gradient = embedding.tokens.weight.grad
    assert gradient is not None
    # Every token was an output; token 3 was an input too, and that share comes back scaled.
    output_share = embedding(tokens).sum(dim=(0, 1))
    input_share = 2 * math.sqrt(D_MODEL) * embedding.tokens.weight.sum(dim=0)
    torch.testing.assert_close(gradient[5], output_share)
    torch.testing.assert_close(gradient[3], output_share + input_share)


def test_token_vectors_begin_with_variance_one_over_d_model() -> None:
    for d_model in (16, 64):
        weight = token_table(500, d_model).weight
        # The sample variance of n normal draws has a relative standard deviation of sqrt(2 / n); 5 of them.
        assert abs(weight.var().item() * d_model - 1) < 5 * math.sqrt(2 / weight.numel())
        assert abs(weight.mean().item()) < 5 / math.sqrt(d_model * weight.numel())


def test_padding_is_a_token_like_any_other_in_the_table() -> None:
    """It is hidden by masks, so its vector needs no special case; a zero row would still score as an output."""
    table = token_table(VOCABULARY, D_MODEL)
    assert isinstance(table, nn.Embedding)
    assert table.padding_idx is None
    assert table.weight[0].abs().min() > 0
