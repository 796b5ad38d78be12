"""Translations in which placeholders, addresses and numbers are what they were, whatever the model makes of them.

A model that never saw a placeholder may mangle it, so what it writes is looked at. If something is missing, the
sentence is translated once more with codes in its place, such as X1, which models copy better, then with names. If it
is still missing, what stands between is translated piece by piece, and the pieces are put around it. No torch here.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dragoman.decoding.clauses import UNSPACED
from dragoman.decoding.translated import Sentence, Written, together
from dragoman.decoding.translator import FIRST_WINDOW
from dragoman.decoding.verbatim import RUNS, survives

Translate = Callable[[list[str]], list[Sentence]]

_CODES: Final = ("X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8")
_NUMBERS: Final = ("21", "32", "43", "54", "65", "76", "87", "98")
_NAMES: Final = ("Jackson", "Tom", "Boston", "Mary", "London", "John", "Paris", "Anna")
_ROUNDS: Final = ((_CODES, _NUMBERS), (_NAMES, _NAMES))
"""What stands for markers, and what for numbers. Of 29 sentences in which the demo lost something, codes brought back
20 and names 5 more."""

_WORD: Final = re.compile(f"[^\\W{UNSPACED}]")
_WORDS: Final = re.compile(r"[^\W\d_](?:.*\w)?", re.DOTALL)
"""From the first letter to the last, or to a digit."""
_SPLIT: Final = re.compile(f"({RUNS.pattern})")
_NUMBER: Final = re.compile(r"[-+\u2212]?[^\W_][^A-Za-z]*")
_STOP: Final = re.compile(r"[.!?…\u3002\uff01\uff1f]+$")


def protected(found: Iterable[Sentence], translate: Translate, window: int) -> Iterator[Sentence]:
    """The same sentences in the same order, `window` of them at a time: all that need another try go together."""
    found, size = iter(found), min(window, FIRST_WINDOW)
    while some := list(islice(found, size)):
        yield from rescued(some, translate)
        size = min(window, 2 * size)


def rescued(found: Sequence[Sentence], translate: Translate) -> list[Sentence]:
    """Every sentence with all of its verbatim strings."""
    done = [one if _all_survive(one) else _kept(one.source, one.hypotheses) for one in found]
    for stand_ins in _ROUNDS:
        tries = {place: _disguised(found[place].source, *stand_ins) for place, one in enumerate(done) if one is None}
        worn = {place: disguise for place, disguise in tries.items() if disguise}
        seen = translate([disguise.text for disguise in worn.values()])
        for (place, disguise), other in zip(worn.items(), seen, strict=True):
            done[place] = _kept(found[place].source, disguise.taken_off(other.hypotheses))
    lost = [found[place].source for place, one in enumerate(done) if one is None]
    pieced = iter(_pieced(lost, translate))
    return [one or next(pieced) for one in done]


def _all_survive(one: Sentence) -> bool:
    return all(survives(one.source, other.text) for other in one.hypotheses)


def _kept(source: str, hypotheses: Iterable[Written]) -> Sentence | None:
    """The sentence with those translations that have everything."""
    kept = tuple(one for one in hypotheses if survives(source, one.text))
    return Sentence(source, kept) if kept else None


@dataclass(frozen=True)
class _Disguise:
    text: str
    """The sentence, with other words for its verbatim strings."""
    meant: dict[str, str]
    """What each of them stands for."""

    def taken_off(self, hypotheses: Iterable[Written]) -> Iterator[Written]:
        """The translations, with what was meant where a stand-in has come through."""
        worn = re.compile(rf"(?<!\w)(?:{'|'.join(self.meant)})(?!\w)")
        for one in hypotheses:
            yield one._replace(text=worn.sub(lambda found: self.meant[found[0]], one.text))


def _disguised(source: str, markers: Sequence[str], numbers: Sequence[str]) -> _Disguise | None:
    """None if there are too many strings, or a word would grow together with what stands for one."""
    strings = list(RUNS.finditer(source))
    if any(_in_word(source, *string.span()) for string in strings):
        return None
    kinds = [numbers if _NUMBER.fullmatch(string[0]) else markers for string in strings]
    free = {kind: iter([name for name in kind if name not in source]) for kind in kinds}
    names = [name for kind in kinds if (name := next(free[kind], None))]
    if len(names) < len(strings):
        return None
    given = iter(names)
    text = RUNS.sub(lambda _: next(given), source)
    return _Disguise(text, {name: string[0] for name, string in zip(names, strings, strict=True)})


def _in_word(source: str, start: int, end: int) -> bool:
    return bool(_WORD.match(source[end : end + 1]) or _WORD.match(source[max(0, start - 1) : start]))


def _pieced(sources: Sequence[str], translate: Translate) -> list[Sentence]:
    """Each with its verbatim strings and its punctuation in their places, and the words between translated."""
    cut = [_stretches(source) for source in sources]
    words = list(dict.fromkeys(piece for pieces in cut for piece in pieces[1::2]))
    known = dict(zip(words, translate(words), strict=True))
    return [Sentence(source, (_joined(pieces, known),)) for source, pieces in zip(sources, cut, strict=True)]


def _stretches(source: str) -> list[str]:
    """What stays and what is words, in turn, beginning and ending with what stays."""
    pieces = [""]
    for place, stretch in enumerate(_SPLIT.split(source)):
        words = None if place % 2 else _WORDS.search(stretch)
        if words:
            pieces[-1] += stretch[: words.start()]
            pieces += [words[0], stretch[words.end() :]]
        else:
            pieces[-1] += stretch
    return pieces


def _joined(pieces: Sequence[str], known: dict[str, Sentence]) -> Written:
    """A model puts a full stop after what it takes for a sentence: it is taken away. What it leaves out stays."""
    found = [known[piece] for piece in pieces[1::2]]
    texts = list(pieces)
    texts[1::2] = [_STOP.sub("", one.text) or one.source for one in found]
    return together("".join(texts), (one.hypotheses[0] for one in found))
