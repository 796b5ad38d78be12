"""The reference engine: runs models of every family in torch, on lists of token ids."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.bundle import Bundle
from dragoman.decoding.batching import alike, compute_batches
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.hypothesis import Hypothesis, Result, Tokens
from dragoman.decoding.options import SamplingOptions, SearchOptions
from dragoman.decoding.sampling import edits_of, sample
from dragoman.decoding.scoring import score
from dragoman.decoding.search import beam_search
from dragoman.device import cpu, device_of
from dragoman.models.build import build
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.weights import load_weights
from dragoman.text.vocab import EOS, PAD

BATCH_TOKENS: Final = 4096
"""Source tokens per batch with padding, times the beam size: larger batches are no faster on a CPU."""


def load_model(bundle: Bundle, device: torch.device | None = None) -> Seq2Seq[Any, Any]:
    """Load a bundle's model in eval mode on a device, by default the CPU.

    Raise ValueError if the weights do not match the model's parameters.
    """
    model = build(bundle.info.model)
    try:
        load_weights(model, bundle.weights())
    except ValueError as error:
        raise ValueError(f"{bundle.folder}: {error}") from error
    return model.to(device or cpu()).eval()


class TorchEngine:
    """The torch engine: runs a model in eval mode, and restores the model's previous mode after each batch."""

    name = "torch"

    def __init__(self, model: Seq2Seq[Any, Any]) -> None:
        self.model = model

    @staticmethod
    def load(bundle: Bundle, device: torch.device | None = None, others: Sequence[Bundle] = ()) -> "TorchEngine":
        """Load the engine from an open bundle, or from several as an ensemble."""
        models = [load_model(each, device) for each in (bundle, *others)]
        return TorchEngine(Ensemble(models).eval() if others else models[0])

    @property
    def aligning(self) -> Seq2Seq[Any, Any]:
        """The model whose attention links words: that of the first bundle."""
        return self.model.members[0] if isinstance(self.model, Ensemble) else self.model

    @property
    def longest(self) -> int | None:
        return self.model.max_target

    def submit(
        self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
    ) -> Iterator[tuple[int, Result]]:
        def search(batch: list[int]) -> list[Result]:
            begins = None if prefixes is None else [prefixes[index] for index in batch]
            with _evaluating(self.model), torch.inference_mode():
                return beam_search(self.model, self._padded([sources[index] for index in batch]), options, begins)

        batches = alike([(len(source),) for source in sources], BATCH_TOKENS // options.beam_size)
        for batch, results in compute_batches(batches, search, device_of(self.model)):
            yield from zip(batch, results, strict=True)  # outside: the consumer is not in inference mode

    def sample(
        self, sources: Sequence[Tokens], options: SearchOptions, sampling: SamplingOptions
    ) -> Iterator[tuple[int, Result]]:
        """Yield (source index, sampled target) pairs; a sample depends only on the seed and the source."""
        edits = edits_of(sampling)

        def draw(batch: list[int]) -> list[Hypothesis]:
            rows = [sources[index] for index in batch]
            seeds = [sampling.seed_of(row) for row in rows]
            with _evaluating(self.model), torch.inference_mode():
                return sample(self.model, self._padded(rows), seeds, edits, options)

        batches = alike([(len(source),) for source in sources], BATCH_TOKENS)
        for batch, drawn in compute_batches(batches, draw, device_of(self.model)):
            yield from ((index, Result((hypothesis,))) for index, hypothesis in zip(batch, drawn, strict=True))

    def complete(self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens]) -> list[Result]:
        results = dict(self.submit(sources, options, prefixes))
        return [results[index] for index in range(len(sources))]

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        ended = [[*target, EOS] for target in targets]

        def score_batch(batch: list[int]) -> list[list[float]]:
            with _evaluating(self.model), torch.inference_mode():
                source, target = (self._padded([side[index] for index in batch]) for side in (sources, ended))
                rows: list[list[float]] = score(self.model, source, target).tolist()
            return rows

        scores: dict[int, tuple[float, ...]] = {}
        batches = alike([(len(s), len(t)) for s, t in zip(sources, ended, strict=True)], BATCH_TOKENS)
        for batch, rows in compute_batches(batches, score_batch, device_of(self.model)):
            scores |= {index: tuple(row[: len(ended[index])]) for index, row in zip(batch, rows, strict=True)}
        return [scores[index] for index in range(len(sources))]

    def _padded(self, rows: Sequence[Tokens]) -> Int[Tensor, "rows tokens"]:
        width = max(map(len, rows))
        return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], device=device_of(self.model))


@contextmanager
def _evaluating(model: Seq2Seq[Any, Any]) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
