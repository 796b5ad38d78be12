"""Carry the inline tags of a text over to its translation by word links. Pure functions; does not import torch.

An element is put around the target words that are linked to its words; an element of which no word is linked, and a
tag without content such as <br>, beside the words linked to its neighbours. Each tag is written exactly once, and the
tree of elements stays as it was. Words are separated by white space; punctuation around a word goes outside an element
as in the source.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dragoman.translation.document import Span, TextDocument

Links = frozenset[tuple[int, int]]
"""A set of (source word, target word) indices, counted from 0."""

_WORD: Final = re.compile(r"\S+")
_CODE_GAIN: Final = 3
"""Weight of a code in the choice of target words: it should stay inside its element."""


class LinkedSentence(NamedTuple):
    """A sentence of a text, its translation and its word links."""

    span: Span
    """The characters of the sentence in the text."""
    text: str
    """The translation."""
    links: Links | None = None
    """Links between words of the sentence and of the translation; None or empty: words are linked by position."""


@dataclass(frozen=True)
class InlineTag:
    """A tag inside a text: an element around words, a tag without words, or content that is not translated."""

    start: int
    end: int
    """The characters of the text inside the element; start = end for a tag without words."""
    opening: str
    """The tag as written; for a tag without words or content that is not translated, all of it."""
    closing: str = ""
    children: tuple["InlineTag", ...] = ()
    code: str = ""
    """The word that stands in the text for content that is not translated; "" for other tags."""
    gap: tuple[str, str] | None = None
    """The white space before and after a tag without words, if the tag separates words."""


@dataclass(frozen=True)
class TaggedText:
    """A text to translate, with its inline tags."""

    text: str
    tags: tuple[InlineTag, ...]
    """The outermost tags, in the order of the source."""
    escape: Callable[[str], str] = str
    """Function that writes plain text as markup."""

    def render(self, sentences: Sequence[LinkedSentence]) -> str:
        """Return the translation with all tags."""
        words = _WordPair.of(self.text, sentences, _codes(self.tags))
        if not words.target:
            return self._write(self.tags, words, {}, 0, len(words.text))
        places: dict[int, Span] = {}
        whole = (words.target[0][0], words.target[-1][1])
        _place_all(self.tags, range(len(words.source)), (0, len(words.target)), whole, words, places)
        return self._write(self.tags, words, places, 0, len(words.text))

    def _write(
        self, tags: Sequence[InlineTag], words: "_WordPair", places: dict[int, Span], start: int, end: int
    ) -> str:
        """Return the characters from start to end of the translation with the tags in them."""
        pieces: list[str] = []
        last, follows_gap = start, False
        for tag in sorted(tags, key=lambda tag: places.get(id(tag), (start, start))):
            first, stop = places.get(id(tag), (start, start))
            before = words.text[last:first]
            before = before.lstrip() if follows_gap else before
            follows_gap = tag.gap is not None
            if tag.gap is not None:
                before = before.rstrip()
                opens = tag.gap[0] if pieces or before else ""
                closes = tag.gap[1] if words.text[stop:end].strip() else ""
                pieces += [self._text(before, words), opens, tag.opening, closes]
            elif tag.code or not tag.closing:
                pieces += [self._text(before, words), tag.opening]
            else:
                inner = self._write(tag.children, words, places, first, stop)
                pieces += [self._text(before, words), tag.opening, inner, tag.closing]
            last = stop
        rest = words.text[last:end]
        return "".join([*pieces, self._text(rest.lstrip() if follows_gap else rest, words)])

    def _text(self, text: str, words: "_WordPair") -> str:
        """Return text of the translation as markup, without codes whose content is written elsewhere."""
        return self.escape(words.code_pattern.sub("", text) if words.code_pattern else text)


def _codes(tags: Iterable[InlineTag]) -> list[str]:
    return [code for tag in tags for code in ([tag.code] if tag.code else _codes(tag.children))]


@dataclass(frozen=True)
class _WordPair:
    """The words of a text and of its translation, with their links."""

    text: str
    """The translation."""
    source_text: str
    source: list[Span]
    target: list[Span]
    targets_of: dict[int, set[int]]
    """The target words linked to each source word."""
    sources_of: dict[int, set[int]]
    code_pattern: re.Pattern[str] | None
    code_spans: dict[str, Span]
    """The characters of the translation that stand for content that is not translated."""
    first_words: dict[int, int]
    """The first source word of each sentence, with the first word of its translation."""
    code_words: set[int] = field(default_factory=set)
    """The target words that have a code."""

    @staticmethod
    def of(source_text: str, sentences: Sequence[LinkedSentence], codes: Sequence[str]) -> "_WordPair":
        document = TextDocument(source_text, tuple(sentence.span for sentence in sentences))
        text = document.join([sentence.text for sentence in sentences])
        source, target = ([word.span() for word in _WORD.finditer(side)] for side in (source_text, text))
        pattern = re.compile(rf"(?:{'|'.join(map(re.escape, codes))})(?!\d)") if codes else None
        code_spans: dict[str, Span] = {}
        for match in pattern.finditer(text) if pattern else ():
            code_spans.setdefault(match[0], match.span())
        links, first_words = _link(source_text, text, source, target, sentences)
        targets_of: dict[int, set[int]] = {}
        sources_of: dict[int, set[int]] = {}
        for i, j in links:
            targets_of.setdefault(i, set()).add(j)
            sources_of.setdefault(j, set()).add(i)
        pair = _WordPair(text, source_text, source, target, targets_of, sources_of, pattern, code_spans, first_words)
        pair.code_words.update(_word_at(target, start) for start, _ in code_spans.values())
        return pair

    def source_words(self, start: int, end: int) -> range:
        """Return the indices of the source words that overlap a span of characters."""
        first = _word_at(self.source, start)
        if first >= 0 and self.source[first][1] <= start:
            first += 1
        last = bisect_right(self.source, end - 1, key=lambda span: span[0]) if end > start else first
        return range(max(first, 0), max(last, first, 0))


def _word_at(words: Sequence[Span], position: int) -> int:
    """Return the index of the last word that begins at or before a character; -1 if there is none."""
    return bisect_right(words, position, key=lambda span: span[0]) - 1


def _link(
    source_text: str, text: str, source: list[Span], target: list[Span], sentences: Sequence[LinkedSentence]
) -> tuple[set[tuple[int, int]], dict[int, int]]:
    """Return the links of all sentences, with words counted over the whole text, and the first words of sentences."""
    links: set[tuple[int, int]] = set()
    first_words: dict[int, int] = {}
    position = source_end = 0
    for (start, end), written, of_sentence in [*sentences, LinkedSentence((len(source_text),) * 2, "")]:
        begin = text.index(written, position + start - source_end)
        links.update(zip(_between(source, source_end, start), _between(target, position, begin), strict=False))
        position, source_end = begin + len(written), end
        ours, theirs = _between(source, start, end), _between(target, begin, position)
        if not ours or not theirs:
            continue
        first, num_source = ours[0], len(ours)
        first_words[first] = theirs[0]
        given = {(first + i, theirs[0] + j) for i, j in of_sentence or () if i < num_source and j < len(theirs)}
        known = given or _link_by_position(source, target, ours, theirs)
        links |= _link_equal(source_text, text, source, target, ours, theirs, known, is_guess=not given)
    return links, first_words


def _between(words: Sequence[Span], start: int, end: int) -> range:
    """Return the indices of the words that begin between two characters."""
    return range(_word_at(words, start - 1) + 1, _word_at(words, end - 1) + 1)


def _link_by_position(source: list[Span], target: list[Span], ours: range, theirs: range) -> set[tuple[int, int]]:
    """Link each target word to the source word at the same relative position, counted in characters."""
    begin, length = source[ours[0]][0], source[ours[-1]][1] - source[ours[0]][0]
    target_begin, target_length = target[theirs[0]][0], target[theirs[-1]][1] - target[theirs[0]][0]
    links = set()
    for j in theirs:
        middle = (target[j][0] + target[j][1]) / 2 - target_begin
        at = _word_at(source, int(begin + middle * length / target_length))
        links.add((min(max(at, ours[0]), ours[-1]), j))
    return links


def _link_equal(
    source_text: str,
    text: str,
    source: list[Span],
    target: list[Span],
    ours: range,
    theirs: range,
    links: set[tuple[int, int]],
    is_guess: bool,
) -> set[tuple[int, int]]:
    """Add links between words that are equal and occur once on both sides: names, numbers, codes.

    Such a link replaces links by position, and other links if the word has a digit.
    """
    left = [source_text[slice(*_core(source_text, *source[i]))].casefold() for i in ours]
    right = [text[slice(*_core(text, *target[j]))].casefold() for j in theirs]
    counts, target_counts = Counter(left), Counter(right)
    places = {name: j for name, j in zip(right, theirs, strict=True) if target_counts[name] == 1}
    linked = {i for i, _ in links}, {j for _, j in links}
    for name, i in zip(left, ours, strict=True):
        j = places.get(name, -1)
        if j < 0 or counts[name] != 1 or not any(map(str.isalnum, name)):
            continue
        if is_guess or any(map(str.isdigit, name)):
            links = {link for link in links if link[0] != i and link[1] != j} | {(i, j)}
        elif i not in linked[0] or j not in linked[1]:
            links = links | {(i, j)}
    return links


def _is_punctuation(letter: str) -> bool:
    return unicodedata.category(letter).startswith("P")


def _core(text: str, start: int, end: int) -> Span:
    """Return the span of a word without the punctuation around it; all of it if there is nothing else."""
    first, last = start, end
    while first < last and _is_punctuation(text[first]):
        first += 1
    while last > first and _is_punctuation(text[last - 1]):
        last -= 1
    return (first, last) if first < last else (start, end)


def _place_all(
    tags: Sequence[InlineTag], parent: range, words: Span, bounds: Span, pair: _WordPair, places: dict[int, Span]
) -> None:
    """Choose the characters of the translation for each tag of a parent, which has the target words and the bounds.

    Elements come first, so that tags without words find a place between them.
    """
    taken: list[Span] = []
    for tag in sorted(tags, key=lambda tag: (not tag.code, tag.start == tag.end)):
        place = _place_code(tag, bounds, pair) if tag.code else None
        ours = pair.source_words(tag.start, tag.end) if tag.end > tag.start else range(0)
        if ours and not tag.code:
            place = _place_inside_word(tag, ours, bounds, pair)
            if place is None or _overlaps(place, taken):
                chosen = _choose_words(ours, parent, words, pair, taken)
                place = _trim(tag, chosen, bounds, pair) if chosen else None
        if place is None or _overlaps(place, taken):
            place = (_move_out(_place_point(tag, parent, words, bounds, pair), taken),) * 2
        places[id(tag)] = place
        if place[0] < place[1]:
            taken.append(place)
        if tag.children:
            inner = _overlapping(pair.target, place)
            _place_all(tag.children, ours, inner, place, pair, places)


def _overlaps(place: Span, taken: Iterable[Span]) -> bool:
    return any(place[0] < end and start < place[1] for start, end in taken)


def _move_out(position: int, taken: Iterable[Span]) -> int:
    """Return the position, or the end of an element that the position is inside of."""
    return next((end for start, end in taken if start < position < end), position)


def _overlapping(words: Sequence[Span], place: Span) -> Span:
    """Return the range of words that overlap a span of characters."""
    first = _word_at(words, place[0])
    first += first < 0 or words[first][1] <= place[0]
    return first, max(first, _word_at(words, place[1] - 1) + 1)


def _place_code(tag: InlineTag, bounds: Span, pair: _WordPair) -> Span | None:
    """Return the characters of a code in the translation; None if it is missing or outside the parent."""
    span = pair.code_spans.get(tag.code)
    return span if span and bounds[0] <= span[0] and span[1] <= bounds[1] else None


def _place_inside_word(tag: InlineTag, ours: range, bounds: Span, pair: _WordPair) -> Span | None:
    """Return the place of an element inside a word, such as the 2 of H2O, if the translation has the same word."""
    if len(ours) != 1:
        return None
    start, end = _core(pair.source_text, *pair.source[ours[0]])
    if (tag.start <= start and end <= tag.end) or not start <= tag.start < tag.end <= end:
        return None
    for j in sorted(pair.targets_of.get(ours[0], ())):
        first, last = _core(pair.text, *pair.target[j])
        if pair.text[first:last] == pair.source_text[start:end] and bounds[0] <= first and last <= bounds[1]:
            return first + tag.start - start, first + tag.end - start
    return None


def _choose_words(ours: range, parent: range, words: Span, pair: _WordPair, taken: Sequence[Span]) -> Span | None:
    """Return the range of target words for an element with the source words `ours`; None if there is none.

    It is the range with the most words that are linked to the element, less those linked to other words; of two such
    ranges the one with fewer words of others, then the one with longer words: for `bought`, of `hat ... gekauft` the
    verb and not its auxiliary.
    """
    free = [not _overlaps(pair.target[j], taken) for j in range(*words)]
    if ours == parent and all(free) and words[0] < words[1]:
        return words
    best, best_value = None, (0, 0, 0)
    start, value = words[0], (0, 0, 0)
    for j, is_free in zip(range(*words), free, strict=True):
        linked = pair.sources_of.get(j, set())
        is_ours = any(i in ours for i in linked)
        gain = (_CODE_GAIN if j in pair.code_words else 1) if is_ours else -1 if linked else 0
        total, others, letters = value
        if not is_free or total + gain <= 0:
            start, value = j + 1, (0, 0, 0)
            continue
        letters += pair.target[j][1] - pair.target[j][0] if is_ours else 0
        value = (total + gain, others - (gain < 0), letters)
        if gain > 0 and value > best_value:
            best, best_value = (start, j + 1), value
    return best or _choose_unlinked(ours, parent, words, pair, free)


def _choose_unlinked(ours: range, parent: range, words: Span, pair: _WordPair, free: Sequence[bool]) -> Span | None:
    """Return the target words without links between those of the neighbours of an element."""
    before = pair.targets_of.get(ours[0] - 1, set()) if ours[0] - 1 in parent else {words[0] - 1}
    after = pair.targets_of.get(ours[-1] + 1, set()) if ours[-1] + 1 in parent else {words[1]}
    if not before or not after:
        return None
    between = range(max(max(before) + 1, words[0]), min(min(after), words[1]))
    if between and all(free[j - words[0]] and not pair.sources_of.get(j) for j in between):
        return between[0], between[-1] + 1
    return None


def _trim(tag: InlineTag, chosen: Span, bounds: Span, pair: _WordPair) -> Span:
    """Return the characters of target words, with punctuation and white space at both ends as in the source."""
    first, last = (pair.text[slice(*pair.target[j])] for j in (chosen[0], chosen[1] - 1))
    text, inner = pair.source_text, pair.source_text[tag.start : tag.end]
    begin, stop = tag.end - len(inner.lstrip()), tag.start + len(inner.rstrip())
    start = pair.target[chosen[0]][0] + _num_outside(first, text[:begin], inner.strip())
    # The end of a word is the beginning of the reversed word.
    end = pair.target[chosen[1] - 1][1] - _num_outside(last[::-1], text[: stop - 1 : -1], inner.strip()[::-1])
    start, end = max(start, bounds[0]), min(end, bounds[1])
    if inner[:1].isspace():
        while start > bounds[0] and pair.text[start - 1].isspace():
            start -= 1
    if inner[-1:].isspace():
        while end < bounds[1] and pair.text[end].isspace():
            end += 1
    return start, max(start, end)


def _num_outside(word: str, before: str, inner: str) -> int:
    """Return the number of punctuation marks at the beginning of a word that stay outside an element.

    `before` is the source before the element, and `inner` the source inside it.
    """
    marks = word[: _core(word, 0, len(word))[0]]
    outside = before[len(before) - _num_marks(before) :]
    if outside and marks.startswith(outside):
        return len(outside)
    return 0 if inner and _is_punctuation(inner[0]) else len(marks)


def _num_marks(text: str) -> int:
    """Return the number of punctuation marks at the end of a text."""
    return next((i for i, letter in enumerate(reversed(text)) if not _is_punctuation(letter)), len(text))


def _place_point(tag: InlineTag, parent: range, words: Span, bounds: Span, pair: _WordPair) -> int:
    """Return the character where a tag without words goes: beside the target of its nearest neighbour."""
    text, at = pair.source_text, tag.start
    following = _word_at(pair.source, at - 1) + 1
    is_inside = following > 0 and pair.source[following - 1][1] > at > 0  # within a word, or before its punctuation
    is_glued = tag.gap is None and at > 0 and not text[at - 1].isspace()
    before, after = following - 1, _word_at(pair.source, tag.end - 1) + 1
    if is_glued and is_inside and not all(map(_is_punctuation, text[at : pair.source[before][1]])):
        exact = _place_in_equal_word(at, before, bounds, pair)
        if exact is not None:
            return exact
    first = pair.first_words.get(after, -1)
    if not is_glued and words[0] <= first < words[1]:  # between two sentences
        return max(bounds[0], min(pair.target[first][0], bounds[1]))
    for distance in range(len(parent) + 1):
        sides = [(after + distance, True), (before - distance, False)]
        for i, is_after in reversed(sides) if is_glued else sides:
            found = [j for j in pair.targets_of.get(i, ()) if words[0] <= j < words[1]] if i in parent else []
            if found and is_after:
                return max(bounds[0], min(pair.target[min(found)][0], bounds[1]))
            if found:
                span = pair.target[max(found)]
                end = _core(pair.text, *span)[1] if is_inside and not distance else span[1]
                return max(bounds[0], min(end, bounds[1]))
        if after + distance not in parent and not distance and not is_glued:
            return bounds[1]
    return bounds[0] if at <= (pair.source[parent[0]][0] if parent else 0) else bounds[1]


def _place_in_equal_word(at: int, word: int, bounds: Span, pair: _WordPair) -> int | None:
    start, end = pair.source[word]
    for j in pair.targets_of.get(word, ()):
        first, last = pair.target[j]
        if pair.text[first:last] == pair.source_text[start:end] and bounds[0] <= first and last <= bounds[1]:
            return first + at - start
    return None
