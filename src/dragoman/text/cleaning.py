"""Problems of sentence pairs, such as an empty side, a policy for each problem, and the cleaning of a line."""

import re
import unicodedata
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dragoman.config import Config

LONGEST_LINE: Final = 1 << 20
"""The maximum number of bytes per line; a longer line is truncated to one byte more."""

Policy = Literal["drop", "fix", "keep"]
"""drop: remove the pair. fix: correct the text. keep: keep the pair unchanged, and count it."""


class Problem(StrEnum):
    """A problem of a sentence pair: name, description, default policy and other allowed policies."""

    meaning: str
    usual: Policy
    others: tuple[Policy, ...]

    def __new__(cls, name: str, meaning: str, usual: Policy, *others: Policy) -> "Problem":
        """Return an enum member whose value is `name`."""
        problem = str.__new__(cls, name)
        problem._value_, problem.meaning, problem.usual, problem.others = name, meaning, usual, others
        return problem

    BOTH_EMPTY = ("both-empty", "both sides are empty", "drop")
    EMPTY_SIDE = ("empty-side", "one side is empty", "drop")
    WHITESPACE = ("whitespace", "a side of white space or invisible characters only", "drop")
    INVALID_UTF8 = ("invalid-utf8", "bytes that are not UTF-8", "drop")
    LONE_SURROGATE = ("lone-surrogate", "half of a UTF-16 surrogate pair, as bytes or as an escape", "drop")
    REPLACEMENT = ("replacement-character", "U+FFFD, in place of a character that was lost", "drop", "keep")
    TOO_LONG = ("too-long", "a side longer than max_characters", "drop")
    LENGTH_RATIO = ("length-ratio", "unusual ratio of lengths for the language pair", "drop", "keep")
    IDENTICAL = ("identical", "untranslated sentence; identical numbers, names and code are valid", "drop", "keep")
    DUPLICATE = ("duplicate", "repetition of an earlier pair", "drop", "keep")
    LEAK = ("leak", "pair that is also in a held-out file", "drop", "keep")
    CRLF = ("crlf", "Windows line ending", "fix", "drop")
    BOM = ("bom", "byte order mark at the start of a line", "fix", "drop", "keep")
    LINE_SEPARATOR = ("line-separator", "line break other than a newline, or inside a field", "fix", "drop")
    CONTROL = ("control-character", "NUL and other control characters", "fix", "drop", "keep")
    ZERO_WIDTH = ("zero-width", "invisible characters that the script does not need", "fix", "drop", "keep")
    BIDI = ("bidi", "bidirectional embeddings, overrides and isolates", "fix", "drop", "keep")
    NOT_NFC = ("not-nfc", "text that is not in Unicode normalisation form C", "fix", "drop", "keep")
    WORD_MARK = ("word-mark", "U+2581, SentencePiece's symbol for a space", "fix", "drop", "keep")
    SPACING = ("spacing", "tabs, repeated, leading or trailing spaces", "fix", "drop", "keep")
    SPECIAL_TOKEN = ("special-token", "text like </s> or <pad>, encoded as plain characters", "keep", "drop")
    TOKENISED = ("tokenised", "output of a tokeniser: spaces before punctuation, &apos;, @-@", "keep", "drop")
    LEAKED_SIDE = ("leaked-side", "one side of a held-out pair with another translation", "keep", "drop")
    UNTERMINATED = ("unterminated", "last line without a newline", "keep")

    @property
    def bit(self) -> np.uint32:
        """The bit for this problem in the bit set that `find_problems` returns."""
        return _BITS[self]


_BITS: Final = {problem: np.uint32(1 << i) for i, problem in enumerate(Problem)}


class CleanConfig(Config):
    """The policies for problems of sentence pairs, and the maximum sentence length."""

    policies: dict[Problem, Policy] = Field({}, description="drop, fix or keep, for problems with another policy")
    max_characters: int = Field(4000, ge=1, le=LONGEST_LINE // 4, description="length limit of a side in characters")

    @model_validator(mode="after")
    def _fits(self) -> "CleanConfig":
        for problem, policy in self.policies.items():
            allowed = (problem.usual, *problem.others)
            if policy not in allowed:
                raise ValueError(f"policy {policy} is not supported for {problem}: give {' or '.join(allowed)}")
        return self

    def policy(self, problem: Problem) -> Policy:
        """Return the policy for a problem."""
        return self.policies.get(problem, problem.usual)

    def bits(self, policy: Policy) -> np.uint32:
        """Return a bit set of all problems with this policy."""
        return np.uint32(sum(int(problem.bit) for problem in Problem if self.policy(problem) == policy))


def _table(*some: int) -> NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(some)] = True
    return table


SUSPECT: Final = re.compile(
    rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f\xad]"
    rb"|\xe2(?:\x80[\x8b-\x8f\xa8-\xae]|\x81[\xa0-\xa9]|\x96\x81)"
    rb"|\xef(?:\xb7[\x90-\xaf]|\xbb\xbf|\xbf[\xb9-\xbf])"
    rb"|  | [.,]|@-@|&(?:apos|quot|amp|lt|gt|#\d+);"
    rb"|\\u[dD][89a-fA-F]|<[/|a-z]|\[[A-Z]"
)
"""Matches in every line with a problem, except NFC and surrounding spaces: a fast filter for `find_problems`."""

ALARMING: Final = _table(*range(0x20), 0x7F, 0xC2, 0xE2, 0xEF, *b"@&\\<[")
"""True for bytes at which a match of `SUSPECT` can start; it can also start at a space before `AFTER_SPACE`."""

AFTER_SPACE: Final = _table(*b" .,")

UNSTABLE: Final = _table(*(byte for byte in range(0xCC, 0x100) if byte not in (0xD0, 0xD1)))
"""True for first bytes of characters that NFC can change: none before U+0300, and no Cyrillic ones."""

_JOINED = "\u0590-\u1fff\u2070-\U0010ffff"  # scripts from Hebrew on, and emoji, may need U+200C and U+200D
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer end words with U+200B
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


class Rule(NamedTuple):
    """A problem, a regular expression that finds the problem, and the replacement that fixes the text."""

    problem: Problem
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]


def _visible(match: re.Match[str]) -> str:
    """Return the Windows-1252 character, such as a quote or dash, for a control character U+0080 to U+009F."""
    return match[0].encode("latin-1").decode("cp1252", errors="ignore")


RULES: Final = (
    Rule(Problem.BOM, re.compile("\\A\ufeff+"), ""),
    Rule(Problem.ZERO_WIDTH, re.compile("[\xad\u2060-\u2064]|(?<!\\A)\ufeff"), ""),
    Rule(Problem.LINE_SEPARATOR, re.compile("[\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\r(?!\r*\\Z)"), " "),
    Rule(Problem.CONTROL, re.compile("[\x80-\x84\x86-\x9f]"), _visible),
    Rule(Problem.CONTROL, re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff]"), ""),
    Rule(Problem.BIDI, re.compile("[\u202a-\u202e\u2066-\u2069]"), ""),
    Rule(Problem.WORD_MARK, re.compile("\u2581"), " "),
    Rule(Problem.ZERO_WIDTH, re.compile(f"(?<![{_UNSPACED}])\u200b(?![{_UNSPACED}])"), ""),
    Rule(Problem.ZERO_WIDTH, re.compile(f"(?<![{_JOINED}])[\u200c\u200d]+(?![{_JOINED}])"), ""),
)
MARKS: Final = Rule(Problem.BIDI, re.compile("[\u200e\u200f]"), "")
"""Directional marks, which are valid in right-to-left text only."""

_ANY_RULE = re.compile(
    "[\x00-\x08\n-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\u2581\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
"""Matches every character that a rule can match."""

_SPECIAL_TOKEN = re.compile(
    r"[<[](?:(?<=<)(?:/?s|pad|unk|bos|eos|mask|sep|cls|\|[a-z_]+\|)>|(?:PAD|UNK|CLS|SEP|MASK|BOS|EOS)\])"
)
SIGNS: Final = (
    (Problem.REPLACEMENT, re.compile("\ufffd")),
    (Problem.LONE_SURROGATE, re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")),
    (Problem.LONE_SURROGATE, re.compile(r"\\u(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u)[dD][c-fC-F][0-9a-fA-F]{2}")),
    (Problem.SPECIAL_TOKEN, _SPECIAL_TOKEN),
)
"""Problems that cannot be fixed: the pair is dropped or kept."""

_TOKENISER = re.compile(r"[&@](?:(?<=&)(?:apos;|#(?:91|93|124);|(?<!\S&)quot;(?!\S))|-@)")
_APART = re.compile(r" [.,](?<=[^\s.,] [.,])(?= |\Z)")  # not ? ! ; : which French sets apart itself
_ATTACHED = re.compile(r"\w[.,;:!?]+(?= |\Z)")
_SPACES = re.compile(r"[ \t]{2,}|\t")


def find_problems(line: str, settings: CleanConfig) -> tuple[str, int]:
    """Return the line with all problems of policy "fix" fixed, and a bit set of the problems found."""
    text, problems = line, 0
    if not unicodedata.is_normalized("NFC", text):
        problems |= int(Problem.NOT_NFC.bit)
        text = _normalize(text, settings)
    if _ANY_RULE.search(text):
        for rule in RULES if _RIGHT_TO_LEFT.search(text) else (MARKS, *RULES):
            if rule.pattern.search(text):
                problems |= int(rule.problem.bit)
                if settings.policy(rule.problem) == "fix":
                    text = rule.pattern.sub(rule.replacement, text)
        text = _normalize(text, settings)  # letters and accents may have come together
    for problem, pattern in SIGNS:
        if pattern.search(text):
            problems |= int(problem.bit)
    if is_tokenised(text):
        problems |= int(Problem.TOKENISED.bit)
    if line.strip() and (line != line.strip() or _SPACES.search(line)):
        problems |= int(Problem.SPACING.bit)
    if settings.policy(Problem.SPACING) == "fix":
        text = _SPACES.sub(" ", text).strip()
    return text, problems


def _normalize(text: str, settings: CleanConfig) -> str:
    return unicodedata.normalize("NFC", text) if settings.policy(Problem.NOT_NFC) == "fix" else text


def is_tokenised(text: str) -> bool:
    """Return True if the text looks tokenised: it has escapes such as `&apos;`, `@-@`, or spaces before punctuation.

    Spaces before punctuation count only if most full stops and commas follow a space.
    """
    if _TOKENISER.search(text):
        return True
    apart = _APART.findall(text)
    return bool(apart) and (text.endswith(" .") or len(apart) > len(_ATTACHED.findall(text)))


_DEFAULT: Final = CleanConfig()


def clean_line(line: str) -> str:
    """Return the line cleaned with the default policies, like training data."""
    return find_problems(line, _DEFAULT)[0]
