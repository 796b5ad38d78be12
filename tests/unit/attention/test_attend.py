"""One true path against plain loops, every fused kernel against the true path, and which of them a call takes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.attention import mask
from dragoman.attention.attend import FUSED_BF16_BACKWARD_FROM, Attend, Path, fastest_path, masked_softmax
from dragoman.attention.score import Additive, Dot, ScaledDot, Score

BATCH, HEADS, QUERIES, KEYS, D_K, D_V = 2, 3, 5, 7, 4, 6
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


class Ops(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The names of the kernels that run while it is open."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def inputs(
    dtype: torch.dtype = torch.float64, keys: int = KEYS, d_v: int = D_K, queries: int = QUERIES
) -> list[Tensor]:
    shapes = [(queries, D_K), (keys, D_K), (keys, d_v)]
    return [torch.randn(BATCH, HEADS, *shape, dtype=dtype, requires_grad=True) for shape in shapes]


def some_visible(queries: int, keys: int) -> Tensor:
    """Random, different in every row and head; the first key is always visible."""
    visible = torch.rand(BATCH, HEADS, queries, keys) > 0.5
    visible[..., 0] = True
    return visible


def output_and_gradients(attend: Attend, qkv: list[Tensor], visible: Tensor | None, causal: bool) -> list[Tensor]:
    mixed = attend(*qkv, visible, causal=causal)
    judge = torch.randn(mixed.shape, dtype=mixed.dtype, generator=torch.Generator().manual_seed(5))
    return [mixed, *torch.autograd.grad((mixed * judge).sum(), qkv)]


def largest_gap(a: list[Tensor], b: list[Tensor]) -> float:
    return max((x - y).abs().max().item() for x, y in zip(a, b, strict=True))


@torch.no_grad()
def by_loops(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """softmax(q k / sqrt(d_k)) v, one number at a time."""
    mixed = torch.zeros(BATCH, HEADS, query.shape[2], value.shape[3], dtype=query.dtype)
    for b, h, q in torch.cartesian_prod(*(torch.arange(n) for n in mixed.shape[:3])).tolist():
        seen = [k for k in range(key.shape[2]) if visible[b, h, q, k]]
        e = [math.exp(float(query[b, h, q] @ key[b, h, k]) / math.sqrt(D_K)) for k in seen]
        for share, k in zip(e, seen, strict=True):
            mixed[b, h, q] += share / sum(e) * value[b, h, k]
    return mixed


def test_the_explicit_path_is_the_formula() -> None:
    qkv, visible = inputs(d_v=D_V), some_visible(QUERIES, KEYS)
    mixed = Attend(ScaledDot(), path="explicit")(*qkv, visible)
    torch.testing.assert_close(mixed, by_loops(qkv[0], qkv[1], qkv[2], visible), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("hides", ["nothing", "some", "later", "some and later"])
@pytest.mark.parametrize("score", [Dot(), ScaledDot()], ids=["dot", "scaled dot"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_fused_kernel_gives_what_the_explicit_path_gives(
    kernel: SDPBackend, score: Score, hides: str, dtype: torch.dtype
) -> None:
    causal = "later" in hides
    queries = KEYS if causal else QUERIES
    qkv = inputs(dtype, queries=queries)
    visible = some_visible(queries, KEYS) if "some" in hides else None
    truth = output_and_gradients(Attend(score, path="explicit"), qkv, visible, causal)
    with sdpa_kernel(kernel):
        fused = output_and_gradients(Attend(score, path="fused"), qkv, visible, causal)
    assert largest_gap(fused, truth) < TOLERANCE[dtype]


@pytest.mark.parametrize("hides", ["some", "later", "some and later"])
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_what_is_hidden_matters(path: Path, hides: str) -> None:
    causal = "later" in hides
    qkv = inputs(queries=KEYS)
    visible = some_visible(KEYS, KEYS) if "some" in hides else None
    with_mask = output_and_gradients(Attend(ScaledDot(), path=path), qkv, visible, causal)
    without = output_and_gradients(Attend(ScaledDot(), path=path), qkv, None, False)
    assert largest_gap(with_mask, without) > 0.1


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_causal_is_the_meeting_with_the_causal_mask(path: Path) -> None:
    qkv, visible, attend = inputs(queries=KEYS), some_visible(KEYS, KEYS), Attend(ScaledDot(), path=path)
    met = mask.meeting(visible, mask.causal(KEYS))
    assert largest_gap([attend(*qkv, visible, causal=True)], [attend(*qkv, met)]) < 1e-12
    assert largest_gap([attend(*qkv, causal=True)], [attend(*qkv, mask.causal(KEYS)[None, None])]) < 1e-12


def blind_in_row_1(queries: int, keys: int) -> Tensor:
    visible = some_visible(queries, keys)
    visible[1, :, 2] = False
    return visible


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", [None, *KERNELS], ids=lambda kernel: kernel.name if kernel else "explicit")
def test_a_query_that_sees_no_key_gets_zero_and_gives_no_gradient(
    kernel: SDPBackend | None, causal: bool, dtype: torch.dtype
) -> None:
    queries = KEYS if causal else QUERIES
    qkv, visible = inputs(dtype, queries=queries), blind_in_row_1(queries, KEYS)
    truth = output_and_gradients(Attend(ScaledDot(), path="explicit"), qkv, visible, causal)
    path: Path = "explicit" if kernel is None else "fused"
    with sdpa_kernel(kernel or SDPBackend.MATH):
        mixed, *gradients = output_and_gradients(Attend(ScaledDot(), path=path), qkv, visible, causal)
    assert torch.equal(mixed[1, :, 2], torch.zeros(HEADS, D_K, dtype=dtype))
    assert torch.equal(gradients[0][1, :, 2], torch.zeros(HEADS, D_K, dtype=dtype))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert largest_gap([mixed, *gradients], truth) < TOLERANCE[dtype]


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_where_nothing_at_all_is_visible_everything_is_zero(path: Path) -> None:
    nothing = torch.zeros(BATCH, 1, 1, KEYS, dtype=torch.bool)
    everything = output_and_gradients(Attend(ScaledDot(), path=path), inputs(), nothing, causal=False)
    assert all(torch.equal(part, torch.zeros_like(part)) for part in everything)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_fused_kernels_agree_where_whole_blocks_of_keys_are_hidden(kernel: SDPBackend) -> None:
    keys = 1100  # torch's CPU kernel walks over keys in blocks of at most 512
    qkv, visible = inputs(keys=keys), blind_in_row_1(QUERIES, keys)
    visible[0, :, 0, :-1] = False
    visible[0, :, 0, -1] = True
    visible[0, :, 1, 1:] = False
    truth = output_and_gradients(Attend(ScaledDot(), path="explicit"), qkv, visible, causal=False)
    with sdpa_kernel(kernel):
        fused = output_and_gradients(Attend(ScaledDot(), path="fused"), qkv, visible, causal=False)
    assert largest_gap(fused, truth) < 1e-10


def test_a_softmax_over_visible_scores_ignores_the_hidden_ones() -> None:
    scores, visible = torch.randn(BATCH, HEADS, QUERIES, KEYS), some_visible(QUERIES, KEYS)
    weights = masked_softmax(scores, visible)
    assert torch.equal(weights == 0, ~visible)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH, HEADS, QUERIES))
    for absurd in (1e30, math.inf, math.nan):
        assert torch.equal(masked_softmax(scores.masked_fill(~visible, absurd), visible), weights)


def test_reweighting_multiplies_the_weights_and_does_not_normalise_again() -> None:
    query, key, _ = inputs()
    value = torch.eye(KEYS, dtype=torch.float64).expand(BATCH, HEADS, KEYS, KEYS)  # the mix is then the weights
    visible, reweight = some_visible(QUERIES, KEYS), torch.rand(BATCH, 1, QUERIES, KEYS, dtype=torch.float64)
    plain = Attend(ScaledDot())(query, key, value, visible)
    local = Attend(ScaledDot(), path="fused")(query, key, value, visible, reweight=reweight)
    torch.testing.assert_close(local, plain * reweight, rtol=0, atol=1e-12)
    assert local.sum(dim=-1).max() < 0.99


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_dropout_takes_whole_weights_away_and_scales_the_others(path: Path) -> None:
    query, key, _ = inputs()
    value = torch.eye(KEYS, dtype=torch.float64).expand(BATCH, HEADS, KEYS, KEYS)
    attend = Attend(ScaledDot(), dropout=0.25, path=path)
    weights = attend.eval()(query, key, value)
    thinned = attend.train()(query, key, value)
    kept = thinned != 0
    torch.testing.assert_close(thinned[kept], weights[kept] / 0.75, rtol=0, atol=1e-12)
    # 210 draws at .25: outside of 5 standard deviations once in two million seeds, and the seed is fixed.
    expected, deviation = 0.25 * kept.numel(), math.sqrt(0.25 * 0.75 * kept.numel())
    assert abs((~kept).sum().item() - expected) < 5 * deviation
    assert torch.equal(attend.eval()(query, key, value), weights)


@pytest.mark.parametrize("num_keys", [1, FUSED_BF16_BACKWARD_FROM - 1, FUSED_BF16_BACKWARD_FROM])
@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_only_short_bfloat16_training_on_a_cpu_is_faster_unfused(
    device: str, dtype: torch.dtype, with_gradient: bool, num_keys: int
) -> None:
    short = num_keys < FUSED_BF16_BACKWARD_FROM
    slow = device == "cpu" and dtype == torch.bfloat16 and with_gradient and short
    assert fastest_path(torch.device(device), dtype, num_keys, with_gradient) == ("explicit" if slow else "fused")


def paths(attend: Attend, qkv: list[Tensor]) -> set[str]:
    with Ops() as ops:
        attend(*qkv)
    return {PATHS[name] for name in ops.names if name in PATHS}


PATHS = {
    "_softmax": "explicit",
    "_scaled_dot_product_flash_attention_for_cpu": "fused",
    # What inference_mode shows in their place: the same, not yet taken apart.
    "softmax": "explicit",
    "scaled_dot_product_attention": "fused",
}


def test_training_in_bfloat16_takes_the_explicit_path_and_inference_the_fused() -> None:
    attend, qkv = Attend(ScaledDot()), inputs(torch.bfloat16)
    assert paths(attend, qkv) == {"explicit"}
    assert paths(attend, inputs(torch.bfloat16, keys=FUSED_BF16_BACKWARD_FROM)) == {"fused"}
    assert paths(attend, [part.detach() for part in qkv]) == {"fused"}
    with torch.no_grad():
        assert paths(attend, qkv) == {"fused"}
    with torch.inference_mode():
        assert paths(attend, qkv) == {"fused"}
        assert paths(Attend(ScaledDot(), path="explicit"), qkv) == {"explicit"}


def test_training_in_float32_takes_the_fused_path_unless_told_otherwise() -> None:
    assert paths(Attend(ScaledDot()), inputs(torch.float32)) == {"fused"}
    assert paths(Attend(ScaledDot(), path="explicit"), inputs(torch.float32)) == {"explicit"}
    assert paths(Attend(ScaledDot(), path="fused"), inputs(torch.bfloat16)) == {"fused"}


def test_a_score_no_kernel_knows_is_computed_explicitly() -> None:
    score = Additive(D_K, D_V, d_hidden=8).double()
    query, _, value = inputs()
    wide = torch.randn(BATCH, HEADS, KEYS, D_V, dtype=torch.float64)
    with Ops() as ops:
        mixed = Attend(score)(query, score.prepare(wide), value)
    assert "_softmax" in ops.names
    assert mixed.shape == (BATCH, HEADS, QUERIES, D_K)
    weights = score(query, score.prepare(wide)).softmax(dim=-1)
    torch.testing.assert_close(mixed, weights @ value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_causal_without_a_key_for_each_query_is_refused_on_every_path(path: Path) -> None:
    with pytest.raises(ValueError, match=f"not {KEYS} and {QUERIES}"):
        Attend(ScaledDot(), path=path)(*inputs(), causal=True)


def test_a_query_that_sees_nothing_makes_no_nan_even_on_the_way() -> None:
    visible = some_visible(QUERIES, KEYS)
    visible[0, 0, 2] = False
    with torch.autograd.set_detect_anomaly(True):  # type: ignore[no-untyped-call]
        output_and_gradients(Attend(ScaledDot(), path="explicit"), inputs(), visible, causal=False)


def test_values_alone_that_need_a_gradient_count_as_training() -> None:
    attend = Attend(ScaledDot())
    query, key, value = inputs(torch.bfloat16)
    assert paths(attend, [query.detach(), key.detach(), value]) == {"explicit"}
    assert paths(attend, [query.detach(), key.detach(), value.detach()]) == {"fused"}
