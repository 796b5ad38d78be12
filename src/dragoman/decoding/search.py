"""Beam search and greedy search with any model that implements `Seq2Seq`."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.decoding.beam import DEAD, Beam, Decision, decide
from dragoman.decoding.decode_loop import decode, next_log_probabilities, require_eval
from dragoman.decoding.hypothesis import Candidate, Hypothesis, Result
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.pool import Pool
from dragoman.decoding.rules import Rules
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS

Prefixes = Sequence[Sequence[int]]


@torch.no_grad()
def beam_search(
    model: Seq2Seq[Any, Any],
    source: Int[Tensor, "sources source"],
    options: SearchOptions | None = None,
    prefixes: Prefixes | None = None,
    *,
    keep_history: bool = False,
) -> list[Result]:
    """Search for the `num_best` best targets of each source.

    All sources advance together, one token per step; a finished source leaves the batch. `prefixes` are the forced
    first tokens of each target. `keep_history` stores every candidate of every step in the results.
    """
    require_eval(model)
    options = options or SearchOptions()
    rules = Rules.of(options, source, prefixes, model.max_target)
    pools = [Pool(options, longest) for longest in rules.longest.tolist()]
    state = model.start(model.encode(source))
    tokens = torch.full((len(source),), BOS, device=source.device)
    beam, active, step = Beam.empty(len(source), source.device), pools, 0
    while active:
        logits, state = model.step(tokens, state)
        log_probabilities = next_log_probabilities(logits).view(*beam.total.shape, -1)
        rules.strike(log_probabilities, step)
        decision = decide(beam.total, log_probabilities, options.beam_size)
        _collect(active, beam, decision, keep_history)
        survivors = beam.survivors(decision)
        going = _unfinished(active, survivors)
        state = state.select(beam.rows(decision, going))
        beam, rules = survivors.select(going), rules.select(going)
        active, tokens, step = [active[i] for i in going], beam.tokens[:, :, -1].flatten(), step + 1
    return [pool.result() for pool in pools]


@torch.no_grad()
def greedy_search(
    model: Seq2Seq[Any, Any],
    source: Int[Tensor, "sources source"],
    options: SearchOptions | None = None,
    prefixes: Prefixes | None = None,
) -> list[Hypothesis]:
    """Return one hypothesis per source, with the most probable token at every step."""
    options = options or SearchOptions()
    rules = Rules.of(options, source, prefixes, model.max_target)
    return decode(model, source, rules, options.penalty, lambda log_probabilities: log_probabilities.argmax(dim=-1))


def _collect(pools: list[Pool], beam: Beam, decision: Decision, keep_history: bool) -> None:
    """Add ended hypotheses to the pools of their sources and, with `keep_history`, all candidates to the history."""
    for i, k in decision.ends.nonzero().tolist():
        pools[i].add(*beam.extended(decision, i, k))
    if keep_history:
        for i, pool in enumerate(pools):
            pool.history.append(_candidates(decision, i))


def _unfinished(pools: list[Pool], survivors: Beam) -> Int[Tensor, " going"]:
    """Return the indices of the sources whose search continues."""
    length = survivors.tokens.shape[-1]
    best_live = survivors.total.max(dim=1).values.tolist()
    going = [i for i, pool in enumerate(pools) if not pool.is_enough(best_live[i], length)]
    return torch.tensor(going, dtype=torch.int64, device=survivors.total.device)


def _candidates(decision: Decision, source: int) -> tuple[Candidate, ...]:
    columns = (decision.parent, decision.token, decision.total, decision.ends)
    places = {candidate: place for place, candidate in enumerate(decision.live[source].tolist())}
    rows = zip(*(column[source].tolist() for column in columns), strict=True)
    return tuple(
        Candidate(parent, token, total, None if token == EOS else places.get(i), ended)
        for i, (parent, token, total, ended) in enumerate(rows)
        if total > DEAD
    )
