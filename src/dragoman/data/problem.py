"""What can be wrong with a sentence pair, by name, and what is done about it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

import numpy as np
from pydantic import Field, model_validator

from dragoman.config import Config

LONGEST_LINE: Final = 1 << 20
"""Bytes. A longer line is never held whole: what stays of it is a stub of one byte more than this."""

Policy = Literal["drop", "fix", "keep"]
"""drop: the pair goes. fix: the text is mended and stays. keep: it stays as it is, and is counted."""


class Problem(StrEnum):
    """The names, as reports and recipes write them."""

    BOTH_EMPTY = "both-empty"
    EMPTY_SIDE = "empty-side"
    WHITESPACE = "whitespace"
    INVALID_UTF8 = "invalid-utf8"
    LONE_SURROGATE = "lone-surrogate"
    REPLACEMENT = "replacement-character"
    TOO_LONG = "too-long"
    LENGTH_RATIO = "length-ratio"
    IDENTICAL = "identical"
    DUPLICATE = "duplicate"
    LEAK = "leak"
    CRLF = "crlf"
    BOM = "bom"
    LINE_SEPARATOR = "line-separator"
    CONTROL = "control-character"
    ZERO_WIDTH = "zero-width"
    BIDI = "bidi"
    NOT_NFC = "not-nfc"
    WORD_MARK = "word-mark"
    SPACING = "spacing"
    SPECIAL_TOKEN = "special-token"
    TOKENISED = "tokenised"
    LEAKED_SIDE = "leaked-side"
    UNTERMINATED = "unterminated"

    @property
    def bit(self) -> np.uint32:
        """Its place in a row's set of problems."""
        return _BITS[self]


_BITS: Final = {problem: np.uint32(1 << i) for i, problem in enumerate(Problem)}


@dataclass(frozen=True)
class Kind:
    """One problem: what it is, what is done unless a recipe says otherwise, and what else may be done."""

    meaning: str
    policy: Policy
    others: tuple[Policy, ...] = ()


KINDS: Final = {
    Problem.BOTH_EMPTY: Kind("nothing on either side", "drop"),
    Problem.EMPTY_SIDE: Kind("nothing on one side", "drop"),
    Problem.WHITESPACE: Kind("a side with nothing to see in it", "drop"),
    Problem.INVALID_UTF8: Kind("bytes that are not UTF-8", "drop"),
    Problem.LONE_SURROGATE: Kind("half of a UTF-16 surrogate pair, as bytes or written out", "drop"),
    Problem.REPLACEMENT: Kind("U+FFFD, where another program has lost a letter", "drop", ("keep",)),
    Problem.TOO_LONG: Kind("more than max_characters", "drop"),
    Problem.LENGTH_RATIO: Kind("lengths that do not go together, for this language pair", "drop", ("keep",)),
    Problem.IDENTICAL: Kind("an untranslated sentence; numbers, names and code may be the same", "drop", ("keep",)),
    Problem.DUPLICATE: Kind("the same pair as one before", "drop", ("keep",)),
    Problem.LEAK: Kind("a pair of a held-out file", "drop", ("keep",)),
    Problem.CRLF: Kind("a line that ends as in Windows", "fix", ("drop",)),
    Problem.BOM: Kind("a byte order mark at the start of a line", "fix", ("drop", "keep")),
    Problem.LINE_SEPARATOR: Kind("a line break other than a newline, or one inside a field", "fix", ("drop",)),
    Problem.CONTROL: Kind("NUL and other control characters", "fix", ("drop", "keep")),
    Problem.ZERO_WIDTH: Kind("invisible characters no script there needs", "fix", ("drop", "keep")),
    Problem.BIDI: Kind("embeddings, overrides and isolates of writing direction", "fix", ("drop", "keep")),
    Problem.NOT_NFC: Kind("letters written in another way than Unicode's NFC", "fix", ("drop", "keep")),
    Problem.WORD_MARK: Kind("U+2581, which SentencePiece writes for a space", "fix", ("drop", "keep")),
    Problem.SPACING: Kind("tabs, spaces in a row or around the text", "fix", ("drop", "keep")),
    Problem.SPECIAL_TOKEN: Kind("text like </s> or <pad>; a vocabulary reads it as letters", "keep", ("drop",)),
    Problem.TOKENISED: Kind("punctuation set apart from words, &apos;, @-@", "keep", ("drop",)),
    Problem.LEAKED_SIDE: Kind("one side of a held-out pair, with another translation", "keep", ("drop",)),
    Problem.UNTERMINATED: Kind("a last line without its newline", "keep"),
}


class CleanConfig(Config):
    """What makes a pair unfit, and what is done about it."""

    policies: dict[Problem, Policy] = Field({}, description="what to do about a problem other than usual")
    max_characters: int = Field(
        4000, ge=1, le=LONGEST_LINE // 4, description="of a side; a longer one is hardly a sentence"
    )

    @model_validator(mode="after")
    def _fits(self) -> "CleanConfig":
        for problem, policy in self.policies.items():
            allowed = (KINDS[problem].policy, *KINDS[problem].others)
            if policy not in allowed:
                raise ValueError(f"policies: {problem}: {policy} is not possible; give {' or '.join(allowed)}")
        return self

    def policy(self, problem: Problem) -> Policy:
        """What is done about it."""
        return self.policies.get(problem, KINDS[problem].policy)

    def bits(self, policy: Policy) -> np.uint32:
        """The problems of one policy, as a set."""
        return np.uint32(sum(int(problem.bit) for problem in Problem if self.policy(problem) == policy))
