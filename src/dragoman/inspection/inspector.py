"""Text in, traces out: a model, its vocabulary and the way it searches, to be looked into.

`Inspector.load(folder).trace("I ate an apple")` shows what it chose, and how; with "Ich aß einen Apfel" as the second
argument, how it sees a target that is given.
"""

from pathlib import Path
from typing import Any

import torch

from dragoman.bundle import Bundle, open_bundle
from dragoman.data.alignment import AlignmentHead
from dragoman.data.characters import mended
from dragoman.data.vocab import EOS, Vocab
from dragoman.decoding.hypothesis import Candidate, Result
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.decoding.torch_engine import load_model
from dragoman.inspection import segmentation
from dragoman.inspection.capture import capture
from dragoman.inspection.trace import Identity, Tokens, Trace
from dragoman.models.seq2seq import Seq2Seq


class Inspector:
    """Traces what a model does with a sentence."""

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        vocab: Vocab,
        options: SearchOptions | None = None,
        identity: Identity | None = None,
        alignment_heads: tuple[AlignmentHead, ...] = (),
    ) -> None:
        """Without `identity`, traces say that the model was never saved."""
        self.model = model
        self.vocab = vocab
        self.options = options or SearchOptions()
        family = type(model).__name__.lower()
        self.identity = identity or Identity(sha256="", vocabulary=vocab.sha256, family=family)
        self.alignment_heads = alignment_heads

    @staticmethod
    def load(folder: Path | str, beam_size: int | None = None) -> "Inspector":
        """The model of a bundle or a run."""
        return Inspector.of(open_bundle(folder), beam_size)

    @staticmethod
    def of(bundle: Bundle, beam_size: int | None = None) -> "Inspector":
        """The model of a bundle that is open, with its own search options, or another beam."""
        changes = {} if beam_size is None else {"beam_size": beam_size}
        options = SearchOptions.model_validate({**bundle.info.search, **changes})
        identity = Identity(sha256=bundle.sha256, vocabulary=bundle.vocab.sha256, family=bundle.info.model.family)
        return Inspector(load_model(bundle), bundle.vocab, options, identity, bundle.info.alignment_heads)

    def trace(
        self,
        source: str,
        target: str | None = None,
        *,
        alternatives: int = 5,
        history: bool = False,
        vectors: bool = False,
    ) -> Trace:
        """What the model does with a source, mended as training text is; the target is its own, or the one given.

        Its own is searched for on the fast path, as a translation is, and then captured in one forced pass. Kept are
        so many `alternatives` at each step; on request, the `history` of the search, which is all its candidates, and
        the `vectors` of every attention, its queries, keys and values.
        """
        read = self.read(source)
        if target is None:
            result = self.search(read, keep_history=history)
            return self.capture(read, self.written(result), result, alternatives=alternatives, vectors=vectors)
        if history:
            raise ValueError("a target that is given was not searched for: leave history out, or the target")
        return self.capture(read, self.forced(target), alternatives=alternatives, vectors=vectors)

    def read(self, source: str) -> Tokens:
        """The tokens of a source."""
        return self._fitting("source", segmentation.of_text(self.vocab.source, mended(_text("source", source))))

    def forced(self, target: str) -> Tokens:
        """The tokens of a target that is given."""
        return self._fitting("target", segmentation.of_text(self.vocab.target, mended(_text("target", target))))

    def search(self, source: Tokens, *, keep_history: bool = False) -> Result:
        """What the model writes."""
        device = next(self.model.parameters(), torch.empty(0)).device
        ids = torch.tensor([source.ids], device=device)
        return beam_search(self.model, ids, self.options, keep_history=keep_history)[0]

    def written(self, result: Result) -> Tokens:
        """The tokens of the best target that was found."""
        return segmentation.of_ids(self.vocab.target, [*result.best.tokens, EOS])

    def capture(
        self,
        source: Tokens,
        target: Tokens,
        result: Result | None = None,
        *,
        alternatives: int = 5,
        vectors: bool = False,
    ) -> Trace:
        """The trace of these tokens. With `result` the target is the best of what was found; else it is forced."""
        seen = capture(self.model, source.ids, target.ids, alternatives=alternatives, vectors=vectors)
        history = () if result is None else result.history
        named = {*target.ids, *seen.alternative_ids.flatten().tolist(), *_tokens(history)}
        return Trace(
            source=source,
            target=target,
            free=result is not None,
            log_probabilities=seen.log_probabilities,
            alternative_ids=seen.alternative_ids,
            alternative_log_probabilities=seen.alternative_log_probabilities,
            attention=seen.attention,
            norms=seen.norms,
            model=self.identity,
            cut=result is not None and result.best.cut,
            pieces={token: self.vocab.target.piece(token) for token in sorted(named)},
            history=history,
            vectors=seen.vectors,
            alignment_heads=self.alignment_heads,
        )

    def _fitting(self, side: str, tokens: Tokens) -> Tokens:
        longest = self.model.max_target
        if side == "source" and not tokens.text:
            raise ValueError("there is nothing to trace: the source holds no text")
        if longest is not None and len(tokens) > longest:
            raise ValueError(f"the {side} has {len(tokens)} tokens, but the model takes {longest}: shorten it")
        return tokens


def _text(side: str, given: object) -> str:
    if not isinstance(given, str):
        raise ValueError(f"the {side} is {given!r}: give a text, one sentence in quotes")
    return given


def _tokens(history: tuple[tuple[Candidate, ...], ...]) -> set[int]:
    return {candidate.token for step in history for candidate in step}
