"""What came from where: measures that go beyond single attention maps. Each says exactly what it measures.

From a trace alone: encoder rollout and the sum of norms. With the model: the share of the source in each target token,
occlusion and gradient x input. The last two take a while: they tell how far they are, and can be cancelled.
"""

from collections.abc import Sequence
from threading import get_ident
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn

from dragoman.attention.multihead import KeyValue, MultiHead
from dragoman.attention.tap import Tap
from dragoman.data.alignment import Measure
from dragoman.data.vocab import BOS, UNK
from dragoman.decoding.walk import require_eval
from dragoman.inspection.importance import Progress, as_row, gradients, said, tell
from dragoman.inspection.trace import Kind, Trace
from dragoman.inspection.view import maps_of
from dragoman.layers.embedding import Embedding
from dragoman.layers.sublayer import Residual
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import DecoderLayer, Transformer


def encoder_rollout(
    trace: Trace, *, residual: float = 0.5, measure: Measure = "attention"
) -> Float[ndarray, "source source"]:
    """How much of each source token's input (columns) is in each position of the encoder's output (rows), if only
    attention and the way around it mattered: the product over layers of residual * I + (1 - residual) * A, A the mean
    of a layer's heads with rows that sum to 1 (Abnar and Zuidema, 2020). Feed-forward layers and norms are left out.
    """
    if not 0 <= residual < 1:
        raise ValueError(f"the residual's share must be from 0 to below 1, not {residual}")
    names = trace.names("encoder")
    if not names:
        raise ValueError("rollout needs an encoder with attention, and this model's has none: use occlusion instead")
    maps = maps_of(trace, measure)
    identity = np.eye(len(trace.source))
    mixed = identity
    for name in names:
        mixed = (residual * identity + (1 - residual) * _rows_to_1(maps[name].astype(np.float64).mean(0))) @ mixed
    return mixed


def norm_contributions(trace: Trace, kind: Kind = "cross") -> Float[ndarray, "rows keys"]:
    """The norms of the weighted, transformed values (Kobayashi et al., 2020), added up over all layers and heads of a
    kind, as shares of their row. Norms do not tell in which direction a value pushes, so opposite ones do not cancel.
    """
    names = trace.names(kind)
    if not names:
        raise ValueError(f"this trace has no {kind} attention: choose another kind")
    maps = maps_of(trace, "norm")
    return _rows_to_1(np.sum([maps[name].astype(np.float64).sum(0) for name in names], axis=0))


def _rows_to_1(matrix: Float[ndarray, "rows keys"]) -> Float[ndarray, "rows keys"]:
    """As shares; a row of zeros stays one."""
    total = matrix.sum(1, keepdims=True)
    return np.asarray(matrix / np.where(total > 0, total, 1.0))


@torch.no_grad()
def source_share(model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int]) -> Float[ndarray, " target"]:
    """How much of what writes each target token came from the source, not from the prefix: 0 to 1. Transformers only.

    In the manner of ALTI+ (Ferrando et al., 2022), with the encoder's output taken as the source. What stands at a
    position of the decoder starts as all prefix. In self-attention it becomes a mix of the positions before it. In
    cross-attention it becomes a mix of itself and of source. A part x of a sum y counts as max(0, |y| - |y - x|) in
    the L1 norm, over the same for all parts; in post-norm layers the parts go through the norm's centring and gain
    first. Biases and feed-forward layers are left out. A low run hints that the model goes on by itself.
    """
    require_eval(model)
    if not isinstance(model, Transformer):
        raise ValueError(
            f"the source share is known for Transformers only, not for {type(model).__name__}: use occlusion instead"
        )
    memory = model.encode(as_row(model, source))
    x = model.decoder.embedding(as_row(model, [BOS, *target[:-1]]))
    share = x.new_zeros(x.shape[1])
    for module, seen in zip(model.decoder.layers, model.decoder.remember(memory.hidden), strict=True):
        layer = cast("DecoderLayer", module)
        x, share = through(layer, x, share, seen, memory.visible)
    return np.asarray(share.double().cpu().numpy())


def through(
    layer: DecoderLayer,
    x: Float[Tensor, "1 target d_model"],
    share: Float[Tensor, " target"],
    seen: KeyValue,
    visible: Tensor,
) -> tuple[Tensor, Tensor]:
    """One decoder layer: what it does to the stream, and to the share of the source in it."""
    y = layer.around_self.enter(x)
    written = layer.self_attention.remember(y)
    with Tap(layer) as tap:
        output = layer.self_attention(y, written, causal=True)
    parts = _values(layer.self_attention, tap["self_attention"][0], written.value[0])
    index = torch.arange(len(share), device=x.device)
    parts[index, index] += x[0]  # what goes around is of the position itself
    share = _weighed(layer.around_self, parts) @ share
    x = layer.around_self.join(x, output)
    y = layer.around_cross.enter(x)
    with Tap(layer) as tap:
        output = layer.cross_attention(y, seen, visible)
    added = _values(layer.cross_attention, tap["cross_attention"][0], seen.value[0]).sum(1)
    prefix, from_source = _weighed(layer.around_cross, torch.stack([x[0], added], dim=1)).unbind(1)
    share = prefix * share + from_source
    x = layer.around_cross.join(x, output)
    return layer.around_feed_forward.join(x, layer.feed_forward(layer.around_feed_forward.enter(x))), share


def _values(
    attention: MultiHead, weights: Float[Tensor, "heads rows keys"], value: Float[Tensor, "heads keys d_v"]
) -> Float[Tensor, "rows keys d_model"]:
    """What each key adds to each row, all heads together."""
    by_head = attention.output.weight.view(-1, attention.num_heads, value.shape[-1])
    transformed = torch.einsum("hkv,mhv->hkm", value, by_head)
    return torch.einsum("hrk,hkm->rkm", weights, transformed)


def _weighed(residual: Residual, parts: Float[Tensor, "rows parts d_model"]) -> Float[Tensor, "rows parts"]:
    """How much each part counts in the sum of them."""
    if residual.place == "post":  # the norm's division is the same for all parts
        parts = (parts - parts.mean(-1, keepdim=True)) * residual.norm.weight
    whole = parts.sum(1, keepdim=True)
    near = (whole.abs().sum(-1) - (whole - parts).abs().sum(-1)).clamp_min(0.0)
    # Where parts cancel so far that none is near the sum, their sizes tell.
    near = torch.where(near.sum(1, keepdim=True) > 0, near, parts.abs().sum(-1))
    return near / near.sum(1, keepdim=True).clamp_min(torch.finfo(near.dtype).tiny)


@torch.no_grad()
def occlusion(
    model: Seq2Seq[Any, Any],
    source: Sequence[int],
    target: Sequence[int],
    *,
    instead: int = UNK,
    progress: Progress | None = None,
) -> Float[ndarray, "target source"]:
    """How many nats of its log-probability each target token, forced, loses when a source token is replaced by
    `instead`, one at a time, EOS too. Below 0: the token was in the way. Any family; one pass for each source token.
    """
    require_eval(model)
    plain = said(model, model.encode(as_row(model, source)), target)
    lost = []
    for j in range(len(source)):
        hidden = [*source[:j], instead, *source[j + 1 :]]
        lost.append(plain - said(model, model.encode(as_row(model, hidden)), target))
        tell(progress, j + 1, len(source))
    return torch.stack(lost, dim=1).double().cpu().numpy()


def gradient_x_input(
    model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int], *, progress: Progress | None = None
) -> Float[ndarray, "target source"]:
    """The gradient of each target token's log-probability, forced, with respect to each source token's embedding
    (without its position), times that embedding, summed over its numbers: to first order, what would be lost without
    it. Any family; one backward pass for each target token.
    """
    table = _source_table(model)
    thread, leaves = get_ident(), []

    def keep(_module: nn.Module, _given: Any, embedded: Tensor) -> Tensor | None:
        if get_ident() != thread:  # somebody else is using the model
            return None
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1]

    with gradients(model):
        hook = table.register_forward_hook(keep)
        try:  # the target may have the same table, and its embeddings are not asked for
            memory = model.encode(as_row(model, source))
        finally:
            hook.remove()
        (embedded,) = leaves
        log_probabilities = said(model, memory, target)
        slopes = []
        for i, one in enumerate(log_probabilities):
            slopes.append(torch.autograd.grad(one, embedded, retain_graph=True)[0][0])
            tell(progress, i + 1, len(log_probabilities))
        return (torch.stack(slopes) * embedded.detach()).sum(-1).double().cpu().numpy()


def _source_table(model: Seq2Seq[Any, Any]) -> nn.Embedding:
    embedding = model.get_submodule("encoder.embedding")
    table = embedding.tokens if isinstance(embedding, Embedding) else embedding
    assert isinstance(table, nn.Embedding)
    return table
