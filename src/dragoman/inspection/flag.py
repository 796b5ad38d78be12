"""What a flag is, and the rules that decide when one is raised. No torch here."""

from typing import Literal

from pydantic import Field

from dragoman.config import Config

Span = tuple[int, int]
"""From where to where, in characters."""

Name = Literal["dropped", "repeated", "low source share", "copied", "numbers", "addresses", "length"]


class Flag(Config):
    """Something in a translation that a person should look at. It is a reason to look, never a verdict."""

    name: Name
    severity: float = Field(ge=0.0, le=1.0, description="how bad it would be, if it is what it looks like")
    evidence: str = Field(description="what was seen, in words, with its numbers")
    source: tuple[Span, ...] = Field((), description="where in the source")
    target: tuple[Span, ...] = Field((), description="where in the target")


class FlagRules(Config):
    """When a flag is raised."""

    expected_ratio: float = Field(1.0, gt=0.0, description="characters of the target for each one of the source")
    length_limit: float = Field(1.5, gt=1.0, description="how many times longer or shorter than expected is too much")
    repeated_words: int = Field(4, ge=2, description="words that come twice, apart from each other, are a repetition")
    copied_words: int = Field(4, ge=1, description="words in a row, taken over from the source, are a copy")
    dropped_words: int = Field(2, ge=1, description="content words in a row that nothing looked at are dropped")
    coverage: float = Field(0.4, ge=0.0, description="a word got less than this part of an even share: not looked at")
    low_share: float = Field(0.25, ge=0.0, le=1.0, description="a source share below it is low")
    low_run: int = Field(4, ge=1, description="so many tokens in a row with a low source share are too many")


def quoted(text: str, limit: int = 60) -> str:
    """A text as evidence quotes it: in quotation marks, the middle of a long one left out."""
    if len(text) > limit:
        text = f"{text[: limit // 2]} … {text[-limit // 2 :]}"
    return f'"{text}"'


def several(count: int, thing: str) -> str:
    """1 word, 2 words."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
