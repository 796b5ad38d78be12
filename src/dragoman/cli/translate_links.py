"""Which words belong together in what `dragoman translate` writes: sentence by sentence, and counted over the text."""

import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dragoman.bundle import Bundle
from dragoman.cli.translate_answers import Found
from dragoman.data.alignment import Links
from dragoman.data.moses import to_moses
from dragoman.decoding.document import Document
from dragoman.decoding.translated import Sentence
from dragoman.decoding.translator import Part, Translator

if TYPE_CHECKING:
    from dragoman.decoding.ctranslate2_engine import CTranslate2Engine


@runtime_checkable
class Aligning(Protocol):
    """Aligns what was written: by an export's stored heads, or by torch."""

    def links_of(self, lines: Sequence[str], translations: Sequence[Sequence[Part]]) -> list[Links]:
        """Those of each line."""


class Linker:
    """An aligner, and the translator whose words it counts."""

    def __init__(self, aligner: Aligning, translator: Translator) -> None:
        self.aligner = aligner
        self.translator = translator

    @staticmethod
    def of(bundle: Bundle, translator: Translator) -> "Linker":
        """By the engine that translates, if it can; else by torch, with the reason said."""
        if translator.engine.name == "ctranslate2":
            from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
            from dragoman.inspection.export_aligner import ExportAligner

            assert isinstance(translator.engine, CTranslate2Engine)
            reason = _why_not(bundle, translator.engine)
            if reason is None:
                return Linker(ExportAligner(translator.engine, bundle.vocab), translator)
            if find_spec("torch") is None:
                raise ValueError(
                    f"--alignment: {reason}, so torch is needed to read the links: pip install 'dragoman[train]'"
                )
            print(f"torch aligns, and ctranslate2 translates: {reason}", file=sys.stderr)
        from dragoman.cli.align_head import tell_of_guess
        from dragoman.inspection.aligner import Aligner

        aligner = Aligner.of(bundle)
        tell_of_guess(aligner, str(bundle.folder))
        return Linker(aligner, translator)

    def of_sentences(self, sentences: Sequence[Sentence], num_best: int) -> Iterator[list[Links]]:
        """For each sentence, the links of its best translations."""
        lines, translations = [], []
        for one in sentences:
            for place in range(min(num_best, len(one.hypotheses))):
                lines.append(one.source)
                translations.append([self._written(part, place) for part in one.parts])
        links = iter(self.aligner.links_of(lines, translations))
        return ([next(links) for _ in one.hypotheses[:num_best]] for one in sentences)

    def linked(
        self, document: Document, texts: list[str], links: list[list[Links]], places: tuple[int, ...], score: float
    ) -> Found:
        """A text made of these translations, and the links of all of it."""
        whole, reached, found = document.joined(texts), 0, set()
        for (start, _), text, known, place in zip(document.spans, texts, links, places, strict=True):
            reached = whole.index(text, reached)
            before, behind = _first_word(document.text, start), _first_word(whole, reached)
            found |= {(source + before, target + behind) for source, target in known[place]}
            reached += len(text)
        return Found(whole, score, to_moses(frozenset(found)))

    def _written(self, part: Part, place: int) -> Part:
        hypothesis = part.hypotheses[place]
        return Part(part.source, (hypothesis,), self.translator.text(hypothesis.tokens))


def _why_not(bundle: Bundle, engine: "CTranslate2Engine") -> str | None:
    from dragoman.export.refusal import why_not_aligned

    heads = bundle.info.alignment_heads
    if not heads:
        return "no alignment heads are stored in this model"
    reason = why_not_aligned(heads)
    if reason is None and engine.export.alignment_heads != heads:
        return f"the export is older than the stored heads: dragoman export {bundle.folder}"
    return reason


def _first_word(text: str, start: int) -> int:
    """The number of the word at this place, split at white space; it may have begun before."""
    before = text[:start]
    return len(before.split()) - (bool(before) and not before[-1].isspace())
