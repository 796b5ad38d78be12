"""A trained model as one thing to call: `dragoman.load(...)` gives it. No torch here, unless its engine is torch."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import overload

from dragoman.bundle import Bundle, demo_folder, open_bundle
from dragoman.decoding.alternatives import Alternative, alternatives, completed, scored
from dragoman.decoding.document import Document
from dragoman.decoding.flow import Flow, beside
from dragoman.decoding.given import Compute, EngineName, a_text
from dragoman.decoding.protect import protected
from dragoman.decoding.translated import Sentence, Translated, sentence
from dragoman.decoding.translator import WINDOW, Progress, Translator


class Model:
    """Translates texts, and answers questions about translations.

    Every way to translate takes the same options. `split`: a text is cut into sentences, and its layout comes back;
    without it a line is one sentence, as in a test set. `protect`: placeholders, tags, addresses and numbers come
    through as they are. `prefix`: how the translation of a single sentence is to begin.
    """

    def __init__(self, translator: Translator, language: str | None = None) -> None:
        self.translator = translator
        self.language = language
        """What it reads, as a language code; None if unknown."""

    @staticmethod
    def load(
        model: str | Path = "demo",
        engine: EngineName = "auto",
        threads: int | None = None,
        compute: Compute | None = None,
        beam_size: int | None = None,
        num_best: int | None = None,
    ) -> "Model":
        """The model in a folder; "demo" is the one that is built in, "./demo" a folder of this name."""
        folder = demo_folder() if model == "demo" else Path(model)
        return Model.of(open_bundle(folder), engine, threads, compute, beam_size, num_best)

    @staticmethod
    def of(
        bundle: Bundle,
        engine: EngineName = "auto",
        threads: int | None = None,
        compute: Compute | None = None,
        beam_size: int | None = None,
        num_best: int | None = None,
    ) -> "Model":
        """The model of a bundle that is open."""
        translator = Translator.of(bundle, threads, beam_size, engine, compute, num_best)
        return Model(translator, bundle.info.source_language)

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, split: bool = ..., protect: bool = ..., prefix: str = ...
    ) -> str: ...

    @overload
    def translate(
        self, texts: Iterable[str], *, split: bool = ..., protect: bool = ..., prefix: str = ...
    ) -> list[str]: ...

    def translate(
        self, texts: str | Iterable[str], *, split: bool = True, protect: bool = False, prefix: str = ""
    ) -> str | list[str]:
        """One translation for a text, a list for several."""
        several = [texts] if isinstance(texts, str) else texts
        found = list(self.translate_iter(several, split=split, protect=protect, prefix=prefix))
        return found[0] if isinstance(texts, str) else found

    def translate_iter(
        self,
        texts: Iterable[str],
        *,
        split: bool = True,
        protect: bool = False,
        prefix: str = "",
        window: int = WINDOW,
        progress: Progress | None = None,
    ) -> Iterator[str]:
        """One translation for each text, in the same order, in constant memory however many there are."""
        found = self.details(texts, split=split, protect=protect, prefix=prefix, window=window, progress=progress)
        return (one.text for one in found)

    def details(
        self,
        texts: str | Iterable[str],
        *,
        split: bool = True,
        protect: bool = False,
        prefix: str = "",
        window: int = WINDOW,
        progress: Progress | None = None,
    ) -> Iterator[Translated]:
        """The same with all sentences and their scores. `progress` is told how many texts are done, and were read."""
        several = [texts] if isinstance(texts, str) else _strings(texts)
        cut = self._cut if split else Document.of_lines
        if prefix:
            return iter([self._completed(cut, list(islice(several, 2)), prefix, protect)])
        flow = Flow(several, cut, progress)
        return flow.through(lambda sentences, tell: self._found(sentences, protect, window, tell))

    def score(self, source: str, target: str) -> tuple[float, ...]:
        """The log-probability of each token of a given translation and, last, of its end."""
        return scored(self.translator, source, target)

    def alternatives(self, source: str, prefix: str = "", num: int = 5) -> list[Alternative]:
        """What is most likely to come next in a translation that begins like this, and how each would go on."""
        return alternatives(self.translator, source, prefix, num)

    def _cut(self, text: str) -> Document:
        return Document.of(text, self.language)

    def _found(
        self, sentences: Iterable[str], protect: bool, window: int, progress: Progress | None
    ) -> Iterator[Sentence]:
        """One for each sentence, while the engine has the next ones already."""
        parts = beside(sentences, lambda some: self.translator.parts_iter(some, window, progress))
        found = (sentence(text, some, self.translator.text) for text, some in parts)
        return protected(found, self._at_once, window) if protect else found

    def _at_once(self, sentences: list[str]) -> list[Sentence]:
        return list(self._found(sentences, False, max(1, len(sentences)), None))

    def _completed(self, cut: Callable[[str], Document], texts: list[str], prefix: str, protect: bool) -> Translated:
        documents = [cut(text) for text in texts]
        sentences = [sentence for document in documents for sentence in document.sentences]
        if not sentences:
            raise ValueError("there is nothing to translate after the prefix: give a sentence")
        if len(documents) != 1 or len(sentences) != 1:
            raise ValueError("a prefix is the beginning of one translation: give one sentence, or split=False")
        if protect:
            raise ValueError("give a prefix, or protect=True, not both")
        found = completed(self.translator, sentences[0], prefix)
        return Translated(documents[0].joined([found.text]), (found,))


def _strings(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts, 1):
        a_text(f"text {number:,}", text)
        yield text
