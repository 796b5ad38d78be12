"""Scoring of given targets with teacher forcing. A search must report the same scores."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.decode_loop import next_log_probabilities, require_eval
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.text.vocab import PAD


@torch.no_grad()
def score(
    model: Seq2Seq[Any, Any], source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch target"]:
    """Return the log-probability of every target token, 0 for padding. Targets end with EOS and have no BOS."""
    require_eval(model)
    logits = model(source, shifted(target))
    chosen = next_log_probabilities(logits.flatten(0, 1)).gather(1, target.reshape(-1, 1)).view(target.shape)
    return chosen.masked_fill(target == PAD, 0.0)
