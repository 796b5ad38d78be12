"""Validation: the loss and scores of held-out pairs, computed by all processes together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.evaluation.likelihood import score_pairs, total_likelihood
from dragoman.evaluation.metric_options import VALIDATION_METRICS, MetricName, MetricOptions
from dragoman.evaluation.metrics import corpus_value
from dragoman.experiment.held_out import TextPairs
from dragoman.io.progress import Progress, ignore_progress
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import Vocab
from dragoman.training.parallel import Group
from dragoman.translation.translator import Translator

_UNTRAINED: Final = 4.0
"""The loss in nats per token above which a model translates nothing right, and its beam search may not end."""


@dataclass(frozen=True)
class Validator:
    """A validation function: every process calls it with the same weights and gets the same scores."""

    sets: Sequence[TextPairs]
    """The validation pairs, a set for each target language if there are several."""
    vocab: Vocab
    search: SearchOptions
    reading: MetricOptions
    num_samples: int = 3
    group: Group = field(default_factory=Group)
    progress: Progress = ignore_progress
    metrics: Sequence[MetricName] = VALIDATION_METRICS

    def __call__(self, model: Seq2Seq[Any, Any]) -> dict[str, Any]:
        """Return the loss per token without label smoothing, BLEU, chrF or other metrics, and sample translations.

        Metrics are means over the sets; if there are several, `sets` has the scores of each.
        """
        loss = held_out_loss(model, self.sets, self.vocab, self.group)
        search = self.search_for(loss)
        scores: list[dict[str, Any]] = []
        samples: list[list[tuple[str, str, str]]] = []
        for pairs in self.sets:
            vocab = self.vocab.to(pairs.language)
            hypotheses = translate_together(model, vocab, pairs.source, search, self.group, self.progress)
            scores.append({"name": pairs.name})
            for name in self.metrics:
                scores[-1][name] = corpus_value(name, hypotheses, [pairs.target], self.reading)
            samples.append(list(zip(pairs.source, pairs.target, hypotheses, strict=True)))
        means: dict[str, float] = {name: sum(of_set[name] for of_set in scores) / len(scores) for name in self.metrics}
        # One of each set in turn, so that all languages are shown.
        mixed = [sample for row in zip_longest(*samples) for sample in row if sample is not None]
        several = {"sets": scores} if len(scores) > 1 else {}
        return {"loss": loss, **means, "samples": mixed[: self.num_samples], **several}

    def search_for(self, loss: float) -> SearchOptions:
        """Return the search options for a model with this loss; a model that is hardly trained gets a quick search.

        The quick search is greedy, and ends at about the usual length of a target.
        """
        if loss < _UNTRAINED:
            return self.search
        sources, targets = np.hstack([lengths(pairs, self.vocab) for pairs in self.sets]).sum(axis=1)
        limit = LengthLimit(ratio=float(targets / sources), extra=5)
        return self.search.model_copy(update={"beam_size": 1, "num_best": 1, "max_length": limit})


def translate_together(
    model: Seq2Seq[Any, Any],
    vocab: Vocab,
    texts: Sequence[str],
    search: SearchOptions,
    group: Group,
    progress: Progress = ignore_progress,
) -> list[str]:
    """Divide the texts among the processes and translate them; return all translations in every process.

    `progress` is called with the share of this process.
    """
    mine = Translator(TorchEngine(model), vocab, search).translate(texts[group.rank :: group.world_size], progress)
    whole = [""] * len(texts)
    for rank, part in enumerate(group.all_gather(mine)):
        whole[rank :: group.world_size] = part
    return whole


def held_out_loss(model: Seq2Seq[Any, Any], sets: Sequence[TextPairs], vocab: Vocab, group: Group) -> float:
    """Return the loss in nats per target token of all sets; skip pairs that are too long for the model."""
    fitting = [_fitting(pairs, vocab, model.max_target) for pairs in sets]
    mine = slice(group.rank, None, group.world_size)
    was_training = model.training
    model.eval()
    scores = [
        score
        for pairs in fitting
        for score in score_pairs(model, vocab.to(pairs.language), pairs.source[mine], pairs.target[mine])
    ]
    total_score = total_likelihood(scores)
    model.train(was_training)
    total, num_tokens = group.all_reduce([-total_score.log_probability, float(total_score.num_tokens)])
    return total / num_tokens


def lengths(pairs: TextPairs, vocab: Vocab) -> Int[ndarray, "2 pairs"]:
    """Return the number of tokens in every source and every target, EOS included."""
    sides = ((vocab.to(pairs.language).source, pairs.source), (vocab.target, pairs.target))
    return np.stack([part.encode([*map(clean_line, side)]).lengths for part, side in sides])


def _fitting(pairs: TextPairs, vocab: Vocab, longest: int | None) -> TextPairs:
    if longest is None:
        return pairs
    rows = np.flatnonzero(lengths(pairs, vocab).max(axis=0) <= longest).tolist()
    if not rows:
        wrong = f"every pair of {pairs.name} is longer than the model's {longest} positions"
        raise ValueError(f"{wrong}: give shorter pairs, or raise model.max_positions")
    return pairs.select(rows)
