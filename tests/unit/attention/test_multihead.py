"""Multi-head attention against section 3.2.2 written out head by head, and its cache against doing all at once."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.attention import mask
from dragoman.attention.multihead import KeyValue, MultiHead

pytestmark = pytest.mark.usefixtures("float64")

BATCH, HEADS, QUERIES, KEYS, D_K, D_V, D_MODEL = 2, 3, 5, 7, 4, 6, 10


def head_by_head(attention: MultiHead, asking: Tensor, seen: Tensor, visible: Tensor) -> Tensor:
    """Concat(head_1, ..., head_h) W^O with head_i = softmax(Q W_i^Q (K W_i^K)^T / sqrt(d_k)) V W_i^V."""
    heads = []
    for i in range(attention.num_heads):
        query = asking @ attention.query.weight[i * D_K : (i + 1) * D_K].T
        key = seen @ attention.key.weight[i * D_K : (i + 1) * D_K].T
        value = seen @ attention.value.weight[i * D_V : (i + 1) * D_V].T
        scores = torch.einsum("bqd,bkd->bqk", query, key) / math.sqrt(D_K)
        heads.append((scores + torch.where(visible[:, 0], 0.0, -math.inf)).softmax(dim=-1) @ value)
    return torch.cat(heads, dim=-1) @ attention.output.weight.T


def test_every_head_attends_in_its_own_space() -> None:
    attention = MultiHead(D_MODEL, HEADS, D_K, D_V)
    asking, seen = torch.randn(BATCH, QUERIES, D_MODEL), torch.randn(BATCH, KEYS, D_MODEL)
    visible = torch.ones(BATCH, 1, 1, KEYS, dtype=torch.bool)
    visible[1, ..., 4:] = False
    ours = attention(asking, attention.remember(seen), visible)
    torch.testing.assert_close(ours, head_by_head(attention, asking, seen, visible), rtol=0, atol=1e-12)


def test_widths_follow_from_d_model_unless_given() -> None:
    square = {"query.weight": (12, 12), "key.weight": (12, 12), "value.weight": (12, 12), "output.weight": (12, 12)}
    assert shapes(MultiHead(12, 3)) == square
    assert shapes(MultiHead(12, 3, d_k=5)) == square | {"query.weight": (15, 12), "key.weight": (15, 12)}
    assert shapes(MultiHead(12, 3, d_v=7)) == square | {"value.weight": (21, 12), "output.weight": (12, 21)}


def shapes(attention: MultiHead) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in attention.named_parameters()}


def test_the_paper_draws_no_bias() -> None:
    assert all(name.endswith("weight") for name, _ in MultiHead(12, 3).named_parameters())
    biases = [name for name, _ in MultiHead(12, 3, bias=True).named_parameters() if name.endswith("bias")]
    assert biases == ["query.bias", "key.bias", "value.bias", "output.bias"]


def test_dropout_belongs_to_the_weights_in_training_alone() -> None:
    attention = MultiHead(12, 3, dropout=0.5)
    x = torch.randn(BATCH, KEYS, 12)
    twice = [attention(x, attention.remember(x)) for _ in range(2)]
    assert not torch.equal(*twice)
    attention.eval()
    twice = [attention(x, attention.remember(x)) for _ in range(2)]
    assert torch.equal(*twice)


def test_a_cache_filled_step_by_step_gives_what_the_causal_mask_gives() -> None:
    attention = MultiHead(D_MODEL, HEADS, D_K, D_V)
    x = torch.randn(BATCH, QUERIES, D_MODEL)
    at_once = attention(x, attention.remember(x), causal=True)
    cache = attention.remember(x[:, :1])
    for i in range(QUERIES):
        cache = cache if i == 0 else cache.append(attention.remember(x[:, i : i + 1]))
        assert cache.key.shape == (BATCH, HEADS, i + 1, D_K)
        assert cache.value.shape == (BATCH, HEADS, i + 1, D_V)
        step = attention(x[:, i : i + 1], cache)
        torch.testing.assert_close(step, at_once[:, i : i + 1], rtol=0, atol=1e-12)


def test_causal_and_padding_hide_together() -> None:
    attention = MultiHead(D_MODEL, HEADS, D_K, D_V)
    x = torch.randn(BATCH, KEYS, D_MODEL)
    visible = mask.padding(torch.tensor([[1] * KEYS, [1, 1, 1, 0, 0, 0, 0]]), pad=0)
    both = attention(x, attention.remember(x), visible, causal=True)
    met = visible & mask.causal(KEYS)
    torch.testing.assert_close(both, head_by_head(attention, x, x, met), rtol=0, atol=1e-12)


def test_selecting_rows_of_a_cache_repeats_drops_and_reorders() -> None:
    cache = KeyValue(torch.randn(4, HEADS, KEYS, D_K), torch.randn(4, HEADS, KEYS, D_V))
    rows = [3, 0, 0, 2, 3]
    chosen = cache.select(torch.tensor(rows))
    assert chosen.key.shape[0] == len(rows)
    for new, old in enumerate(rows):
        assert torch.equal(chosen.key[new], cache.key[old])
        assert torch.equal(chosen.value[new], cache.value[old])


def test_appending_leaves_the_old_cache_as_it_was() -> None:
    old = KeyValue(torch.randn(BATCH, HEADS, 2, D_K), torch.randn(BATCH, HEADS, 2, D_V))
    key, value = old.key.clone(), old.value.clone()
    grown = old.append(KeyValue(torch.randn(BATCH, HEADS, 1, D_K), torch.randn(BATCH, HEADS, 1, D_V)))
    grown.key.zero_()
    grown.value.zero_()
    assert torch.equal(old.key, key)
    assert torch.equal(old.value, value)
