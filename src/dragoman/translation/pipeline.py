"""Streaming translation, shared by the API, the command line and bulk runs.

Inputs are translated in windows (groups of texts). While the caller takes the results of one window, the engine
translates the next. Results come in input order, and at most two windows are in memory, however many inputs there are.
With a live input, such as standard input, a window ends as soon as no more input arrives. Does not import torch.
"""

import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from dragoman.decoding.checks import check_text
from dragoman.io.progress import Progress, ignore_progress
from dragoman.translation.alternatives import complete
from dragoman.translation.apply_glossary import GlossaryTranslator, LinksOf
from dragoman.translation.document import TextDocument
from dragoman.translation.glossary import Glossary
from dragoman.translation.letter_case import restore_case, to_usual_case
from dragoman.translation.protect import protect_prefixed, protect_sentences
from dragoman.translation.results import SentenceTranslation, TextTranslation
from dragoman.translation.translator import Submission, Translator

WINDOW: Final = 2048
"""The maximum number of sentences in a window."""

FIRST_WINDOW: Final = 64
"""The first window is smaller, so that results appear soon; each following one is twice as large, up to WINDOW."""

PAUSE_S: Final = 0.05
"""Seconds without new input after which the inputs read so far are translated."""

_READ_AHEAD: Final = 4096

KeyT = TypeVar("KeyT")
Inputs = Iterable[tuple[KeyT, str | TextDocument | None]]
"""Keys with texts, or documents that are split already; None where there is no text."""
Outputs = list[tuple[KeyT, TextTranslation | None]]
_Entries = list[tuple[KeyT, TextDocument | None]]


class _Window(NamedTuple):
    """A window: a group of inputs that the engine is translating."""

    entries: _Entries[Any]
    submission: Submission
    num_read: int
    """The number of inputs read up to the end of this window."""


class _Signal(Enum):
    PAUSE = 0


@dataclass(frozen=True)
class Pipeline:
    """Translates a stream of texts, and yields the translations in input order.

    `split` splits a text into sentences and keeps the layout; otherwise each line is a sentence. `protect` keeps
    placeholders, tags, addresses, code, emoji and numbers, and translates text in capitals and titles by its usual
    letter case; None: if the model's bundle says so. A sentence is never translated to nothing: its source is kept, and
    `SentenceTranslation.kept` is the reason.
    """

    translator: Translator
    split: bool = True
    protect: bool | None = None
    window: int = WINDOW
    progress: Progress = ignore_progress
    """Called with "translate" and the number of texts done."""
    glossary: Glossary | None = None
    """Terms that the translations use; a sentence without a term is translated as without a glossary."""
    links_of: LinksOf | None = None
    """The links by the model's alignment heads, for the places of the terms; None: the places are found by scoring."""

    def translate(self, texts: Iterable[str]) -> Iterator[TextTranslation]:
        """Yield one translation for each text, in order."""
        for _, translation in self.run(_checked(texts)):
            assert translation is not None
            yield translation

    def run(self, inputs: Inputs[KeyT], is_live: bool = False) -> Iterator[tuple[KeyT, TextTranslation | None]]:
        """Yield each input's key with its translation; the translation is None for an input without text."""
        for window in self.windows(inputs, is_live):
            yield from window

    def windows(self, inputs: Inputs[KeyT], is_live: bool = False) -> Iterator[Outputs[KeyT]]:
        """Yield a list of (key, translation) pairs for each window (group of texts translated together)."""
        submitted: deque[_Window] = deque()
        ahead, num_read = 1 if self.window > 1 else 0, 0
        for entries in self._gather(_read_live(inputs) if is_live else inputs):
            if entries:
                num_read += len(entries)
                submitted.append(self._submit(entries, num_read))
            while len(submitted) > (ahead if entries else 0):
                yield self._collect(submitted.popleft())

    def translate_prefix(self, text: str, prefix: str) -> TextTranslation:
        """Translate a text of one sentence so that the translation begins with the prefix."""
        document = self.cut(text)
        if not document.spans:
            raise ValueError("the text has no sentence to translate with the prefix: give a sentence")
        if len(document.spans) > 1:
            raise ValueError("a prefix cannot apply to several sentences: give one sentence, or split=False")
        found = complete(self.translator, document.sentences[0], prefix)
        if self._protects:
            found = protect_prefixed(found, prefix, partial(complete, self.translator))
        return TextTranslation(document, (found.without_empty(),))

    @property
    def _protects(self) -> bool:
        return self.translator.protects if self.protect is None else self.protect

    def cut(self, text: str) -> TextDocument:
        """Split a text into sentences, or into lines with `split=False`."""
        return TextDocument.of(text, self.translator.language) if self.split else TextDocument.of_lines(text)

    def _gather(self, inputs: Iterable[tuple[KeyT, str | TextDocument | None] | _Signal]) -> Iterator[_Entries[KeyT]]:
        """Yield the inputs of each window, and an empty list when live input pauses and at the end."""
        entries: _Entries[KeyT] = []
        first = size = min(self.window, FIRST_WINDOW)
        num_sentences = 0
        for item in inputs:
            if not isinstance(item, _Signal):
                key, text = item
                document = self.cut(text) if isinstance(text, str) else text
                entries.append((key, document))
                # At least one each, or a million empty lines would all be read before the first result.
                num_sentences += max(1, len(document.spans) if document else 0)
                if num_sentences < size:
                    continue
            if entries:
                yield entries
            size = min(self.window, 2 * size)
            if isinstance(item, _Signal):
                yield []
                size = first
            entries, num_sentences = [], 0
        if entries:
            yield entries
        yield []

    def _submit(self, entries: _Entries[KeyT], num_read: int) -> _Window:
        sentences = [sentence for _, document in entries if document for sentence in document.sentences]
        if self._protects:
            source = self.translator.vocab.source
            usual = {sentence: to_usual_case(sentence, source) for sentence in dict.fromkeys(sentences)}
            return _Window(entries, self.translator.submit([usual[sentence] for sentence in sentences]), num_read)
        return _Window(entries, self.translator.submit(sentences), num_read)

    def _collect(self, window: _Window) -> Outputs[Any]:
        found = self.translator.collect(window.submission, self._progress_of(window))
        if self._protects:
            found = protect_sentences(found, self._translate_again)
        terms = self._terms
        found = terms.apply(found, self._protects) if terms else found
        self.progress("translate", window.num_read)
        finished = (sentence.without_empty() for sentence in found)
        reported = map(terms.report, finished) if terms else finished
        return [
            (key, document and TextTranslation(document, tuple(map(restore_case, document.sentences, reported))))
            for key, document in window.entries
        ]

    def _translate_again(self, sentences: list[str]) -> list[SentenceTranslation]:
        """Translate sentences with codes in place of protected strings, or the words between such strings."""
        found = self.translator.sentences(sentences)
        return self._terms.apply(found, True) if self._terms else found

    @property
    def _terms(self) -> GlossaryTranslator | None:
        return GlossaryTranslator(self.glossary, self.translator, self.links_of) if self.glossary else None

    def _progress_of(self, window: _Window) -> Progress:
        """Return a progress callback that converts finished sentences of the window to finished texts of the run."""
        num_texts = len(window.entries)

        def report(what: str, done: int, total: int | None = None, unit: str = "") -> None:
            texts_left = num_texts - num_texts * done // (total or done)
            self.progress(what, window.num_read - texts_left, None, unit)

        return report


def _checked(texts: Iterable[str]) -> Iterator[tuple[None, str]]:
    """Yield the texts as inputs without a key; raise ValueError for a text that is not a string."""
    for number, text in enumerate(texts, 1):
        check_text(f"text {number:,}", text)
        yield None, text


def _read_live(inputs: Iterable[KeyT]) -> Iterator[KeyT | _Signal]:
    """Yield inputs that a background thread reads, and PAUSE if no input arrives for PAUSE_S seconds."""
    arrived: queue.Queue[tuple[KeyT] | BaseException | None] = queue.Queue(_READ_AHEAD)

    def read() -> None:
        try:
            for item in inputs:
                arrived.put((item,))
        except BaseException as error:
            arrived.put(error)
        else:
            arrived.put(None)

    threading.Thread(target=read, daemon=True).start()  # it may wait for a line that never comes
    while True:
        try:
            item = arrived.get(timeout=PAUSE_S)
        except queue.Empty:
            yield _Signal.PAUSE
            item = arrived.get()
        if item is None:
            return
        if isinstance(item, BaseException):
            yield _Signal.PAUSE  # what came before it is translated
            raise item
        yield item[0]
