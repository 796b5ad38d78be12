"""Capture of one teacher-forced pass: the attention of every layer and head, and the token probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from dragoman.alignment.aligner import value_norms
from dragoman.attention.tap import AttentionVectors, Sight, Tap
from dragoman.decoding.decode_loop import next_log_probabilities, require_eval
from dragoman.device import device_of
from dragoman.inspection.trace import HeadVectors
from dragoman.models.seq2seq import Seq2Seq, shifted

BLOCK: Final = 64
"""The block size of `largest`, in vocabulary entries."""


@dataclass(frozen=True, eq=False)
class Captured:
    """The arrays of a trace, under the field names of `Trace`."""

    log_probabilities: np.ndarray
    alternative_ids: np.ndarray
    alternative_log_probabilities: np.ndarray
    attention: dict[str, np.ndarray]
    norms: dict[str, np.ndarray]
    vectors: dict[str, HeadVectors]


@torch.inference_mode()
def capture(
    model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int], alternatives: int = 5, vectors: bool = False
) -> Captured:
    """Run the model in teacher forcing; return the attention of all layers and the token probabilities.

    Source and target end with EOS. If the caller has opened a tap that edits the attention, the edited
    attention is captured.
    """
    require_eval(model)
    device = device_of(model)
    forced = torch.tensor([target], device=device)
    norms: dict[str, Tensor] = {}
    calls: dict[str, list[AttentionVectors]] = {}

    def keep(seen: Sight) -> None:
        # In a forced pass all calls of an attention mix the same values.
        if seen.name not in norms:
            norms[seen.name] = value_norms(model.get_submodule(seen.name), seen.vectors.value[0])
        if vectors:
            calls.setdefault(seen.name, []).append(seen.vectors)

    with Tap(model, edit=keep) as maps:
        logits = model(torch.tensor([source], device=device), shifted(forced))
    log_probabilities = next_log_probabilities(logits[0])
    best, best_ids = largest(log_probabilities, min(alternatives, log_probabilities.shape[-1]))
    attention = {name: maps[name][0] for name in maps}
    return Captured(
        log_probabilities=_array(log_probabilities.gather(1, forced[0][:, None])[:, 0]),
        alternative_ids=best_ids.cpu().numpy(),
        alternative_log_probabilities=_array(best),
        attention={name: _array(weights) for name, weights in attention.items()},
        norms={name: _array(weights * norms[name][:, None]) for name, weights in attention.items()},
        vectors={name: _join_calls(of_name) for name, of_name in calls.items()},
    )


def largest(scores: Float[Tensor, "rows n"], k: int) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Return the k largest scores of each row, and their indices.

    Only the k blocks with the largest maxima are searched: `topk` over a whole vocabulary takes three times as long.
    """
    missing = -scores.shape[1] % BLOCK
    whole = F.pad(scores, (0, missing), value=-torch.inf) if missing else scores
    blocks = whole.view(len(scores), -1, BLOCK)
    where = blocks.amax(dim=-1).topk(min(k, blocks.shape[1]), dim=-1).indices
    candidates = blocks.gather(1, where[..., None].expand(-1, -1, BLOCK)).flatten(1)
    best = candidates.topk(k, dim=-1)
    return best.values, where.gather(1, best.indices // BLOCK) * BLOCK + best.indices % BLOCK


def _join_calls(calls: list[AttentionVectors]) -> HeadVectors:
    """Concatenate the queries of all calls of one attention; keys and values are the same in every call."""
    query = torch.cat([call.query[0] for call in calls], dim=1)
    return HeadVectors(_array(query), _array(calls[0].key[0]), _array(calls[0].value[0]))


def _array(tensor: Tensor) -> np.ndarray:
    """Convert a tensor to a numpy array in float32 or float64."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32)).cpu().numpy()
