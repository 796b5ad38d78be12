"""The reference engine: a bundle's model in torch, and searches on plain lists of ids. It runs every family."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from dragoman.bundle import Bundle
from dragoman.data.vocab import PAD
from dragoman.decoding.hypothesis import Result
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.models.build import build
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.weights import load_weights


def load_model(bundle: Bundle) -> Seq2Seq[Any, Any]:
    """The bundle's model, ready to be used: every parameter is there, and nothing else."""
    model = build(bundle.info.model)
    try:
        load_weights(model, bundle.weights())
    except ValueError as error:
        raise ValueError(f"{bundle.folder}: {error}") from error
    return model.eval()


class TorchEngine:
    """Searches with a model that may still be in training: its mode is restored after each search."""

    def __init__(self, model: Seq2Seq[Any, Any]) -> None:
        self.model = model

    @property
    def longest(self) -> int | None:
        """The longest sequence the model takes, in tokens with EOS; None = any."""
        return self.model.max_target

    def search(self, sources: Sequence[Sequence[int]], options: SearchOptions) -> list[Result]:
        """The best targets for each source, which ends with EOS."""
        width = max(len(row) for row in sources)
        rows = [[*row, *[PAD] * (width - len(row))] for row in sources]
        device = next(self.model.parameters(), torch.empty(0)).device
        with _evaluating(self.model), torch.inference_mode():
            return beam_search(self.model, torch.tensor(rows, device=device), options)


@contextmanager
def _evaluating(model: Seq2Seq[Any, Any]) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
