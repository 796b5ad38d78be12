"""Split a text into sentences to translate, and keep the layout between them. Does not import torch."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import ceil
from typing import Final, NamedTuple, TypeVar

import sentencex

from dragoman.translation.verbatim import UNSPACED, find_fence, mask

Span = tuple[int, int]
KeyT = TypeVar("KeyT")

DEFAULT_LANGUAGE: Final = "en"
"""The language whose abbreviations the sentence splitter knows, if the source language is unknown."""

LONGEST_CLAUSE: Final = 40
"""The most words in one segment. A model drops whole clauses from a sentence longer than its training sentences. For 40
longer sentences of test sets, the demo model wrote 57% as many words as the references (chrF 21.5), and 80% with
sentences cut at this limit (chrF 29.2). Few sentences are longer."""

_WORD: Final = re.compile(f"(?:[{UNSPACED}]{{1,2}}|[^\\s{UNSPACED}]+)[\u3001\u3002\uff01-\uff0f\uff1a-\uff20]*")
"""A word with the punctuation after it; in scripts without spaces, two characters."""

_CUT_AFTER: Final = (
    re.compile(r"[;:]\s+|[\uff1b\uff1a]\s*"),
    re.compile(r",\s+|[\u3001\u060c\uff0c]\s*"),
    re.compile(r"\s+"),
)
"""Patterns after which a long sentence may be cut, in order of preference."""

LONGEST_FENCE: Final = 1000
"""The most lines of code between two fences: a fence without an end must not leave a whole file untranslated."""

_LINE: Final = re.compile(r"[^\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
"""Text without line breaks and without tabs, which separate the columns of a table."""

_TEST_LINE: Final = re.compile(r"[^\n]+")

_CELL: Final = re.compile(r"[^|]+")
_APART: Final = re.compile(r"(?:[^|]|(?<=\S)\||\|(?=\S))+")
"""Text between bars that have white space on both sides."""

_MARKS: Final = re.compile(
    r"""(?:\s*(?:
        [-+*•◦▪▫‣\u2043●○■□\u2013\u2014>]+ | \#{1,6} | \[[ xX]\] | [①-⑳]  # bullets, headings, boxes to tick
        | \d{1,3}(?:\.\d{1,3})*\. | [a-z]\. | [ivx]+\. | [IVX]{2,}\.   # 1.  1.2.  a.  iv.  IV., but not J. for John
        | \(?(?:\d{1,3}|[a-zA-Z]|[ivx]+|[IVX]+)\)   # 1)  (a)  iv)
    )(?=\s))*\s*""",
    re.VERBOSE,
)
"""Markers at the start of a line: bullets, list numbers, headings."""

_TWO_SENTENCES: Final = re.compile(r"(?:[A-Z]{2}|\b[a-z]{2,})\. {2,}(?=(\w))")
"""Two spaces after a word that sentencex may take for an abbreviation (OK., etc.), but not after Dr. or an initial."""
_ENCLOSED: Final = re.compile(r"[\"“„«(\[]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_SPACE: Final = re.compile(r"[^\S ]")
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")


class TextDocument(NamedTuple):
    """A text and the spans of its sentences. The text outside the spans is layout."""

    text: str
    spans: tuple[Span, ...]

    @staticmethod
    def of(text: str, language: str | None = None) -> "TextDocument":
        """Split a text into sentences, line by line. Text without letters, such as "---", is not translated."""
        name = (language or DEFAULT_LANGUAGE).replace("_", "-").partition("-")[0].lower()
        plain = mask(text)
        return TextDocument(text, tuple(chain.from_iterable(_sentences(plain, *cell, name) for cell in _cells(plain))))

    @staticmethod
    def of_lines(text: str) -> "TextDocument":
        """Return a document in which each line of the text is one sentence, as in a test set."""
        return TextDocument(text, tuple(line.span() for line in _TEST_LINE.finditer(text)))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences in text order."""
        return tuple(self.text[start:end] for start, end in self.spans)

    def join(self, translations: Sequence[str]) -> str:
        """Return the text with a translation in place of each sentence."""
        if len(translations) != len(self.spans):
            counts = f"{len(translations)} translations for {len(self.spans)} sentences"
            raise ValueError(f"{counts}: give one translation per sentence")
        before = ["", *translations]
        gaps = [self.gap(index, one) for index, one in enumerate(before)]
        return "".join(chain.from_iterable(zip(gaps, [*translations, ""], strict=True)))

    def gap(self, index: int, before: str = "") -> str:
        """Return the layout before a sentence, or after the last; `before` is the translation of the previous one."""
        start = self.spans[index - 1][1] if index else 0
        if index == len(self.spans):
            return self.text[start:]
        return self.text[start : self.spans[index][0]] or (self._space(start, before) if index else "")

    def _space(self, start: int, before: str) -> str:
        """Return a space if the target script needs a space between sentences and the source script has none."""
        needed = _UNSPACED.match(self.text, start - 1) and before and not _UNSPACED.match(before[-1])
        return " " if needed else ""


def keep_fences(lines: Iterable[tuple[KeyT, str]]) -> Iterator[tuple[KeyT, str | TextDocument]]:
    """Yield the lines of a file with their keys; lines of code between two fences become documents without sentences.

    In a live input, the lines after a fence wait for the end of the code.
    """
    held: list[tuple[KeyT, str]] = []
    opening = ""
    for key, line in lines:
        fence = find_fence(line)
        if opening or fence:
            held.append((key, line))
        else:
            yield key, line
        if opening and fence.startswith(opening) and line.strip() == fence:
            yield from ((key, TextDocument(code, ())) for key, code in held)
            held, opening = [], ""
        elif len(held) > LONGEST_FENCE:
            yield from held
            held, opening = [], ""
        else:
            opening = opening or fence
    yield from held


def _cells(text: str) -> Iterator[Span]:
    """Yield the span of each line, or of each cell if the line is a table row."""
    for line in _LINE.finditer(text):
        if "|" in line[0]:
            cell = _CELL if line[0].lstrip().startswith("|") else _APART
            yield from (field.span() for field in cell.finditer(text, *line.span()))
        else:
            yield line.span()


def _sentences(text: str, start: int, end: int, language: str) -> Iterator[Span]:
    marks = _MARKS.match(text, start, end)
    start = marks.end() if marks else start
    for length in _lengths(text[start:end], language):
        stretch = text[start : start + length]
        first, last = start + length - len(stretch.lstrip()), start + len(stretch.rstrip())
        if _LETTER.search(text, first, last):
            yield from cut_clauses(text, first, last)
        start += length


def _lengths(line: str, language: str) -> list[int]:
    """Return the length of each sentence in a line, including the white space after the sentence."""
    spaced = _SPACE.sub(" ", line)  # sentencex takes every white space for one byte, and breaks down over others
    try:
        parts = [part for sentence in sentencex.segment(language, spaced) for part in _parts(sentence)]
    except UnicodeEncodeError:
        return [len(line)]  # half a character: encoding the sentence reports it
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return [len(line)]  # a bug in sentencex: one line must not end a run of a million
    lengths = [len(part) for part in parts]
    return lengths if sum(lengths) == len(line) else [len(line)]


def _parts(sentence: str) -> Iterator[str]:
    """Split a sentence found by sentencex where two spaces and a capital letter start another sentence."""
    start = 0
    for apart in () if _ENCLOSED.search(sentence) else _TWO_SENTENCES.finditer(sentence):
        if apart[1].isupper():
            yield sentence[start : apart.end()]
            start = apart.end()
    yield sentence[start:]


def cut_clauses(text: str, start: int, end: int, longest: int = LONGEST_CLAUSE) -> Iterator[Span]:
    """Split a span into spans of about equal length, with at most `longest` words each. No word is lost."""
    is_short = end - start <= longest  # a word has at least one character
    words = [] if is_short else [word.start() for word in _WORD.finditer(text, start, end)]
    while len(words) > longest:
        aim = ceil(len(words) / ceil(len(words) / longest))
        stop, next_start = _cut(text, words[aim // 2], words[aim], words[longest])
        yield start, stop
        start, words = next_start, words[bisect_left(words, next_start) :]
    yield start, end


def _cut(text: str, first: int, aim: int, last: int) -> Span:
    """Return the end of a span and the start of the next span, near `aim` and always between two words."""
    for pattern in _CUT_AFTER:
        best = min(pattern.finditer(text, first, last), key=lambda cut: abs(cut.end() - aim), default=None)
        if best:
            return best.start() + len(best[0].rstrip()), best.end()
    return aim, aim
