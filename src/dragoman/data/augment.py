"""Augmentation: changed copies of training pairs, and mined phrases, added when a corpus is prepared.

The original pairs all stay. Which pairs are copied, and how they are changed, depends only on the name of the corpus
and the number of the chunk, so that the same command always adds the same pairs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from numpy.random import Generator, default_rng
from pydantic import Field

from dragoman.config import Config
from dragoman.data.permutation import key
from dragoman.data.text_changes import TextPair, add_copied_string, add_typing_errors, to_title_case, to_upper_case

_PHRASE_SHARE: Final = 5
"""Shares of changed phrases are this many times those of sentences: a word in capitals is a common input."""
_MAX_JOINED: Final = 6
"""The largest number of pairs that are joined into one."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class AugmentConfig(Config):
    """Pairs to add to the training pairs, as shares of their number (0.05: one for each twenty pairs)."""

    upper_case: Share = Field(0.0, description="copies with both sides in capitals")
    title_case: Share = Field(0.0, description="copies with a capital at the start of each source word")
    typing_errors: Share = Field(0.0, description="copies with typing errors in the source")
    copied: Share = Field(0.0, description="copies with a made-up name, number, address or emoji on both sides")
    phrases: Share = Field(0.0, description="words and short phrases mined from the pairs by word alignment")
    joined: Share = Field(0.0, description="2 to 6 pairs joined into one, for a corpus with few long sentences")

    @property
    def changes_pairs(self) -> bool:
        """True if copies of pairs are added."""
        return any((self.upper_case, self.title_case, self.typing_errors, self.copied, self.joined))


class AddedPair(NamedTuple):
    """A pair to add, and the indices of the pairs that it was made from: one, or those that it joins."""

    rows: tuple[int, ...]
    source: str
    target: str


def change_pairs(pairs: Sequence[TextPair], config: AugmentConfig, random: Generator) -> Iterator[AddedPair]:
    """Yield changed copies of shares of the pairs, as configured; a copy that equals its pair is left out."""
    changes: list[tuple[float, Callable[[TextPair], TextPair]]] = [
        (config.upper_case, to_upper_case),
        (config.title_case, to_title_case),
        (config.typing_errors, lambda pair: add_typing_errors(pair, random)),
        (config.copied, lambda pair: add_copied_string(pair, random)),
    ]
    for row, pair in enumerate(pairs):
        lots = random.random(len(changes))
        for lot, (share, change) in zip(lots.tolist(), changes, strict=True):
            if lot < share and (changed := change(pair)) != pair:
                yield AddedPair((row,), *changed)
    for _ in range(round(config.joined * len(pairs)) if len(pairs) > 1 else 0):
        rows = random.integers(len(pairs), size=int(random.integers(2, _MAX_JOINED + 1))).tolist()
        yield AddedPair(tuple(rows), *(" ".join(pairs[row][side] for row in rows) for side in (0, 1)))


def change_phrases(phrases: Sequence[TextPair], config: AugmentConfig, random: Generator) -> Iterator[AddedPair]:
    """Yield changed copies of phrases: more of them than of sentences, and none with copied strings."""
    names = ("upper_case", "title_case", "typing_errors")
    shares = {name: min(1.0, _PHRASE_SHARE * getattr(config, name)) for name in names}
    return change_pairs(phrases, AugmentConfig(**shares), random)


def random_of(corpus: str, chunk: int) -> Generator:
    """Return the random numbers of a chunk, which depend on nothing else."""
    return default_rng([key(0, "augment", corpus), chunk])
