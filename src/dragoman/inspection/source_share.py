"""The source share of each target token: how much the source, rather than the target prefix, contributes.

The method follows ALTI+ (Ferrando et al., 2022), with the encoder's output taken as the source. A decoder position
starts with a share of 0. Self-attention mixes the shares of the current and earlier positions; cross-attention mixes
the share with the source. A part x of a sum y has the size max(0, |y| - |y - x|) in the L1 norm, divided by the total
over all parts; in post-norm layers the norm's centring and gain are applied to the parts first. Biases and feed-forward
layers are left out. A run of low shares suggests that the model ignores the source.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from dragoman.attention.multihead import KeyValue, MultiHead
from dragoman.attention.tap import Tap
from dragoman.decoding.decode_loop import require_eval
from dragoman.layers.sublayer import Residual
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.models.transformer import DecoderLayer


@torch.no_grad()
def source_share(model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int]) -> Float[ndarray, " target"]:
    """Return the source share of each target token, from 0 to 1; the decoder must have a residual stream."""
    require_eval(model)
    decoder = model.residual_decoder
    if decoder is None:
        name = type(model).__name__
        raise ValueError(f"the source share needs a residual stream, which {name} does not have: use a Transformer")
    device = next(model.parameters()).device
    memory = model.encode(torch.tensor([source], device=device))
    x = decoder.embedding(shifted(torch.tensor([target], device=device)))
    share = x.new_zeros(x.shape[1])
    for layer, seen in zip(decoder.layers, decoder.remember(memory.hidden), strict=True):
        x, share = apply_layer(cast("DecoderLayer", layer), x, share, seen, memory.visible)
    return np.asarray(share.cpu().double().numpy())


def apply_layer(
    layer: DecoderLayer,
    x: Float[Tensor, "1 target d_model"],
    share: Float[Tensor, " target"],
    seen: KeyValue,
    visible: Tensor,
) -> tuple[Tensor, Tensor]:
    """Apply one decoder layer to the residual stream and to the source shares."""
    y = layer.around_self.enter(x)
    written = layer.self_attention.remember(y)
    with Tap(layer) as tap:
        output = layer.self_attention(y, written, causal=True)
    parts = _values(layer.self_attention, tap["self_attention"][0], written.value[0])
    index = torch.arange(len(share), device=x.device)
    parts[index, index] += x[0]  # the residual connection carries the position itself
    share = _relative_sizes(layer.around_self, parts) @ share
    x = layer.around_self.join(x, output)
    y = layer.around_cross.enter(x)
    with Tap(layer) as tap:
        output = layer.cross_attention(y, seen, visible)
    added = _values(layer.cross_attention, tap["cross_attention"][0], seen.value[0]).sum(1)
    prefix, from_source = _relative_sizes(layer.around_cross, torch.stack([x[0], added], dim=1)).unbind(1)
    share = prefix * share + from_source
    x = layer.around_cross.join(x, output)
    return layer.around_feed_forward.join(x, layer.feed_forward(layer.around_feed_forward.enter(x))), share


def _values(
    attention: MultiHead, weights: Float[Tensor, "heads rows keys"], value: Float[Tensor, "heads keys d_v"]
) -> Float[Tensor, "rows keys d_model"]:
    """Return the vector that each key adds to each row, summed over the heads."""
    by_head = attention.output.weight.view(-1, attention.num_heads, value.shape[-1])
    transformed = torch.einsum("hkv,mhv->hkm", value, by_head)
    return torch.einsum("hrk,hkm->rkm", weights, transformed)


def _relative_sizes(residual: Residual, parts: Float[Tensor, "rows parts d_model"]) -> Float[Tensor, "rows parts"]:
    """Return max(0, |sum| - |sum - part|) of each part in the L1 norm, divided by the total over the parts."""
    if residual.place == "post":  # the norm's division is the same for all parts
        parts = (parts - parts.mean(-1, keepdim=True)) * residual.norm.weight
    whole = parts.sum(1, keepdim=True)
    near = (whole.abs().sum(-1) - (whole - parts).abs().sum(-1)).clamp_min(0.0)
    # Where parts cancel so far that none is near the sum, their sizes decide.
    near = torch.where(near.sum(1, keepdim=True) > 0, near, parts.abs().sum(-1))
    return near / near.sum(1, keepdim=True).clamp_min(torch.finfo(near.dtype).tiny)
