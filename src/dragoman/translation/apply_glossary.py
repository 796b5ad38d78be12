"""Make translations use the terms of a glossary.

A translation that uses the terms of its source is accepted. Otherwise the sentence is translated again with a given
beginning: the translation up to the word that the term replaces, and the term. That word is the one that the alignment
heads align with the source term, or the word before it. Without alignment heads, it is the word whose probability drops
most if a code takes the place of the source term. Of several results, the model's score chooses. If none has the term,
a code such as X1, which models copy well, takes the place of the source term and is replaced afterwards. No text is
ever appended. Does not import torch.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dragoman.decoding.hypothesis import Tokens
from dragoman.translation.alternatives import complete_all, word_log_probabilities
from dragoman.translation.glossary import Glossary, TermMatch, capitalise, find_uses, judge_terms
from dragoman.translation.results import Segment, SentenceTranslation, TextHypothesis
from dragoman.translation.translator import Translator
from dragoman.translation.verbatim import survives

LinksOf = Callable[[Sequence[str], Sequence[Sequence[Segment] | str]], list[frozenset[tuple[int, int]]]]
"""Function from source lines and their translated segments to the (source word, target word) links of each line."""

MOST_TERMS: Final = 8
"""The maximum number of terms that are put into one sentence, each with a search of its own."""
TRIED_POSITIONS: Final = 2
"""The number of words that are tried in a translation without alignment heads, beside the word before the first."""

_CODES: Final = ("X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "X9")
_OPENING: Final = "\"'([{«»„“”\u201a\u2018\u2019¿¡"
"""Punctuation that stays before a term."""


@dataclass
class _Attempt:
    """A sentence whose translation lacks terms."""

    best: SentenceTranslation
    matches: list[TermMatch]
    tried: set[int] = field(default_factory=set)
    """The indices of the matches that were tried."""

    def count(self, text: str) -> Counter[str]:
        """Return how often a translation uses each target term, at most as often as the source."""
        return Counter(use.target for use in judge_terms(self.matches, text) if use.used)

    @property
    def missing(self) -> list[int]:
        """The indices of the matches that the translation does not use."""
        return [i for i, use in enumerate(judge_terms(self.matches, self.best.text)) if not use.used]

    @property
    def waiting(self) -> list[int]:
        return [i for i in self.missing if i not in self.tried]

    @property
    def is_one_segment(self) -> bool:
        return len(self.best.segments) == 1 and not self.best.kept and bool(self.best.text.strip())


class _Beginning(NamedTuple):
    """A beginning of a translation that ends with a term."""

    source: str
    match: int
    """The index of the match whose target term it ends with."""
    prefix: str


@dataclass(frozen=True)
class GlossaryTranslator:
    """Translates with a glossary: changes only the sentences that have terms which the translation lacks."""

    glossary: Glossary
    translator: Translator
    links_of: LinksOf | None = None
    """The links by alignment heads; None: the places of terms are found by scoring."""

    def apply(self, found: Sequence[SentenceTranslation], protects: bool) -> list[SentenceTranslation]:
        """Return the sentences with their terms; with `protects`, no protected string of the source gets lost."""
        attempts: dict[str, _Attempt] = {}
        for sentence in found:
            if sentence.source not in attempts and (matches := self.glossary.find(sentence.source)):
                attempts[sentence.source] = _Attempt(_select(sentence, matches), matches)
        lacking = {source: attempt for source, attempt in attempts.items() if attempt.missing}
        for _ in range(MOST_TERMS):
            if not self._improve(lacking, protects):
                break
        self._use_codes(lacking, protects)
        return [attempts[one.source].best if one.source in attempts else one for one in found]

    def report(self, sentence: SentenceTranslation) -> SentenceTranslation:
        """Return the sentence with the terms of its source, used or not."""
        return sentence._replace(terms=judge_terms(self.glossary.find(sentence.source), sentence.text))

    def _improve(self, attempts: dict[str, _Attempt], protects: bool) -> bool:
        """Try to put one more term into each sentence; return False if there was none to try."""
        beginnings = list(self._beginnings(attempts))
        found = complete_all(self.translator, [(one.source, one.prefix) for one in beginnings])
        candidates: dict[str, list[SentenceTranslation]] = {}
        for beginning, completed in zip(beginnings, found, strict=True):
            attempt = attempts[beginning.source]
            attempt.tried.add(beginning.match)
            kept = completed and _keep_better(attempt, completed, attempt.matches[beginning.match].target, protects)
            if kept:
                candidates.setdefault(beginning.source, []).append(kept)
        for source, some in candidates.items():
            attempts[source].best = max(some, key=lambda sentence: sentence.score)
        return bool(beginnings)

    def _beginnings(self, attempts: dict[str, _Attempt]) -> Iterator[_Beginning]:
        """Yield the beginnings to try for the next term of each sentence."""
        open_ = {source: attempt for source, attempt in attempts.items() if attempt.waiting and attempt.is_one_segment}
        linked = self._linked_words(open_)
        scored = [source for source in open_ if not linked[source]]
        linked |= dict(zip(scored, self._scored_words([open_[source] for source in scored]), strict=True))
        for source, attempt in open_.items():
            words = attempt.best.text.split()
            for match, position in linked[source]:
                prefix = _begin(source, words, position, attempt.matches[match].target)
                yield _Beginning(source, match, prefix)

    def _linked_words(self, attempts: dict[str, _Attempt]) -> dict[str, list[tuple[int, int]]]:
        """Return for each sentence a term and the target words to replace: the word linked with it, and the one before.

        The term whose word comes first is chosen, because the translation after it is made again.
        """
        found: dict[str, list[tuple[int, int]]] = {source: [] for source in attempts}
        if self.links_of is None or not attempts:
            return found
        segments = [attempt.best.segments for attempt in attempts.values()]
        for (source, attempt), links in zip(attempts.items(), self.links_of(list(attempts), segments), strict=True):
            taken = _used_words(attempt)
            places = []
            for match in attempt.waiting:
                numbers = _word_numbers(source, attempt.matches[match])
                free = [target for of_source, target in links if of_source in numbers and target not in taken]
                places += [(min(free), match)] if free else []
            if places:
                position, match = min(places)
                found[source] = [(match, one) for one in (position, position - 1) if one >= 0 and one not in taken]
        return found

    def _scored_words(self, attempts: Sequence[_Attempt]) -> list[list[tuple[int, int]]]:
        """Return for each sentence a term and the target words to replace, found by scoring.

        These are the words whose probability drops most if a code takes the place of the source term, and the word
        before the first of them.
        """
        pairs = list[tuple[str, Tokens]]()
        for attempt in attempts:
            source, match = attempt.best.source, attempt.matches[attempt.waiting[0]]
            without = f"{source[: match.start]}{_free_codes(source)[0]}{source[match.end :]}"
            pairs += [(one, attempt.best.segments[0].tokens) for one in (source, without)]
        scores = iter(word_log_probabilities(self.translator, pairs))
        found = []
        for attempt in attempts:
            drops = [before - after for before, after in zip(next(scores), next(scores), strict=True)]
            taken = _used_words(attempt)
            words = [i for i, word in enumerate(attempt.best.text.split()[: len(drops)]) if any(map(str.isalnum, word))]
            free = sorted((i for i in words if i not in taken), key=lambda i: -drops[i])[:TRIED_POSITIONS]
            earlier = [i - 1 for i in free[:1] if i and i - 1 not in taken]
            found.append([(attempt.waiting[0], position) for position in dict.fromkeys(free + earlier)])
        return found

    def _use_codes(self, attempts: dict[str, _Attempt], protects: bool) -> None:
        """Translate the sentences that still lack terms with a code in place of each, and put the terms back."""
        disguises = {source: _disguise(attempt) for source, attempt in attempts.items() if attempt.missing}
        found = self.translator.sentences([text for text, _ in disguises.values()])
        for (source, (_, meanings)), translated in zip(disguises.items(), found, strict=True):
            attempt = attempts[source]
            hypotheses = [_restore(hypothesis, meanings) for hypothesis in translated.hypotheses]
            restored = SentenceTranslation(source, tuple(one for one in hypotheses if one))
            better = restored.hypotheses and _keep_better(attempt, restored, None, protects)
            if better:
                attempt.best = better


def _select(sentence: SentenceTranslation, matches: Sequence[TermMatch]) -> SentenceTranslation:
    """Return the sentence with the hypotheses that use all terms; all hypotheses if none does."""
    kept = tuple(one for one in sentence.hypotheses if all(use.used for use in judge_terms(matches, one.text)))
    if not kept or len(kept) == len(sentence.hypotheses):
        return sentence
    return SentenceTranslation(sentence.source, kept)


def _keep_better(
    attempt: _Attempt, candidate: SentenceTranslation, target: str | None, protects: bool
) -> SentenceTranslation | None:
    """Return the hypotheses of a candidate that use more terms than the best translation; None if there are none.

    A hypothesis that uses the term `target` more often may lose terms that are still to be tried.
    """
    before = attempt.count(attempt.best.text)
    to_try = Counter(match.target for i, match in enumerate(attempt.matches) if i not in attempt.tried)
    must_survive = protects and survives(candidate.source, attempt.best.text)

    def is_better(text: str) -> bool:
        now = attempt.count(text)
        lost = before - now
        is_more = now[target] > before[target] and lost <= to_try if target else now.total() > before.total()
        return is_more and not (must_survive and not survives(candidate.source, text))

    kept = tuple(one for one in candidate.hypotheses if is_better(one.text))
    if kept and len(kept) == len(candidate.hypotheses):
        return candidate
    if kept and kept[0] is candidate.hypotheses[0] and len(candidate.segments) == 1:
        # The alignment heads need the tokens of the best hypothesis.
        (segment,) = candidate.segments
        tokens = [one for text, one in zip(candidate.hypotheses, segment.hypotheses, strict=True) if text in kept]
        return SentenceTranslation(candidate.source, kept, (segment._replace(hypotheses=tuple(tokens)),))
    return SentenceTranslation(candidate.source, kept) if kept else None


def _used_words(attempt: _Attempt) -> set[int]:
    """Return the indices of the words of a translation that belong to terms in use."""
    text = attempt.best.text
    spans = [span for target in attempt.count(text) for span in find_uses(target, text)]
    return {i for start, end in spans for i in _overlapping_words(text, start, end)}


def _word_numbers(source: str, match: TermMatch) -> set[int]:
    """Return the indices of the source words that a term covers."""
    return _overlapping_words(source, match.start, match.end)


def _overlapping_words(text: str, start: int, end: int) -> set[int]:
    first = len(text[: start + 1].split()) - 1
    return set(range(first, first + len(text[start:end].split())))


def _begin(source: str, words: Sequence[str], position: int, target: str) -> str:
    """Return the words before a position and the term, with the punctuation that opens the word at the position.

    At the beginning of a translation, the term has a capital if the source begins with one.
    """
    word = words[position]
    opening = word[: len(word) - len(word.lstrip(_OPENING))]
    is_first = position == 0 and next((letter for letter in source if letter.isalpha()), "").isupper()
    return " ".join([*words[:position], opening + (capitalise(target) if is_first else target)])


def _disguise(attempt: _Attempt) -> tuple[str, dict[str, str]]:
    """Return the sentence with a code in place of each missing term, and the target term of each code."""
    source, meanings, end = attempt.best.source, dict[str, str](), 0
    codes = iter(_free_codes(source))
    parts = []
    for match in (attempt.matches[i] for i in attempt.missing):
        code = next(codes, None)
        if code is None:
            break
        is_first = not source[: match.start].strip() and source[match.start].isupper()
        meanings[code] = capitalise(match.target) if is_first else match.target
        parts += [source[end : match.start], code]
        end = match.end
    return "".join([*parts, source[end:]]), meanings


def _free_codes(source: str) -> list[str]:
    """Return the codes that are not in a sentence; all codes if the sentence has all."""
    return [code for code in _CODES if code not in source] or list(_CODES)


def _restore(hypothesis: TextHypothesis, meanings: dict[str, str]) -> TextHypothesis | None:
    """Return the hypothesis with terms in place of the codes; None if a code is missing or there twice."""
    words = re.compile(rf"(?<!\w)(?:{'|'.join(meanings)})(?!\w)")
    if sorted(words.findall(hypothesis.text)) != sorted(meanings):
        return None
    return hypothesis._replace(text=words.sub(lambda word: meanings[word[0]], hypothesis.text))
