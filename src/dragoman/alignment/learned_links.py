"""Word links from sentence pairs alone: a word aligner learned in both directions, then symmetrised."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from dragoman.alignment.links import Links, swap
from dragoman.alignment.symmetrise import Symmetrisation, symmetrise_all
from dragoman.data.word_aligner import align_both_directions
from dragoman.io.progress import Progress, ignore_progress


def learn_both_directions(
    sources: Sequence[str], targets: Sequence[str], progress: Progress = ignore_progress
) -> tuple[list[Links], list[Links]]:
    """Return the links that link each target word to a source word, and those that link each source word."""
    forward, backward = align_both_directions(sources, targets, progress)
    return best_links(forward), [swap(links) for links in best_links(backward)]


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


def _links(words: Int64[ndarray, " target_words"]) -> Links:
    linked = np.flatnonzero(words >= 0)
    return frozenset(zip(words[linked].tolist(), linked.tolist(), strict=True))
