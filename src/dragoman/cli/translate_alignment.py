"""`dragoman translate --alignment`: align the words of each text and its translations."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from dragoman.alignment.links import Links
from dragoman.alignment.moses import to_moses
from dragoman.bundle import Bundle
from dragoman.cli.verbosity import print_note
from dragoman.translation.results import Segment, TextTranslation
from dragoman.translation.translator import Translator


@dataclass(frozen=True)
class TextAligner:
    """A word aligner of translations: CTranslate2 with the model's stored alignment heads, or torch."""

    links_of: Callable[[Sequence[str], Sequence[Sequence[Segment] | str]], list[Links]]
    """Function from source lines and their translated segments, or translations, to the links of each line."""
    translator: Translator

    @staticmethod
    def of(bundle: Bundle, translator: Translator) -> "TextAligner":
        """Return an aligner that uses the translation engine or, if that engine cannot align, torch.

        If torch is used instead of CTranslate2, the reason is printed on standard error.
        """
        if translator.engine.name == "ctranslate2":
            from dragoman.alignment.export_aligner import ExportAligner, find_export_obstacle
            from dragoman.decoding.ctranslate2_engine import CTranslate2Engine

            assert isinstance(translator.engine, CTranslate2Engine)
            reason = find_export_obstacle(bundle, translator.engine)
            if reason is None:
                return TextAligner(ExportAligner(translator.engine, bundle.vocab).links_of, translator)
            if find_spec("torch") is None:
                fix = "and torch is not installed: pip install 'dragoman[train]'"
                raise ValueError(f"--alignment: {reason}, {fix}")
            print_note(f"torch aligns, and ctranslate2 translates: {reason}")
        from dragoman.alignment.aligner import Aligner
        from dragoman.cli.align_run import warn_of_guess

        aligner = Aligner.of(bundle)
        warn_of_guess(aligner, str(bundle.folder))
        return TextAligner(aligner.links_of, translator)

    def align(
        self, translations: Sequence[TextTranslation], num_best: int
    ) -> Iterator[list[tuple[str, float, str | None]]]:
        """Yield the best translations of each text, with scores and links."""
        lines: list[str] = []
        written: list[Sequence[Segment] | str] = []
        for sentence in (sentence for translation in translations for sentence in translation.sentences):
            for rank, hypothesis in enumerate(sentence.hypotheses[:num_best]):
                lines.append(sentence.source)
                segments = [] if sentence.kept else sentence.segments
                written.append([self._segment(segment, rank) for segment in segments] or hypothesis.text)
        links = iter(self.links_of(lines, written))
        for translation in translations:
            known = [[next(links) for _ in sentence.hypotheses[:num_best]] for sentence in translation.sentences]
            best = translation.best(num_best)
            yield [
                (text.text, text.score, _links_of_text(translation, ranks, text.text, known)) for text, ranks in best
            ]

    def _segment(self, segment: Segment, rank: int) -> Segment:
        if segment.kept:
            return segment
        hypothesis = segment.hypotheses[rank]
        return Segment(segment.source, (hypothesis,), self.translator.decode(hypothesis.tokens))


def _links_of_text(
    translation: TextTranslation, ranks: tuple[int, ...], text: str, known: Sequence[Sequence[Links]]
) -> str:
    """Return the links of all sentences in Moses format, with words counted over the whole text."""
    document, position, links = translation.document, 0, set()
    sentences = zip(document.spans, translation.sentences, known, ranks, strict=True)
    for (start, _), sentence, of_sentence, rank in sentences:
        written = sentence.hypotheses[rank].text
        position = text.index(written, position)
        source, target = _first_word(document.text, start), _first_word(text, position)
        links |= {(i + source, j + target) for i, j in of_sentence[rank]}
        position += len(written)
    return to_moses(frozenset(links))


def _first_word(text: str, start: int) -> int:
    """Return the index of the word at a character position; words are split at white space."""
    before = text[:start]
    return len(before.split()) - (bool(before) and not before[-1].isspace())
