"""The base class of all configurations; does not import torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A frozen configuration that rejects unknown keys; every field has a description."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def describe_first(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return the first of pydantic's errors as `key: message`, without the name of our class.

    Lone surrogates become question marks.
    """
    place = ".".join(str(part) for part in errors[0]["loc"] if part != "body")
    parts = [place, errors[0]["msg"].partition(" or instance of")[0]]
    return ": ".join(filter(None, parts)).encode(errors="replace").decode()
