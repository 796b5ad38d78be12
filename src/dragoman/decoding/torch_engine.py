"""The reference engine: a bundle's model in torch, and searches on plain lists of ids. It runs every family."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.bundle import Bundle
from dragoman.data.vocab import EOS, PAD
from dragoman.decoding.batching import alike
from dragoman.decoding.engine import Tokens
from dragoman.decoding.hypothesis import Result
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.scoring import score
from dragoman.decoding.search import beam_search
from dragoman.models.build import build
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.weights import load_weights

BATCH_TOKENS: Final = 4096
"""Source tokens of a batch, padding included, times the beam: more is no faster on a CPU."""


def load_model(bundle: Bundle) -> Seq2Seq[Any, Any]:
    """The bundle's model, ready to be used: every parameter is there, and nothing else."""
    model = build(bundle.info.model)
    try:
        load_weights(model, bundle.weights())
    except ValueError as error:
        raise ValueError(f"{bundle.folder}: {error}") from error
    return model.eval()


def use_threads(threads: int | None) -> None:
    """Have torch compute with so many; None leaves it as it is."""
    if threads is not None:
        torch.set_num_threads(threads)


class TorchEngine:
    """Searches with a model that may still be in training: its mode is restored after each batch."""

    name = "torch"

    def __init__(self, model: Seq2Seq[Any, Any]) -> None:
        self.model = model

    @staticmethod
    def load(bundle: Bundle) -> "TorchEngine":
        """The model of a bundle that is open."""
        return TorchEngine(load_model(bundle))

    @property
    def longest(self) -> int | None:
        return self.model.max_target

    def submit(
        self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
    ) -> Iterator[tuple[int, Result]]:
        for batch in alike([(len(source),) for source in sources], BATCH_TOKENS // options.beam_size):
            begins = None if prefixes is None else [prefixes[place] for place in batch]
            with _evaluating(self.model), torch.inference_mode():
                rows = self._padded([sources[place] for place in batch])
                found = beam_search(self.model, rows, options, begins)
            yield from zip(batch, found, strict=True)  # outside: whoever takes them is not in inference mode

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        ended = [[*target, EOS] for target in targets]
        found: dict[int, tuple[float, ...]] = {}
        for batch in alike([(len(s), len(t)) for s, t in zip(sources, ended, strict=True)], BATCH_TOKENS):
            with _evaluating(self.model), torch.inference_mode():
                source, target = (self._padded([side[place] for place in batch]) for side in (sources, ended))
                rows = score(self.model, source, target).tolist()
            found |= {place: tuple(row[: len(ended[place])]) for place, row in zip(batch, rows, strict=True)}
        return [found[place] for place in range(len(sources))]

    def _padded(self, rows: Sequence[Tokens]) -> Int[Tensor, "rows tokens"]:
        width = max(map(len, rows))
        device = next(self.model.parameters(), torch.empty(0)).device
        return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], device=device)


@contextmanager
def _evaluating(model: Seq2Seq[Any, Any]) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
