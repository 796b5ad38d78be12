"""Many texts as one stream of sentences, and the translations put together again: in order, in constant memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from dragoman.decoding.document import Document
from dragoman.decoding.translated import Sentence, Translated
from dragoman.decoding.translator import Progress

FoundT = TypeVar("FoundT")

Translate = Callable[[Iterable[str], Progress | None], Iterator[Sentence]]
"""Sentences in, as many out, in the same order; how many are read ahead is its affair."""


class Flow:
    """Texts on their way. However many sentences the engine has at once, no more texts are kept than they are from."""

    def __init__(self, texts: Iterable[str], cut: Callable[[str], Document], progress: Progress | None = None) -> None:
        self._texts = texts
        self._cut = cut
        self._progress = progress
        self._waiting: deque[Document] = deque()
        self._ends: deque[int] = deque()
        """For each text that is not yet done, the number of the last sentence that it waits for."""
        self._num_read = 0

    def through(self, translate: Translate) -> Iterator[Translated]:
        """What comes out at the other end."""
        found = translate(self._sentences(), self._told if self._progress else None)
        for first in found:
            document = self._waiting.popleft()
            sentences = (first, *islice(found, len(document.spans) - 1)) if document.spans else ()
            yield Translated(document.joined([one.text for one in sentences]), sentences)

    def _sentences(self) -> Iterator[str]:
        """At least one for each text, or a million empty lines would all be read before the first came out."""
        num_sentences = 0
        for text in self._texts:
            self._num_read += 1
            document = self._cut(text)
            self._waiting.append(document)
            sentences = document.sentences or ("",)
            if self._progress:
                num_sentences += len(sentences)
                self._ends.append(num_sentences)
            yield from sentences

    def _told(self, num_sentences: int, _: int) -> None:
        assert self._progress
        while self._ends and self._ends[0] <= num_sentences:
            self._ends.popleft()
        self._progress(self._num_read - len(self._ends), self._num_read)


def beside(texts: Iterable[str], work: Callable[[Iterable[str]], Iterator[FoundT]]) -> Iterator[tuple[str, FoundT]]:
    """Each text with what comes of it, however far ahead they are read. What `work` refuses at once is said at once."""
    held: deque[str] = deque()
    found = work(_remembered(texts, held))
    return ((held.popleft(), one) for one in found)


def _remembered(texts: Iterable[str], held: deque[str]) -> Iterator[str]:
    for text in texts:
        held.append(text)
        yield text
