"""The decode loop of greedy search and sampling: one hypothesis per source, token by token."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.hypothesis import NOT_NUMBERS, Hypothesis
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.rules import Rules
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS

Choose = Callable[[Float[Tensor, "rows vocabulary"]], Int[Tensor, " rows"]]
"""Function that chooses the next token of each row from the log-probabilities."""


@torch.no_grad()
def decode(
    model: Seq2Seq[Any, Any], source: Int[Tensor, "rows source"], rules: Rules, penalty: Penalty, choose: Choose
) -> list[Hypothesis]:
    """Decode token by token until every row has ended with EOS, and return one hypothesis per row."""
    require_eval(model)
    state = model.start(model.encode(source))
    token = torch.full((len(source),), BOS, device=source.device)
    tokens: list[Tensor] = []
    log_probabilities: list[Tensor] = []
    ended = torch.zeros_like(token, dtype=torch.bool)
    while not ended.all():
        logits, state = model.step(token, state)
        next_log_probability = next_log_probabilities(logits)
        rules.strike(next_log_probability[:, None, :], len(tokens))
        token = choose(next_log_probability)
        tokens.append(token)
        log_probabilities.append(next_log_probability.gather(1, token[:, None]).squeeze(1))
        ended = ended | (token == EOS)
    rows = zip(torch.stack(tokens, 1).tolist(), torch.stack(log_probabilities, 1).tolist(), rules.longest, strict=True)
    return [_hypothesis(*row, penalty) for row in rows]


def next_log_probabilities(logits: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
    """Return the log-softmax of the logits in float32 or wider; raise ValueError if a value is NaN."""
    log_probabilities = logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    # A search would never end with NaNs. One NaN makes its whole row NaN, so checking one column is enough.
    if log_probabilities[:, 0].isnan().any():
        raise ValueError(NOT_NUMBERS)
    return log_probabilities


def require_eval(model: Seq2Seq[Any, Any]) -> None:
    """Raise ValueError if the model is in training mode, where dropout makes every score random."""
    if model.training:
        raise ValueError("the model is in training mode, so its scores are random: call model.eval() first")


def _hypothesis(tokens: list[int], log_probabilities: list[float], longest: Tensor, penalty: Penalty) -> Hypothesis:
    length = tokens.index(EOS) + 1
    score = penalty.score(sum(log_probabilities[:length]), length)
    return Hypothesis(tuple(tokens[: length - 1]), tuple(log_probabilities[:length]), score, length == int(longest))
