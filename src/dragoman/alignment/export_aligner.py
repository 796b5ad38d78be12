"""Word alignment by the attention of a CTranslate2 export. This module does not import torch."""

from collections.abc import Sequence

from dragoman.alignment.links import WordMap
from dragoman.alignment.words import SegmentAligner, TokenPair, merge_to_words
from dragoman.bundle import Bundle
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.export.obstacles import find_alignment_obstacle
from dragoman.text.vocab import Vocab


class ExportAligner(SegmentAligner):
    """A word aligner that uses a CTranslate2 engine; the export must have alignment heads."""

    def __init__(self, engine: CTranslate2Engine, vocab: Vocab) -> None:
        self.engine = engine
        self.vocab = vocab
        self.longest = engine.longest
        if not engine.export.alignment_heads:
            raise ValueError("this export has no alignment head: run dragoman align --search --store, and export again")
        self.head = engine.export.alignment_heads[0]  # the export shows the mean of all, and they share one row rule

    def word_maps(self, pairs: Sequence[TokenPair]) -> list[WordMap]:
        """Return the attention weight of each target word on each source word, for every pair."""
        maps = self.engine.attention([pair.source.ids for pair in pairs], [pair.target.ids[:-1] for pair in pairs])
        return [merge_to_words({self.head: weights}, pair) for weights, pair in zip(maps, pairs, strict=True)]


def find_export_obstacle(bundle: Bundle, engine: CTranslate2Engine) -> str | None:
    """Return the reason why an engine cannot align with the alignment heads of its bundle; None if it can."""
    heads = bundle.info.alignment_heads
    if not heads:
        return "no alignment heads are stored in this model"
    reason = find_alignment_obstacle(heads)
    if reason is None and engine.export.alignment_heads != heads:
        return f"the export is older than the stored heads (run dragoman export {bundle.folder})"
    return reason
