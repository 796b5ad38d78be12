"""How good the model is by now: its loss on held-out pairs, and its translations of them, shared by all processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from dragoman.data.characters import mended
from dragoman.data.vocab import Vocab
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.decoding.translator import Translator
from dragoman.evaluation.likelihood import likelihoods, together
from dragoman.evaluation.metrics import quick_bleu, quick_chrf
from dragoman.evaluation.reading import Reading
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.parallel import Group


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations."""

    name: str
    source: Sequence[str]
    target: Sequence[str]

    def __len__(self) -> int:
        return len(self.source)

    def first(self, most: int | None) -> "Pairs":
        """No more than so many of them."""
        return Pairs(self.name, self.source[:most], self.target[:most])


@dataclass(frozen=True)
class Validator:
    """Called by every process with the same weights; gives all of them the same scores."""

    pairs: Pairs
    vocab: Vocab
    search: SearchOptions
    reading: Reading
    num_samples: int = 3
    group: Group = field(default_factory=Group)

    def __call__(self, model: Seq2Seq[Any, Any]) -> dict[str, Any]:
        """Loss per token without smoothing, BLEU and chrF without intervals, and a few translations to look at."""
        loss = held_out_loss(model, self.pairs, self.vocab, self.group)
        hypotheses = translate_together(model, self.vocab, self.pairs.source, self.search, self.group)
        return {
            "loss": loss,
            "bleu": quick_bleu(hypotheses, self.pairs.target, reading=self.reading),
            "chrf": quick_chrf(hypotheses, self.pairs.target, reading=self.reading),
            "samples": list(zip(self.pairs.source, self.pairs.target, hypotheses, strict=True))[: self.num_samples],
        }


def translate_together(
    model: Seq2Seq[Any, Any], vocab: Vocab, texts: Sequence[str], search: SearchOptions, group: Group
) -> list[str]:
    """Each process translates its share; all get the whole."""
    mine = Translator(TorchEngine(model), vocab, search).translate(texts[group.rank :: group.size])
    whole = [""] * len(texts)
    for rank, part in enumerate(group.gathered(mine)):
        whole[rank :: group.size] = part
    return whole


def held_out_loss(model: Seq2Seq[Any, Any], pairs: Pairs, vocab: Vocab, group: Group) -> float:
    """In nats per target token. A pair that is too long for the model has no part in it."""
    fitting = _fitting(pairs, vocab, model.max_target)
    mine = slice(group.rank, None, group.size)
    was_training = model.training
    model.eval()
    found = together(likelihoods(model, vocab, fitting.source[mine], fitting.target[mine]))
    model.train(was_training)
    total, num_tokens = group.sums([-found.log_probability, float(found.num_tokens)])
    return total / num_tokens


def lengths(pairs: Pairs, vocab: Vocab) -> Int[ndarray, "2 pairs"]:
    """Tokens of every source and of every target, EOS included."""
    sides = ((vocab.source, pairs.source), (vocab.target, pairs.target))
    return np.stack([part.encode([*map(mended, side)]).lengths for part, side in sides])


def _fitting(pairs: Pairs, vocab: Vocab, longest: int | None) -> Pairs:
    if longest is None:
        return pairs
    rows = np.flatnonzero(lengths(pairs, vocab).max(axis=0) <= longest).tolist()
    if not rows:
        raise ValueError(
            f"every pair of {pairs.name} is longer than the model's {longest} positions: give shorter ones, or a "
            "larger model.max_positions"
        )
    return Pairs(pairs.name, [pairs.source[row] for row in rows], [pairs.target[row] for row in rows])
