"""The inspector: runs a model on sentences and records attention and probabilities as traces.

`Inspector.load(folder).trace("I ate an apple")` traces the model's own translation. With "Ich aß einen Apfel" as the
second argument, it traces this target in teacher forcing.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dragoman.alignment.tokens import Tokens
from dragoman.alignment.words import filled_pairs, tokenize_pair
from dragoman.attention.tap import Tap, seams
from dragoman.bundle import Bundle, open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.decoding.hypothesis import Result
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.decoding.torch_engine import load_model
from dragoman.device import CPU, choose_device, device_of
from dragoman.inspection.capture import capture
from dragoman.inspection.intervene import edit_of
from dragoman.inspection.interventions import Interventions, parse_interventions
from dragoman.inspection.trace import ModelIdentity, Trace
from dragoman.io.progress import Progress
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import EOS, Vocab


class Inspector:
    """A model with its vocabulary and search options, for tracing sentences."""

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        vocab: Vocab,
        options: SearchOptions | None = None,
        identity: ModelIdentity | None = None,
        alignment_heads: tuple[AlignmentHead, ...] = (),
    ) -> None:
        """Wrap a model; without `identity`, traces record that the model was never saved."""
        self.model = model
        self.vocab = vocab
        self.options = options or SearchOptions()
        family = type(model).__name__.lower()
        self.identity = identity or ModelIdentity(sha256="", vocabulary=vocab.sha256, family=family)
        self.alignment_heads = alignment_heads

    @staticmethod
    def load(folder: Path | str, beam_size: int | None = None) -> "Inspector":
        """Load the model in the folder of a bundle or a run."""
        return Inspector.of(open_bundle(folder), beam_size)

    @staticmethod
    def of(bundle: Bundle, beam_size: int | None = None, device: str = CPU) -> "Inspector":
        """Load the model and the search options of an open bundle; `beam_size` overrides the stored beam size."""
        return Inspector.of_model(load_model(bundle, choose_device(device)), bundle, beam_size)

    @staticmethod
    def of_model(model: Seq2Seq[Any, Any], bundle: Bundle, beam_size: int | None = None) -> "Inspector":
        """Wrap a model that was loaded from an open bundle."""
        changes = {} if beam_size is None else {"beam_size": beam_size}
        options = SearchOptions.model_validate({**bundle.info.search, **changes})
        identity = ModelIdentity(sha256=bundle.sha256, vocabulary=bundle.vocab.sha256, family=bundle.info.model.family)
        return Inspector(model, bundle.vocab, options, identity, bundle.info.alignment_heads)

    def to(self, language: str | None) -> "Inspector":
        """Return an inspector of the same model whose sources begin with the tag of a target language."""
        if language is None:
            return self
        return Inspector(self.model, self.vocab.to(language), self.options, self.identity, self.alignment_heads)

    def interventions(self, without: str | None = None, uniform: str | None = None) -> Interventions:
        """Parse the lists of heads to switch off and to make uniform, such as `cross.2,encoder.layers.0`."""
        return parse_interventions([name for name, _ in seams(self.model)], without, uniform)

    def trace(
        self,
        source: str,
        target: str | None = None,
        *,
        prefix: str | Sequence[int] = "",
        interventions: Interventions = (),
        alternatives: int = 5,
        history: bool = False,
        vectors: bool = False,
    ) -> Trace:
        """Trace the model on a source and a target; without a target, on the model's own translation.

        Source and target are cleaned like training text. The model's translation begins with `prefix`, a text or token
        ids. `interventions` change the attention in both the search and the traced pass. The trace keeps the
        `alternatives` most probable tokens of each step and, if requested, the search `history` (all candidates) and
        the query, key and value `vectors`.
        """
        if target is not None and (history or prefix):
            raise ValueError("prefix and history apply only to a search: leave out prefix and history, or the target")
        tokens, result = self.tokenize_source(source), None
        if target is None:
            begin = self.tokenize_target(prefix).ids[:-1] if isinstance(prefix, str) else tuple(prefix)
            with self._edited(interventions):
                result = self.search(tokens, begin, keep_history=history)
            written = self.best_tokens(result)
        else:
            begin, written = (), self.tokenize_target(target)
        trace = self.capture(
            tokens, written, result, interventions=interventions, alternatives=alternatives, vectors=vectors
        )
        return replace(trace, num_forced=len(begin))

    def trace_pairs(
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None, task: str = "trace"
    ) -> Iterator[Trace]:
        """Yield a teacher-forced trace of each line pair; skip pairs with a blank line.

        Word indices refer to the original lines, before cleaning.
        """
        filled = filled_pairs(sources, targets)
        for done, i in enumerate(filled, 1):
            yield self.capture(*tokenize_pair(self.vocab, sources[i], targets[i]), alternatives=1)
            if progress:
                progress(task, done, len(filled))

    def tokenize_source(self, text: str) -> Tokens:
        """Clean and tokenize a source; raise ValueError if the source is empty or too long for the model."""
        tokens = self._tokenize("source", text)
        if not tokens.text:
            raise ValueError("the source has no text: give a sentence")
        return tokens

    def tokenize_target(self, text: str) -> Tokens:
        """Clean and tokenize a given target; raise ValueError if the target is too long for the model."""
        return self._tokenize("target", text)

    def search(self, source: Tokens, prefix: tuple[int, ...] = (), *, keep_history: bool = False) -> Result:
        """Translate a source by beam search; every hypothesis begins with `prefix`."""
        device = device_of(self.model)
        ids = torch.tensor([source.ids], device=device)
        return beam_search(self.model, ids, self.options, [prefix], keep_history=keep_history)[0]

    def best_tokens(self, result: Result) -> Tokens:
        """Return the tokens of the best hypothesis of a search."""
        return Tokens.from_ids(self.vocab.target, [*result.best.tokens, EOS])

    def capture(
        self,
        source: Tokens,
        target: Tokens,
        result: Result | None = None,
        *,
        interventions: Interventions = (),
        alternatives: int = 5,
        vectors: bool = False,
    ) -> Trace:
        """Trace a source and a target in one teacher-forced pass.

        With the `result` of a search, the trace records that the model chose the target; otherwise, that it was forced.
        """
        with self._edited(interventions):
            captured = capture(self.model, source.ids, target.ids, alternatives, vectors)
        history = () if result is None else result.history
        candidates = {candidate.token for step in history for candidate in step}
        spelled = sorted({*target.ids, *captured.alternative_ids.flatten().tolist(), *candidates})
        return Trace(
            source=source,
            target=target,
            free=result is not None,
            model=self.identity,
            cut=result is not None and result.best.cut,
            pieces={token: self.vocab.target.piece(token) for token in spelled},
            history=history,
            interventions=tuple(interventions),
            alignment_heads=self.alignment_heads,
            **vars(captured),
        )

    def _edited(self, interventions: Interventions) -> AbstractContextManager[object]:
        """Return a context manager that applies the interventions to one pass; every pass needs a new one."""
        return Tap(self.model, edit_of(self.model, interventions)) if interventions else nullcontext()

    def _tokenize(self, side: str, text: object) -> Tokens:
        if not isinstance(text, str):
            raise ValueError(f"the {side} is {text!r}, which is not a string: give one sentence")
        tokens = Tokens.from_text(self.vocab.source if side == "source" else self.vocab.target, clean_line(text))
        longest = self.model.max_target
        if longest is not None and len(tokens) > longest:
            raise ValueError(f"the {side} has {len(tokens)} tokens, but the model takes {longest}: shorten the {side}")
        return tokens
