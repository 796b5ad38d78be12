"""Checks for models and alignment heads that CTranslate2 does not support."""

from dragoman.bundle.alignment_head import Heads
from dragoman.models.config import ModelConfig


def find_obstacle(model: ModelConfig) -> str | None:
    """Return the reason why a model cannot be exported to CTranslate2, or None."""
    if model.family != "transformer":
        return f"CTranslate2 has no {model.family} models"
    if model.positions in ("rotary", "none"):
        return f"exports for CTranslate2 add positions to embeddings, and this model has positions: {model.positions}"
    width = model.d_model // model.num_heads
    if model.d_model % model.num_heads or (model.key_width, model.value_width) != (width, width):
        widths = f"d_k {model.key_width} and d_v {model.value_width}"
        return f"CTranslate2 needs d_k = d_v = d_model / num_heads = {model.d_model / model.num_heads:g}, not {widths}"
    return None


def find_alignment_obstacle(heads: Heads) -> str | None:
    """Return the reason why an export cannot return the attention of `heads`, or None."""
    if not heads:
        return "no alignment head is stored in this bundle: run dragoman align --search --store"
    if len({head.layer for head in heads}) > 1:
        return "CTranslate2 returns the attention of a single layer, but the stored heads are in several layers"
    if len({head.rows for head in heads}) > 1:
        return "CTranslate2 returns the mean of the heads, but the stored heads differ in `rows`"
    if any(head.measure != "attention" for head in heads):
        return "CTranslate2 returns attention weights, but the stored heads use norms"
    return None
