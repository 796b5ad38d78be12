"""What a flag is, and the rules that decide when one is raised. No torch here."""

import re
from typing import Final, Literal

from pydantic import Field

from dragoman.config import Config

Span = tuple[int, int]
"""From where to where, in characters."""

Name = Literal["dropped", "repeated", "low source share", "copied", "numbers", "addresses", "length"]

MEANING: Final[dict[Name, str]] = {
    "dropped": "source words that got little attention from all target tokens together",
    "repeated": "words that the target says again, though the source does not",
    "low source share": "target tokens in a row that the source had little part in",
    "copied": "words of the source that stand untranslated in the target",
    "numbers": "numbers of one side that the other does not have",
    "addresses": "URLs and e-mail addresses that did not come through letter by letter",
    "length": "a target much longer or shorter than is usual",
}
NEED_TRACE: Final[frozenset[Name]] = frozenset({"dropped", "low source share"})
"""Flags that text alone cannot raise."""


class Flag(Config):
    """Something in a translation that a person should look at. It is a reason to look, never a verdict."""

    name: Name
    severity: float = Field(ge=0.0, le=1.0, description="how bad it would be, if it is what it looks like")
    evidence: str = Field(description="what was seen, in words, with its numbers")
    source: tuple[Span, ...] = Field((), description="where in the source")
    target: tuple[Span, ...] = Field((), description="where in the target")


class FlagRules(Config):
    """When a flag is raised. What is expected depends on the languages and on the model: a test set tells it."""

    expected_ratio: float | None = Field(
        1.0, gt=0.0, description="characters of the target for each one of the source; null: no length is odd"
    )
    expected_tokens: float | None = Field(
        None, gt=0.0, description="tokens of the target for each one of the source; null: as many as there are"
    )
    expected_share: float = Field(0.5, ge=0.0, le=1.0, description="the source share that a token usually has")
    length_limit: float = Field(1.5, gt=1.0, description="how many times longer or shorter than expected is too much")
    repeated_words: int = Field(4, ge=2, description="words that come twice, apart from each other, are a repetition")
    copied_words: int = Field(4, ge=1, description="words in a row, taken over from the source, are a copy")
    coverage: float = Field(0.6, gt=0.0, description="a word that got less than this part of what is usual lacks some")
    lack: float = Field(0.5, gt=0.0, description="so many words' worth of attention, lacking in a row, is too much")
    lack_of_head: float = Field(1.3, gt=0.0, description="the same in one head, which may well pass over a word")
    low_share: float = Field(0.5, ge=0.0, le=1.0, description="a source share below this part of the usual one is low")
    low_run: int = Field(4, ge=1, description="so many tokens in a row with a low source share are too many")


def quoted(text: str, limit: int = 60) -> str:
    """A text as evidence quotes it: in quotation marks, the middle of a long one left out, between words if it can."""
    if len(text) > limit:
        half = limit // 2
        front = re.sub(r"\s\S*$", "", text[: half + 1])[:half].rstrip()
        back = re.sub(r"^\S*\s", "", text[-half - 1 :])[-half:].lstrip()
        text = f"{front} … {back}"
    return f'"{text}"'


def several(count: int, thing: str) -> str:
    """1 word, 2 words."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
