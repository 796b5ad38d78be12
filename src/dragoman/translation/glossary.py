"""Glossaries: tables of source terms with the target terms that a translation must use. Does not import torch."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.text.cleaning import clean_line
from dragoman.translation.file_formats import read_lines
from dragoman.translation.verbatim import UNSPACED, mask

MOST_ENTRIES: Final = 100_000
"""The maximum number of terms in a glossary."""
LONGEST_TERM: Final = 200
"""The maximum number of characters of a term."""

_WORD: Final = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")
"""A word, a character of a script without spaces, or a punctuation mark."""
_PLURALS: Final = ("s", "es", "'s", "\u2019s")
"""Endings of an English plural or genitive."""
_SHORTEST_INFLECTED: Final = 3
"""Letters of the shortest word that may be inflected."""
_KEY_LETTERS: Final = _SHORTEST_INFLECTED
"""Letters of the first word by which terms are found."""
_IS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
_STEM_ENDING: Final = re.compile(r"(?:e[nsm]?|n|s)$")
_SHORTEST_STEM: Final = 4
_ENDING: Final = r"(?:(?![A-Z])[^\W\d_]){0,2}"
"""Up to two letters that an inflected form adds to a stem."""
_BEFORE: Final = rf"(?<![^\W{UNSPACED}])"
_AFTER: Final = rf"(?![^\W{UNSPACED}])"
_PATTERNS: Final = 10_000
"""Patterns of target terms that are kept: clients of a service send ever other terms."""
_BREAK: Final = re.compile(r"[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


class TermUse(NamedTuple):
    """A term of the glossary that occurs in a source, and whether the translation uses the target term."""

    source: str
    """The source term as in the glossary."""
    target: str
    used: bool


class TermMatch(NamedTuple):
    """A place in a sentence where a source term of the glossary occurs."""

    source: str
    """The source term as in the glossary."""
    target: str
    start: int
    end: int
    """The characters of the sentence: an inflected form may be longer than the term."""


@dataclass(frozen=True)
class Glossary:
    """A table of source terms and target terms, checked when it is created."""

    entries: tuple[tuple[str, str], ...]
    """Source term and target term of each entry."""

    def __post_init__(self) -> None:
        if len(self.entries) > MOST_ENTRIES:
            raise ValueError(f"the glossary has {len(self.entries):,} terms: give at most {MOST_ENTRIES:,}")
        seen: dict[str, int] = {}
        for number, (source, target) in enumerate(self.entries, 1):
            _check_entry(f"term {number:,}", source, target, seen, number)

    @staticmethod
    def read(path: Path | str) -> "Glossary":
        """Read a table with a source term, a tab and a target term on each line; blank lines are ignored."""
        if not Path(path).is_file():
            raise ValueError(f"{path}: there is no such file: give a table of source term, tab, target term")
        entries, seen = list[tuple[str, str]](), dict[str, int]()
        for line in read_lines(Path(path)):
            if not line.text.strip():
                continue
            where = f"{path}, line {line.number:,}"
            cells = [cell.strip() for cell in line.text.split("\t")]
            if len(cells) != 2:
                raise ValueError(f"{where}: {_columns(len(cells))}: write a source term, a tab and a target term")
            _check_entry(where, cells[0], cells[1], seen, line.number)
            entries.append((cells[0], cells[1]))
        if not entries:
            raise ValueError(f"{path}: the glossary is empty: write a source term, a tab and a target term per line")
        return Glossary(tuple(entries))

    @staticmethod
    def of(value: "Glossary | Mapping[str, str] | Path | str") -> "Glossary":
        """Return a glossary from a mapping of source terms to target terms, or from the path of a file."""
        if isinstance(value, Glossary):
            return value
        if isinstance(value, Mapping):
            return Glossary(tuple((source.strip(), target.strip()) for source, target in value.items()))
        return Glossary.read(value)

    @property
    def sha256(self) -> str:
        """The hash of the terms, which identifies the glossary in the manifests of a bulk run."""
        return hashlib.sha256("".join(f"{source}\t{target}\n" for source, target in self.entries).encode()).hexdigest()

    def find(self, sentence: str) -> list[TermMatch]:
        """Return the places of source terms in a sentence, in order; of terms that overlap, the longest counts.

        Whole words match. A term in lower case matches any case, another only its own. A plural or genitive of the last
        word matches too. Placeholders, tags, addresses and code contain no terms.
        """
        plain = mask(sentence)
        words, matches, position = list(_WORD.finditer(plain)), list[TermMatch](), 0
        while position < len(words):
            found = self._match_at(plain, words, position)
            if found:
                match, num_words = found
                matches.append(match)
            position += num_words if found else 1
        return matches

    def _match_at(self, sentence: str, words: Sequence[re.Match[str]], position: int) -> tuple[TermMatch, int] | None:
        """Return the longest term that begins with the word at a position, and its number of words."""
        start = words[position].start()
        for term in self._by_first_word.get(_fold(words[position][0])[:_KEY_LETTERS], ()):
            last = position + term.num_words - 1
            for extra in (2, 0):  # the apostrophe of a genitive, and the letter after it, are words
                if last + extra >= len(words):
                    continue
                end = words[last + extra].end()
                if term.matches(sentence[start:end]):
                    return TermMatch(term.source, term.target, start, end), term.num_words + extra
        return None

    @cached_property
    def _by_first_word(self) -> dict[str, list["_Term"]]:
        """The terms by the first letters of their first word, longest first."""
        terms: dict[str, list[_Term]] = {}
        for source, target in sorted(self.entries, key=lambda entry: -len(entry[0])):
            term = _Term.of(source, target)
            terms.setdefault(_fold(_WORD.findall(source)[0])[:_KEY_LETTERS], []).append(term)
        return terms


class _Term(NamedTuple):
    """A source term, prepared for comparisons."""

    source: str
    target: str
    words: str
    """The term with single spaces, in lower case unless its case counts."""
    num_words: int
    is_any_case: bool
    is_inflected: bool

    @staticmethod
    def of(source: str, target: str) -> "_Term":
        pieces = _WORD.findall(source)
        is_any_case = source == source.lower()
        words = " ".join(source.split())
        is_inflected = len(pieces[-1]) >= _SHORTEST_INFLECTED and pieces[-1].isalpha()
        return _Term(source, target, _fold(words) if is_any_case else words, len(pieces), is_any_case, is_inflected)

    def matches(self, text: str) -> bool:
        """Return True if a text is the term, or its plural or genitive."""
        words = " ".join(text.split())
        words = _fold(words) if self.is_any_case else words
        return words == self.words or (
            self.is_inflected and words.startswith(self.words) and words[len(self.words) :] in _PLURALS
        )


def judge_terms(matches: Sequence[TermMatch], text: str) -> tuple[TermUse, ...]:
    """Return each matched term with whether the translation uses it, as often as the source."""
    counts = {target: len(find_uses(target, text)) for target in dict.fromkeys(match.target for match in matches)}
    uses, seen = [], Counter[str]()
    for match in matches:
        seen[match.target] += 1
        uses.append(TermUse(match.source, match.target, seen[match.target] <= counts[match.target]))
    return tuple(uses)


def find_uses(target: str, text: str) -> list[tuple[int, int]]:
    """Return the spans of a translation that are the target term or an inflected form of it, in the term's case.

    A term in lower case may have a capital at the beginning of the translation.
    """
    return [match.span() for match in _pattern(target).finditer(text)]


def capitalise(term: str) -> str:
    """Return a term with a capital first letter, for the beginning of a sentence."""
    return term[:1].upper() + term[1:]


@lru_cache(_PATTERNS)
def _pattern(target: str) -> re.Pattern[str]:
    words = target.split()
    forms = r"\s+".join(map(_inflected, words))
    first = r"\s+".join(map(_inflected, [capitalise(words[0]), *words[1:]]))
    return re.compile(rf"{_BEFORE}(?:{forms}){_AFTER}|(?<![\w\W])(?:{first}){_AFTER}")


def _inflected(word: str) -> str:
    """Return a pattern of a target word and its inflected forms: the same stem, up to two letters of ending."""
    if len(word) < _SHORTEST_INFLECTED or not word[-1].isalpha() or _IS_UNSPACED.search(word):
        return re.escape(word)
    stem = _STEM_ENDING.sub("", word)
    forms = [word, stem] if _SHORTEST_STEM <= len(stem) < len(word) else [word]
    return rf"(?:{'|'.join(map(re.escape, forms))}){_ENDING}"


def _fold(text: str) -> str:
    return text.lower()


def _check_entry(where: str, source: str, target: str, seen: dict[str, int], number: int) -> None:
    """Raise ValueError for a term that is empty, too long, no single line or given before."""
    for side, term in (("source", source), ("target", target)):
        if _BREAK.search(term) or term.encode(errors="ignore").decode() != term:
            raise ValueError(f"{where}: the {side} term has a line break, tab or half a character: remove it")
        if not clean_line(term).strip() or (side == "source" and not _WORD.search(term)):
            raise ValueError(f"{where}: the {side} term is empty: give both terms, or remove the entry")
        if len(term) > LONGEST_TERM:
            raise ValueError(f"{where}: the {side} term has {len(term):,} characters: give at most {LONGEST_TERM}")
    key = " ".join(source.split())
    if key in seen:
        raise ValueError(f"{where}: the term {source!r} was given before (entry {seen[key]:,}): keep one of them")
    seen[key] = number


def _columns(number: int) -> str:
    return f"{number} column{'s' * (number != 1)}"


def count_unused(uses: Iterable[TermUse]) -> int:
    """Return the number of terms that a translation does not use."""
    return sum(not use.used for use in uses)
