"""Interventions on attention heads, as stored in a trace. This module does not import torch."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from dragoman.attention.kinds import kind_of
from dragoman.config import Config


class _Target(Config):
    """The heads that an intervention changes."""

    where: str = Field(
        description="name of an attention (decoder.layers.2.cross_attention) or of a layer (decoder.layers.2), or a "
        "kind: encoder or decoder (self-attention) or cross"
    )
    heads: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(None, description="head numbers; null = all heads")


class HeadsOff(_Target):
    """Heads switched off: all attention weights are 0, and the residual connection stays."""

    do: Literal["off"] = "off"


class HeadsUniform(_Target):
    """Heads made uniform: every visible key has the same attention weight."""

    do: Literal["uniform"] = "uniform"


class HeadsPermuted(_Target):
    """Heads permuted: the attention weights of each row are permuted at random among the visible keys."""

    do: Literal["permuted"] = "permuted"
    seed: int = Field(0, ge=0, description="seed of the permutation")


Intervention = HeadsOff | HeadsUniform | HeadsPermuted
Interventions = Sequence[Intervention]

_KINDS: Final = {
    "encoder": "every self-attention of the encoder",
    "decoder": "every self-attention of the decoder",
    "cross": "every cross-attention",
}


def describe_interventions(interventions: Interventions) -> str:
    """Return a caption of the interventions, such as `head 1 of decoder.layers.2.cross_attention off`."""
    texts = []
    for change in interventions:
        numbers = change.heads or ()
        heads = f"head{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))} of " if numbers else ""
        seed = f" (seed {change.seed})" if isinstance(change, HeadsPermuted) else ""
        texts.append(f"{heads}{_KINDS.get(change.where, change.where)} {change.do}{seed}")
    return ", ".join(texts)


def parse_heads(text: str, names: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """Parse a comma-separated list into head numbers by attention, layer or kind; None means all heads.

    `decoder.layers.2.cross_attention.1,encoder.layers.0` is head 1 of the cross-attention and every head of the
    encoder layer. `names` are the names of the model's attentions.
    """
    known = list(names)
    places: dict[str, tuple[int, ...] | None] = {}
    for part in (part.strip() for part in text.split(",")):
        where, _, head = part.rpartition(".")
        if any(is_at(name, part) for name in known):
            places[part] = None
        elif head.isdecimal() and (where in known or any(kind_of(name) == where for name in known)):
            before = places.get(where, ())
            places[where] = None if before is None else (*before, int(head))
        else:
            raise ValueError(f"there is no attention at {part!r}: choose from {', '.join(known) or 'none'}")
    return places


def parse_interventions(
    names: Iterable[str], without: str | None = None, uniform: str | None = None
) -> list[Intervention]:
    """Return the interventions for lists of heads to switch off (`without`) and to make uniform (`uniform`)."""
    known, changes = list(names), list[Intervention]()
    for change, text in ((HeadsOff, without), (HeadsUniform, uniform)):
        places = {} if text is None else parse_heads(text, known)
        changes += [change(where=where, heads=heads) for where, heads in places.items()]
    return changes


def is_at(name: str, where: str) -> bool:
    """Return True if `where` is the name, the layer or the kind of the attention `name`."""
    if where in _KINDS:
        return kind_of(name) == where
    return name == where or name.startswith(f"{where}.")
