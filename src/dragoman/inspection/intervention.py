"""What can be done to attention on purpose, as data that is kept with the trace it made. No torch here."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from dragoman.config import Config


class _Place(Config):
    """Where to intervene."""

    where: str = Field(
        description="the name of an attention (decoder.layers.2.cross_attention), of a layer (decoder.layers.2) or a "
        "kind: encoder or decoder (each one's attention to itself) or cross"
    )
    heads: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(None, description="their numbers; null = all")


class Off(_Place):
    """These heads give nothing; what flows around the attention stays."""

    do: Literal["off"] = "off"


class Uniform(_Place):
    """Every key that can be seen weighs the same."""

    do: Literal["uniform"] = "uniform"


class Permuted(_Place):
    """The weights of each row are dealt out anew among the keys it can see."""

    do: Literal["permuted"] = "permuted"
    seed: int = Field(0, ge=0, description="another seed deals another way")


class Looking(_Place):
    """All weight on one key, counted from 0; rows that cannot see it stay as they are."""

    do: Literal["looking"] = "looking"
    position: int = Field(ge=0)


class Given(_Place):
    """The weights of the first rows, one column for each key; later rows stay as they are."""

    do: Literal["given"] = "given"
    matrix: tuple[tuple[float, ...], ...]

    @field_validator("matrix")
    @classmethod
    def _of_shares(cls, matrix: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        for i, row in enumerate(matrix):
            if not all(weight >= 0 for weight in row) or abs(sum(row) - 1) > 1e-3:
                raise ValueError(f"row {i} of the matrix is no distribution: give numbers from 0 up that sum to 1")
        return matrix


Intervention = Annotated[Off | Uniform | Permuted | Looking | Given, Field(discriminator="do")]
Interventions = Sequence[Off | Uniform | Permuted | Looking | Given]

_KINDS: Final = {
    "encoder": "every self-attention of the encoder",
    "decoder": "every self-attention of the decoder",
    "cross": "every cross-attention",
}


def said(interventions: Interventions) -> str:
    """In words, for a caption: head 1 of decoder.layers.2.cross_attention off, every cross-attention uniform."""
    return ", ".join(f"{_heads(one.heads)}{_KINDS.get(one.where, one.where)} {_done(one)}" for one in interventions)


def _heads(heads: tuple[int, ...] | None) -> str:
    if heads is None:
        return ""
    return f"head{'' if len(heads) == 1 else 's'} {' and '.join(map(str, heads))} of "


def _done(one: Off | Uniform | Permuted | Looking | Given) -> str:
    match one:
        case Permuted():
            return f"permuted (seed {one.seed})"
        case Looking():
            return f"looking at key {one.position}"
    return one.do
