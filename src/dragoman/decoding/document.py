"""A text as sentences to translate and the layout around them, which comes back as it was. No torch here."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final, NamedTuple

import sentencex

from dragoman.decoding.clauses import UNSPACED, Span, clauses
from dragoman.decoding.verbatim import masked

DEFAULT_LANGUAGE: Final = "en"
"""Whose abbreviations are known where no language is given."""

_LINE: Final = re.compile(r"[^\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
"""What a sentence may be found in. A tab ends one too: it stands between the columns of a table."""

_TEST_LINE: Final = re.compile(r"[^\n]+")

_CELL: Final = re.compile(r"[^|]+")
_APART: Final = re.compile(r"(?:[^|]|(?<=\S)\||\|(?=\S))+")
"""What stands between bars that have white space on both sides."""

_MARKS: Final = re.compile(
    r"""(?:\s*(?:
        [-+*•◦▪▫‣\u2043●○■□\u2013\u2014>]+ | \#{1,6} | \[[ xX]\] | [①-⑳]  # bullets, headings, boxes to tick
        | \d{1,3}(?:\.\d{1,3})*\. | [a-z]\. | [ivx]+\. | [IVX]{2,}\.   # 1.  1.2.  a.  iv.  IV., but not J. for John
        | \(?(?:\d{1,3}|[a-zA-Z]|[ivx]+|[IVX]+)\)   # 1)  (a)  iv)
    )(?=\s))*\s*""",
    re.VERBOSE,
)
"""How an item of a list begins."""

_APART_FOR_SURE: Final = re.compile(r"(?:[A-Z]{2}|\b[a-z]{2,})\. {2,}(?=(\w))")
"""Two spaces, after what sentencex may know as an abbreviation: OK, etc. But not after Dr. or an initial."""
_ENCLOSED: Final = re.compile(r"[\"“„«(\[]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_SPACE: Final = re.compile(r"[^\S ]")
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")


class Document(NamedTuple):
    """A text, and where in it the sentences are. All else is layout."""

    text: str
    spans: tuple[Span, ...]

    @staticmethod
    def of(text: str, language: str | None = None) -> "Document":
        """The sentences of every line. What has no letters, as a rule or an address, is left as it is."""
        name = (language or DEFAULT_LANGUAGE).replace("_", "-").partition("-")[0].lower()
        plain = masked(text)
        return Document(text, tuple(chain.from_iterable(_sentences(plain, *cell, name) for cell in _cells(plain))))

    @staticmethod
    def of_lines(text: str) -> "Document":
        """Each line as one sentence with all that is in it, as in a test set."""
        return Document(text, tuple(found.span() for found in _TEST_LINE.finditer(text)))

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is to be translated."""
        return tuple(self.text[start:end] for start, end in self.spans)

    def joined(self, translations: Sequence[str]) -> str:
        """The text with a translation in the place of each sentence."""
        if len(translations) != len(self.spans):
            raise ValueError(f"{len(translations)} translations for {len(self.spans)} sentences: give one for each")
        if len(translations) == 1:
            ((start, end),) = self.spans
            return f"{self.text[:start]}{translations[0]}{self.text[end:]}"
        ends = [0, *(end for _, end in self.spans)]
        gaps = [self.text[end:start] for end, (start, _) in zip(ends, self.spans, strict=False)]
        for place, (before, _) in enumerate(pairwise(translations), 1):
            gaps[place] = gaps[place] or self._space(self.spans[place][0], before)
        return "".join([*chain.from_iterable(zip(gaps, translations, strict=True)), self.text[ends[-1] :]])

    def _space(self, start: int, before: str) -> str:
        """Chinese has no space between sentences; what it is translated to may need one."""
        needed = _UNSPACED.match(self.text, start - 1) and before and not _UNSPACED.match(before[-1])
        return " " if needed else ""


def _cells(text: str) -> Iterator[Span]:
    """The lines, and of a table the fields."""
    for line in _LINE.finditer(text):
        if "|" in line[0]:
            cell = _CELL if line[0].lstrip().startswith("|") else _APART
            yield from (found.span() for found in cell.finditer(text, *line.span()))
        else:
            yield line.span()


def _sentences(text: str, start: int, end: int, language: str) -> Iterator[Span]:
    marks = _MARKS.match(text, start, end)
    start = marks.end() if marks else start
    for length in _lengths(text[start:end], language):
        stretch = text[start : start + length]
        first, last = start + length - len(stretch.lstrip()), start + len(stretch.rstrip())
        if _LETTER.search(text, first, last):
            yield from clauses(text, first, last)
        start += length


def _lengths(line: str, language: str) -> list[int]:
    """Of the sentences of a line, with the white space after each."""
    spaced = _SPACE.sub(" ", line)  # sentencex takes every white space for one byte, and breaks down over others
    try:
        found = [part for sentence in sentencex.segment(language, spaced) for part in _parts(sentence)]
    except UnicodeEncodeError:
        return [len(line)]  # half a character: whoever encodes the sentence says so
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return [len(line)]  # Rust's word for a mistake in sentencex: one line must not end a run of a million
    lengths = [len(part) for part in found]
    return lengths if sum(lengths) == len(line) else [len(line)]


def _parts(sentence: str) -> Iterator[str]:
    """What sentencex takes for one sentence, cut where two spaces and a capital letter say that it is two."""
    start = 0
    for apart in () if _ENCLOSED.search(sentence) else _APART_FOR_SURE.finditer(sentence):
        if apart[1].isupper():
            yield sentence[start : apart.end()]
            start = apart.end()
    yield sentence[start:]
