"""Links by the attention that an export shows of its stored heads: the aligner's twin that needs no torch."""

from collections.abc import Sequence

from dragoman.data.alignment import LinkRule, Links, WordMap
from dragoman.data.vocab import Vocab
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.translator import Part
from dragoman.inspection.alignment_heads import ARGMAX
from dragoman.inspection.words import Sides, links_written, words_given


class ExportAligner:
    """An engine whose export shows heads, and the vocabulary."""

    def __init__(self, engine: CTranslate2Engine, vocab: Vocab, rule: LinkRule = ARGMAX) -> None:
        self.engine = engine
        self.vocab = vocab
        self.rule = rule
        if not engine.export.alignment_heads:
            raise ValueError("this export shows no head to align by: dragoman align --search --store, and export again")
        self.head = engine.export.alignment_heads[0]  # what is shown is their mean, and all read their rows alike

    def links_of(self, lines: Sequence[str], translations: Sequence[Sequence[Part]]) -> list[Links]:
        """Those of lines and of what a translator wrote for them, token by token as it was written."""
        return links_written(self.vocab, lines, translations, self.word_maps, self.rule)

    def word_maps(self, pairs: Sequence[Sides]) -> list[WordMap]:
        """What each target word gave to each source word, pair by pair."""
        shown = self.engine.attention([pair.source.ids for pair in pairs], [pair.target.ids[:-1] for pair in pairs])
        return [words_given(weights, pair, self.head) for weights, pair in zip(shown, pairs, strict=True)]
