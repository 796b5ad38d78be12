"""The work of `dragoman translate`: a model is loaded, and texts become answers with all that was asked for."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import Final

from dragoman.bundle import Bundle
from dragoman.cli.translate_answers import Answer, Found
from dragoman.cli.translate_asked import Asked
from dragoman.cli.translate_links import Linker
from dragoman.decoding.document import Document
from dragoman.decoding.flow import beside
from dragoman.decoding.model import Model
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.translated import Sentence, Translated
from dragoman.decoding.translator import Progress

_LINKED_AT_ONCE: Final = 64


class Work:
    """A model and what is asked of it."""

    def __init__(self, asked: Asked, bundle: Bundle) -> None:
        self.asked = asked
        beam = asked.beam or SearchOptions.model_validate(bundle.info.search).beam_size
        if asked.nbest is not None and asked.nbest > beam:
            raise ValueError(f"--nbest {asked.nbest} needs a beam as wide, not {beam}: add --beam {asked.nbest}")
        self.model = Model.of(bundle, asked.engine_name, asked.threads, asked.compute_type, asked.beam, asked.nbest)
        self.linker = Linker.of(bundle, self.model.translator) if asked.alignment else None
        if asked.compute == "int8":
            print("int8: the same text may be answered otherwise in another batch", file=sys.stderr)

    def answers(self, texts: Iterable[str], progress: Progress | None = None) -> Iterator[Answer]:
        """One for each text, in order."""
        work = partial(
            self.model.details,
            split=self._splits,
            protect=self.asked.protect,
            prefix=self.asked.prefix or "",
            progress=progress,
        )
        found = beside(texts, work)
        if self.linker is None:
            return (self._answer(text, one) for text, one in found)
        return self._linked(found, self.linker)

    @property
    def _splits(self) -> bool:
        return self.asked.split and self.asked.prefix is None

    def _answer(self, text: str, found: Translated) -> Answer:
        if self.asked.nbest is None:
            return (Found(found.text, sum(one.score for one in found.sentences)),)
        document = self._document(text)
        return tuple(
            Found(document.joined(_chosen(found.sentences, places)), score)
            for score, places in best_together(found.sentences, self.asked.nbest)
        )

    def _linked(self, found: Iterator[tuple[str, Translated]], linker: Linker) -> Iterator[Answer]:
        """Many at once: the heads are watched in batches."""
        num_best = self.asked.nbest or 1
        while some := list(islice(found, _LINKED_AT_ONCE)):
            known = linker.of_sentences([one for _, translated in some for one in translated.sentences], num_best)
            for text, translated in some:
                document, sentences = self._document(text), translated.sentences
                links = [next(known) for _ in sentences]
                yield tuple(
                    linker.linked(document, _chosen(sentences, places), links, places, score)
                    for score, places in best_together(sentences, num_best)
                )

    def _document(self, text: str) -> Document:
        return Document.of(text, self.model.language) if self._splits else Document.of_lines(text)


def best_together(sentences: Iterable[Sentence], num: int) -> list[tuple[float, tuple[int, ...]]]:
    """The choices of one translation for each sentence that have the highest scores in sum, best first."""
    kept: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for sentence in sentences:
        longer = (
            (score + one.score, (*places, place))
            for score, places in kept
            for place, one in enumerate(sentence.hypotheses)
        )
        kept = nlargest(num, longer, key=lambda choice: choice[0])
    return kept


def _chosen(sentences: Iterable[Sentence], places: Iterable[int]) -> list[str]:
    return [one.hypotheses[place].text for one, place in zip(sentences, places, strict=True)]
