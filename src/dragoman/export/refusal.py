"""What CTranslate2 cannot express, and so stays with torch, with the reason in words."""

from dragoman.data.alignment import AlignmentHead
from dragoman.models.config import ModelConfig


def why_not(model: ModelConfig) -> str | None:
    """Why this model cannot be exported; None if it can."""
    if model.family != "transformer":
        return f"CTranslate2 has no {model.family} models"
    width = model.d_model // model.num_heads
    if model.d_model % model.num_heads or (model.key_width, model.value_width) != (width, width):
        return (
            f"CTranslate2 has one width for queries, keys and values, d_model / num_heads, and this model has d_k "
            f"{model.key_width} and d_v {model.value_width}"
        )
    return None


def why_not_aligned(heads: tuple[AlignmentHead, ...]) -> str | None:
    """Why its attention cannot be read from an export; None if it can."""
    if not heads:
        return "no alignment head is stored in this bundle: dragoman align --search finds one"
    if len({head.layer for head in heads}) > 1:
        return "CTranslate2 shows the attention of one layer only, and the stored heads are in several"
    if len({head.rows for head in heads}) > 1:
        return "CTranslate2 shows the mean of the heads, and the stored ones read their rows differently"
    if any(head.measure != "attention" for head in heads):
        return "CTranslate2 shows attention as it is, not the norms that the stored heads are measured by"
    return None
