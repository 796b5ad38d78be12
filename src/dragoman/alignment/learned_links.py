"""Word links from sentence pairs alone: a word aligner learned in both directions, then symmetrised."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from dragoman.alignment.links import Links, swap
from dragoman.alignment.symmetrise import Symmetrisation, symmetrise_all
from dragoman.data.word_aligner import WordAligner
from dragoman.io.progress import Progress, ignore_progress


def learn_both_directions(
    sources: Sequence[str], targets: Sequence[str], progress: Progress = ignore_progress
) -> tuple[list[Links], list[Links]]:
    """Return the links that link each target word to a source word, and those that link each source word."""
    forward = _learn(sources, targets, progress, "forward")
    backward = _learn(targets, sources, progress, "backward")
    return forward, [swap(links) for links in backward]


def learn_links(
    sources: Sequence[str],
    targets: Sequence[str],
    method: Symmetrisation = "grow-diag-final-and",
    progress: Progress = ignore_progress,
) -> list[Links]:
    """Return the symmetrised word links of each pair, learned from these pairs."""
    return symmetrise_all(*learn_both_directions(sources, targets, progress), method, progress)


def best_links(best: Sequence[Int64[ndarray, " _"]]) -> list[Links]:
    """Return the word links of each pair, given the source word of each target word, or -1."""
    return [_links(words) for words in best]


def _learn(sources: Sequence[str], targets: Sequence[str], progress: Progress, direction: str) -> list[Links]:
    def report(what: str, done: int, total: int | None = None, unit: str = "") -> None:
        progress(f"{what}, {direction}", done, total, unit)

    return best_links(WordAligner(sources, targets, report).best(sources, targets, report))


def _links(words: Int64[ndarray, " target_words"]) -> Links:
    linked = np.flatnonzero(words >= 0)
    return frozenset(zip(words[linked].tolist(), linked.tolist(), strict=True))
