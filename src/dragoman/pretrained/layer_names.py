"""The names of a Transformer's layers in Marian's .npz files and in Hugging Face's folders, and ours."""

from collections.abc import Iterator
from typing import NamedTuple

from dragoman.models.config import TransformerShape


class LayerName(NamedTuple):
    """One linear map or norm of a layer: the beginning of its name in each format."""

    ours: str
    hugging_face: str
    marian: str
    """With a star for the kind of array: W, b or ln_scale."""
    is_norm: bool = False


def layer_names(shape: TransformerShape) -> Iterator[LayerName]:
    """Yield the linear maps and norms of both stacks."""
    for side, count in (("encoder", shape.num_encoder_layers), ("decoder", shape.num_decoder_layers)):
        for number in range(count):
            ours, theirs = f"{side}.layers.{number}", f"model.{side}.layers.{number}"
            yield from _layer(side, ours, theirs, f"{side}_l{number + 1}")
        if shape.norm == "pre":
            yield LayerName(f"{side}.norm", f"model.{side}.layer_norm", f"{side}_top", True)


def _layer(side: str, ours: str, theirs: str, marian: str) -> Iterator[LayerName]:
    yield from _attention(f"{ours}.self_attention", f"{theirs}.self_attn", f"{marian}_self")
    around = "around_attention" if side == "encoder" else "around_self"
    yield LayerName(f"{ours}.{around}.norm", f"{theirs}.self_attn_layer_norm", f"{marian}_self_Wo", True)
    if side == "decoder":
        yield from _attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn", f"{marian}_context")
        yield LayerName(f"{ours}.around_cross.norm", f"{theirs}.encoder_attn_layer_norm", f"{marian}_context_Wo", True)
    yield LayerName(f"{ours}.feed_forward.expand", f"{theirs}.fc1", f"{marian}_ffn_*1")
    yield LayerName(f"{ours}.feed_forward.contract", f"{theirs}.fc2", f"{marian}_ffn_*2")
    yield LayerName(f"{ours}.around_feed_forward.norm", f"{theirs}.final_layer_norm", f"{marian}_ffn_ffn", True)


def _attention(ours: str, theirs: str, marian: str) -> Iterator[LayerName]:
    for name, their_name, letter in (
        ("query", "q_proj", "q"),
        ("key", "k_proj", "k"),
        ("value", "v_proj", "v"),
        ("output", "out_proj", "o"),
    ):
        yield LayerName(f"{ours}.{name}", f"{theirs}.{their_name}", f"{marian}_*{letter}")
