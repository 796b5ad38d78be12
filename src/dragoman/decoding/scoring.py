"""How probable a given target is: the forced score, which every search's own score must equal."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.data.vocab import PAD
from dragoman.decoding.walk import next_log_probabilities, require_eval
from dragoman.models.seq2seq import Seq2Seq, shifted


@torch.no_grad()
def score(
    model: Seq2Seq[Any, Any], source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch target"]:
    """The log-probability of each token of each target, 0 at PAD. A target ends with EOS; BOS is not part of it."""
    require_eval(model)
    logits = model(source, shifted(target))
    chosen = next_log_probabilities(logits.flatten(0, 1)).gather(1, target.reshape(-1, 1)).view(target.shape)
    return chosen.masked_fill(target == PAD, 0.0)
