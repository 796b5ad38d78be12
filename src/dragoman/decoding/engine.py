"""What an engine is: sources in, hypotheses out. No torch here."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from dragoman.decoding.hypothesis import Result
from dragoman.decoding.options import SearchOptions

Tokens = Sequence[int]


@runtime_checkable
class Engine(Protocol):
    """Searches and scores. A source is tokens that end with EOS; a target has none at its end."""

    @property
    def name(self) -> str:
        """What it is called in messages and manifests."""

    @property
    def longest(self) -> int | None:
        """The longest sequence the model takes, in tokens with EOS; None = any."""

    def submit(
        self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
    ) -> Iterator[tuple[int, Result]]:
        """Begins to search, if it can do so in the background, and gives the results as they come, with the place of
        their source. However many sources there are, batches are the engine's affair.
        """

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        """The log-probability of each token of each target and, last, of its EOS."""


def search(
    engine: Engine, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
) -> list[Result]:
    """The results of all, in the order of their sources."""
    found = dict(engine.submit(sources, options, prefixes))
    return [found[place] for place in range(len(sources))]
