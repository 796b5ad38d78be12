"""What is wrong with the characters of one line, and the line mended."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from dragoman.data.problem import CleanConfig, Problem


def _table(*some: int) -> Bool[ndarray, " 256"]:
    table = np.zeros(256, bool)
    table[list(some)] = True
    return table


SUSPECT: Final = re.compile(
    rb"[\x00-\x1f\x7f]"
    rb"|\xc2[\x80-\x9f\xad]"
    rb"|\xe2(?:\x80[\x8b-\x8f\xa8-\xae]|\x81[\xa0-\xa9]|\x96\x81)"
    rb"|\xef(?:\xb7[\x90-\xaf]|\xbb\xbf|\xbf[\xb9-\xbf])"
    rb"|  | [.,]|@-@"
    rb"|&(?:apos|quot|amp|lt|gt|#\d+);"
    rb"|\\u[dD][89a-fA-F]"
    rb"|<[/|a-z]|\[[A-Z]"
)
"""Matches somewhere in every line that `look` finds something in, but for NFC and spaces around the text."""

ALARMING: Final = _table(*range(0x20), 0x7F, 0xC2, 0xE2, 0xEF, *b"@&\\<[")
"""By byte: whether a match of `SUSPECT` can start with it. Or with a space, if one of `AFTER_SPACE` follows."""

AFTER_SPACE: Final = _table(*b" .,")

UNSTABLE: Final = _table(*(byte for byte in range(0xCC, 0x100) if byte not in (0xD0, 0xD1)))
"""By byte: whether it can start a character that NFC writes otherwise. None before U+0300 is, nor is Cyrillic."""

_JOINED = "\u0590-\u1fff\u2070-\U0010ffff"  # scripts from Hebrew on, and emoji, may need U+200C and U+200D
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer end words with U+200B
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


@dataclass(frozen=True)
class Rule:
    """Characters that should not be there, and what stands for them in mended text."""

    problem: Problem
    pattern: re.Pattern[str]
    instead: str | Callable[[re.Match[str]], str]


def _visible(match: re.Match[str]) -> str:
    """A control character of U+0080 to U+009F was most likely meant as Windows-1252: quotes, dashes, the euro."""
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
"""Marks of direction, at home in text from right to left only."""

_RULED = re.compile(
    "[\x00-\x08\n-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\u2581\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
"""A character of any rule."""

SIGNS: Final = (
    (Problem.REPLACEMENT, re.compile("\ufffd")),
    (Problem.LONE_SURROGATE, re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")),
    (Problem.LONE_SURROGATE, re.compile(r"\\u(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u)[dD][c-fC-F][0-9a-fA-F]{2}")),
    (
        Problem.SPECIAL_TOKEN,
        re.compile(
            r"[<[](?:(?<=<)(?:/?s|pad|unk|bos|eos|mask|sep|cls|\|[a-z_]+\|)>|(?:PAD|UNK|CLS|SEP|MASK|BOS|EOS)\])"
        ),
    ),
)
"""What is found but cannot be mended: it is dropped or kept."""

_TOKENISER = re.compile(r"[&@](?:(?<=&)(?:apos;|#(?:91|93|124);|(?<!\S&)quot;(?!\S))|-@)")
_APART = re.compile(r" [.,](?<=[^\s.,] [.,])(?= |\Z)")  # not ? ! ; : which French sets apart itself
_ATTACHED = re.compile(r"\w[.,;:!?]+(?= |\Z)")
_SPACES = re.compile(r"[ \t]{2,}|\t")


def look(line: str, settings: CleanConfig) -> tuple[str, int]:
    """The line with all mended that is to be mended, and its problems as a set of bits."""
    text, found = line, 0
    if not unicodedata.is_normalized("NFC", text):
        found |= int(Problem.NOT_NFC.bit)
        text = _normalised(text, settings)
    if _RULED.search(text):
        text, broken = _ruled(text, settings)
        found |= broken
        text = _normalised(text, settings)  # letters and accents may have come together
    for problem, pattern in SIGNS:
        if pattern.search(text):
            found |= int(problem.bit)
    if is_tokenised(text):
        found |= int(Problem.TOKENISED.bit)
    if line.strip() and (line != line.strip() or _SPACES.search(line)):
        found |= int(Problem.SPACING.bit)
    if settings.policy(Problem.SPACING) == "fix":
        text = _SPACES.sub(" ", text).strip()
    return text, found


def _normalised(text: str, settings: CleanConfig) -> str:
    return unicodedata.normalize("NFC", text) if settings.policy(Problem.NOT_NFC) == "fix" else text


def _ruled(text: str, settings: CleanConfig) -> tuple[str, int]:
    found = 0
    for rule in RULES if _RIGHT_TO_LEFT.search(text) else (MARKS, *RULES):
        if rule.pattern.search(text):
            found |= int(rule.problem.bit)
            if settings.policy(rule.problem) == "fix":
                text = rule.pattern.sub(rule.instead, text)
    return text, found


def is_tokenised(text: str) -> bool:
    """Whether a tokeniser went over it: its escapes, its joints, or full stops and commas set apart from words. A comma
    or two set apart by mistake, among others that are not, make no tokenised text.
    """
    if _TOKENISER.search(text):
        return True
    apart = _APART.findall(text)
    return bool(apart) and (text.endswith(" .") or len(apart) > len(_ATTACHED.findall(text)))


_DEFAULT: Final = CleanConfig()


def mended(line: str) -> str:
    """The line as training text is by default: what a model is given must look like what it learned from."""
    return look(line, _DEFAULT)[0]
