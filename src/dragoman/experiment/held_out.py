"""Read held-out pairs into memory as text. Does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from dragoman.data.corpus import CorpusConfig, read_chunks


@dataclass(frozen=True)
class TextPairs:
    """Sentences and their translations, held out from training."""

    name: str
    source: Sequence[str]
    target: Sequence[str]
    language: str | None = None
    """The target language, if the model translates into several."""

    def __len__(self) -> int:
        return len(self.source)

    def first(self, most: int | None) -> "TextPairs":
        """Return the first `most` pairs, or all pairs if `most` is None."""
        return replace(self, source=self.source[:most], target=self.target[:most])

    def select(self, rows: Sequence[int]) -> "TextPairs":
        """Return the pairs with these indices."""
        return replace(self, source=[self.source[row] for row in rows], target=[self.target[row] for row in rows])


def mix_sources(sets: Sequence[TextPairs]) -> list[str]:
    """Return the sources of several sets, one of each in turn, so that the first ones are of all languages."""
    rows = zip_longest(*(pairs.source for pairs in sets))
    return [source for row in rows for source in row if source is not None]


def read_pairs(corpus: CorpusConfig) -> TextPairs:
    """Return all pairs of a corpus; raise ValueError if the corpus is empty or not UTF-8."""
    sides: tuple[list[str], list[str]] = ([], [])
    addresses = (corpus.source, corpus.target or corpus.source)
    for chunk in read_chunks(corpus, 10_000):
        for address, column, texts in zip(addresses, (chunk.source, chunk.target), sides, strict=True):
            for text in column.to_pylist():
                try:
                    texts.append((text or b"").decode())
                except UnicodeDecodeError as error:
                    wrong = f"line {len(texts) + 1} is not UTF-8"
                    raise ValueError(f"{address}: {wrong}: convert the file to UTF-8") from error
    if not sides[0]:
        raise ValueError(f"{corpus.source}: the file has no pairs: give a file with at least one pair")
    return TextPairs(corpus.name, *sides, language=corpus.target_language)
