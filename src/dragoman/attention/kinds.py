"""The kinds of attention, by module name. Does not import torch."""

from typing import Literal

Kind = Literal["encoder", "decoder", "cross"]
"""The kind of an attention: encoder self-attention, decoder self-attention or cross-attention."""


def kind_of(name: str) -> Kind:
    """Return the kind of an attention by its module name, such as decoder.layers.2.cross_attention."""
    if name.startswith("encoder."):
        return "encoder"
    return "decoder" if name.endswith("self_attention") else "cross"
