"""What an engine process says of the models it has opened; the HTTP process opens none."""

from typing import Literal

from pydantic import Field

from dragoman.config import Config

UNDETERMINED = "und"
"""The code of a language that a bundle does not name (ISO 639)."""


class Facts(Config):
    """A model, as those who ask for translations need to know it."""

    name: str = Field(description="how requests ask for it")
    sha256: str = Field(description="which model it is: the hash of its bundle's manifest")
    source: str = Field(description="the language it reads, as a code; und if its bundle does not say")
    target: str = Field(description="the language it writes")
    title: str | None = Field(None, description="what it is called")
    beam_size: int = Field(description="of its own search")
    formula: Literal["gnmt", "length", "none"] = Field(description="of its own length penalty")
    alpha: float = Field(description="how strong that is")
    aligns: bool = Field(description="whether it can say which words belong together")
    compute: str = Field(description="what it multiplies: float32, int16 or int8")
