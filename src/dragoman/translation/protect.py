"""Keep placeholders, addresses, code, emoji and numbers in translations, even if the model does not copy them.

If the model's output lacks a protected string, the sentence is translated again with codes such as X1, which models
copy better, in place of the strings, and then with names. If a string is still missing, the words between the strings
are translated separately and joined around the strings. Emoji before and after the words are not shown to the model.
Does not import torch.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dragoman.translation.results import SentenceTranslation, TextHypothesis
from dragoman.translation.verbatim import (
    find_runs,
    in_word,
    missing_strings,
    replace_runs,
    split_at_runs,
    survives,
    trim_emoji,
)

Translate = Callable[[list[str]], list[SentenceTranslation]]
Complete = Callable[[str, str], SentenceTranslation]
"""Translates a source with a given beginning of the translation."""

_CODES: Final = ("X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8")
_NUMBERS: Final = ("21", "32", "43", "54", "65", "76", "87", "98")
_NAMES: Final = ("Jackson", "Tom", "Boston", "Mary", "London", "John", "Paris", "Anna")
_ROUNDS: Final = ((_CODES, _NUMBERS), (_NAMES, _NAMES))
"""Stand-ins for markers and for numbers, in each round. Of 29 sentences in which the demo model lost a string, codes
restored 20 and names 5 more."""

_WORDS: Final = re.compile(r"[^\W\d_](?:.*\w)?", re.DOTALL)
"""Text from the first letter to the last letter or digit."""
_SUFFIX: Final = re.compile(r"[^\W\d_]+")
"""Letters after digits, as in 40th or 1990s: alone they have no translation."""
_NUMBER: Final = re.compile(r"[-+\u2212]?[^\W_][^A-Za-z]*")
_STOP: Final = re.compile(r"[.!?…\u3002\uff01\uff1f]+$")


def protect_sentences(found: Sequence[SentenceTranslation], translate: Translate) -> list[SentenceTranslation]:
    """Translate a sentence again if its translation lacks a placeholder, tag, address or number of the source."""
    done = [sentence if _all_survive(sentence) else _keep(sentence.source, sentence.hypotheses) for sentence in found]
    for stand_ins in _ROUNDS:
        lost = {i: found[i].source for i, sentence in enumerate(done) if sentence is None}
        tries = {i: _disguise(source, stand_ins, trim_emoji(source)) for i, source in lost.items()}
        disguises = {i: disguise for i, disguise in tries.items() if disguise}
        retried = translate([disguise.text for disguise in disguises.values()])
        for (i, disguise), other in zip(disguises.items(), retried, strict=True):
            done[i] = _keep(found[i].source, disguise.remove(other.hypotheses))
    still_lost = [found[i].source for i, sentence in enumerate(done) if sentence is None]
    pieced = iter(_translate_between(still_lost, translate))
    return [sentence or next(pieced) for sentence in done]


def protect_prefixed(found: SentenceTranslation, prefix: str, complete: Complete) -> SentenceTranslation:
    """Translate a sentence again if its translation with a given prefix lacks a protected string.

    If a string is still missing, it is added at the end, because the beginning is given.
    """
    if _all_survive(found):
        return found
    done = _keep(found.source, found.hypotheses)
    for stand_ins in _ROUNDS:
        disguise = None if done else _disguise(found.source, stand_ins, ("", found.source, ""))
        if disguise:
            done = _keep(found.source, disguise.remove(complete(disguise.text, disguise.hide(prefix)).hypotheses))
    return done or SentenceTranslation(found.source, (_append_missing(found),))


def _all_survive(sentence: SentenceTranslation) -> bool:
    return all(survives(sentence.source, hypothesis.text) for hypothesis in sentence.hypotheses)


def _keep(source: str, hypotheses: Iterable[TextHypothesis]) -> SentenceTranslation | None:
    """Return the hypotheses that contain every protected string of the source, or None if no hypothesis does."""
    kept = tuple(hypothesis for hypothesis in hypotheses if survives(source, hypothesis.text))
    return SentenceTranslation(source, kept) if kept else None


@dataclass(frozen=True)
class _Disguise:
    """A sentence with codes or names in place of its protected strings (placeholders, addresses, numbers)."""

    text: str
    meanings: dict[str, str]
    """The protected string for each code or name."""
    before: str
    """Emoji before the words."""
    after: str

    def hide(self, prefix: str) -> str:
        """Return the prefix of a translation with codes or names in place of protected strings."""
        codes = {string: name for name, string in self.meanings.items()}
        return replace_runs(prefix, lambda run: codes.get(run[0], run[0]))

    def remove(self, hypotheses: Iterable[TextHypothesis]) -> Iterator[TextHypothesis]:
        """Yield the hypotheses with the protected strings put back in place of the codes or names."""
        words = re.compile(rf"(?<!\w)(?:{'|'.join(self.meanings)})(?!\w)") if self.meanings else None
        for hypothesis in hypotheses:
            text = words.sub(lambda word: self.meanings[word[0]], hypothesis.text) if words else hypothesis.text
            yield hypothesis._replace(text=f"{self.before}{text}{self.after}")


def _disguise(
    source: str, stand_ins: tuple[Sequence[str], Sequence[str]], parts: tuple[str, str, str]
) -> _Disguise | None:
    """Replace the protected strings of a sentence with codes or names.

    `parts` are the emoji before the words, the words, and the emoji after them. Return None if there are too few codes
    or names, or if a protected string is attached to a word.
    """
    (markers, numbers), (before, words, after) = stand_ins, parts
    strings = list(find_runs(words))
    if any(in_word(words, *string.span()) for string in strings):
        return None
    kinds = [numbers if _NUMBER.fullmatch(string[0]) else markers for string in strings]
    free = {kind: iter([name for name in kind if name not in source]) for kind in kinds}
    names = [name for kind in kinds if (name := next(free[kind], None))]
    if len(names) < len(strings):
        return None
    following = iter(names)
    text = replace_runs(words, lambda _: next(following))
    return _Disguise(text, {name: string[0] for name, string in zip(names, strings, strict=True)}, before, after)


def _append_missing(found: SentenceTranslation) -> TextHypothesis:
    """Return the best hypothesis with the missing protected strings before its final punctuation."""
    best = found.hypotheses[0]
    text = _STOP.sub("", best.text)
    added = " ".join([text, *missing_strings(found.source, best.text)])
    return best._replace(text=added + best.text[len(text) :])


def _translate_between(sources: Sequence[str], translate: Translate) -> list[SentenceTranslation]:
    """Translate only the words between protected strings and punctuation; keep the strings and punctuation."""
    cut = [_split_fixed(source) for source in sources]
    words = list(dict.fromkeys(piece for pieces in cut for piece in pieces[1::2]))
    known = dict(zip(words, translate(words), strict=True))
    return [SentenceTranslation(source, (_join(pieces, known),)) for source, pieces in zip(sources, cut, strict=True)]


def _split_fixed(source: str) -> list[str]:
    """Split a source into fixed text and words to translate, alternating, with fixed text first and last."""
    pieces = [""]
    for index, stretch in enumerate(split_at_runs(source)):
        suffix = _SUFFIX.match(stretch) if pieces[-1][-1:].isdigit() else None
        if suffix:
            pieces[-1] += suffix[0]
            stretch = stretch[suffix.end() :]
        words = None if index % 2 else _WORDS.search(stretch)
        if words:
            pieces[-1] += stretch[: words.start()]
            pieces += [words[0], stretch[words.end() :]]
        else:
            pieces[-1] += stretch
    return pieces


def _join(pieces: Sequence[str], known: dict[str, SentenceTranslation]) -> TextHypothesis:
    """Join fixed text and translated words into one hypothesis, without the full stops that the model adds.

    Words with an empty translation stay in the source language.
    """
    found = [known[piece] for piece in pieces[1::2]]
    texts = list(pieces)
    texts[1::2] = [_STOP.sub("", sentence.text) or sentence.source for sentence in found]
    return TextHypothesis.join("".join(texts), (sentence.hypotheses[0] for sentence in found))
