"""One teacher-forced pass with open eyes: the attention of every layer and head, and what was said at each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention import tap
from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Sight, Tap
from dragoman.data.vocab import BOS
from dragoman.decoding.walk import next_log_probabilities, require_eval
from dragoman.inspection.trace import Vectors
from dragoman.models.seq2seq import Seq2Seq

STRETCH: Final = 64
"""Of a vocabulary, whose largest are found stretch by stretch."""


@dataclass(frozen=True, eq=False)
class Captured:
    """What the pass showed, by the names a trace has for it."""

    log_probabilities: np.ndarray
    alternative_ids: np.ndarray
    alternative_log_probabilities: np.ndarray
    attention: dict[str, np.ndarray]
    norms: dict[str, np.ndarray]
    vectors: dict[str, Vectors]


@torch.inference_mode()
def capture(
    model: Seq2Seq[Any, Any],
    source: Sequence[int],
    target: Sequence[int],
    *,
    alternatives: int = 5,
    vectors: bool = False,
) -> Captured:
    """A source and its target, each ended by EOS, taken through the model.

    Under an editing tap of the caller's, the edited attention is what is captured.
    """
    require_eval(model)
    device = next(model.parameters(), torch.empty(0)).device
    read = torch.tensor([[BOS, *target[:-1]]], device=device)
    watch = Watch(model, vectors)
    with Tap(model, edit=watch.keep) as seen:
        logits = model(torch.tensor([source], device=device), read)
    said = next_log_probabilities(logits[0])
    best, best_ids = largest(said, min(alternatives, said.shape[-1]))
    attention = {name: seen[name][0] for name in seen}
    return Captured(
        log_probabilities=_array(said.gather(1, torch.tensor(target, device=device)[:, None])[:, 0]),
        alternative_ids=best_ids.cpu().numpy(),
        alternative_log_probabilities=_array(best),
        attention={name: _array(weights) for name, weights in attention.items()},
        norms={name: _array(weights * watch.norms[name][:, None]) for name, weights in attention.items()},
        vectors={name: _joined(calls) for name, calls in watch.vectors.items()},
    )


def value_norms(attention: nn.Module, value: Float[Tensor, "heads keys d_v"]) -> Float[Tensor, "heads keys"]:
    """How much each key can contribute: ||v W_O|| with the head's part of W_O (Kobayashi et al., 2020). Its weight
    times this is what it does contribute. Recurrent models have no such matrix: they mix the values as they are.
    """
    if isinstance(attention, MultiHead):
        output = attention.output.weight
        by_head = output.view(len(output), attention.num_heads, -1)  # [d_model, heads, d_v]
        value = torch.bmm(value, by_head.permute(1, 2, 0))
    norms: Tensor = torch.linalg.vector_norm(value, dim=-1)
    return norms


class Watch:
    """What a capture keeps of each attention beside its weights."""

    def __init__(self, model: nn.Module, with_vectors: bool) -> None:
        self.model = model
        self.with_vectors = with_vectors
        self.norms: dict[str, Float[Tensor, "heads keys"]] = {}
        self.vectors: dict[str, list[tap.Vectors]] = {}

    def keep(self, sight: Sight) -> None:
        """The edit of a tap that changes nothing. In a forced pass all calls of an attention mix the same values."""
        if sight.name not in self.norms:
            attention = self.model.get_submodule(sight.name)
            self.norms[sight.name] = value_norms(attention, sight.vectors.value[0])
        if self.with_vectors:
            self.vectors.setdefault(sight.name, []).append(sight.vectors)


def largest(scores: Float[Tensor, "rows n"], k: int) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The k largest of each row, and where they stand: they are in those k stretches of the row that have the largest
    maxima. `topk` over a whole vocabulary takes three times as long.
    """
    missing = -scores.shape[1] % STRETCH
    whole = F.pad(scores, (0, missing), value=-torch.inf) if missing else scores
    stretches = whole.view(len(scores), -1, STRETCH)
    where = stretches.amax(dim=-1).topk(min(k, stretches.shape[1]), dim=-1).indices
    candidates = stretches.gather(1, where[..., None].expand(-1, -1, STRETCH)).flatten(1)
    found = candidates.topk(k, dim=-1)
    return found.values, where.gather(1, found.indices // STRETCH) * STRETCH + found.indices % STRETCH


def _joined(calls: list[tap.Vectors]) -> Vectors:
    """The queries of all calls; the keys and values are the same in each."""
    query = torch.cat([call.query[0] for call in calls], dim=1)
    return Vectors(_array(query), _array(calls[0].key[0]), _array(calls[0].value[0]))


def _array(tensor: Tensor) -> np.ndarray:
    """At least in float32, which numpy can compute with on any machine."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32)).cpu().numpy()
