"""The models of the studio: traces on request, one at a time per model, and the last traces kept."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.alignment.error_rate import diagonal_score
from dragoman.alignment.moses import read_gold_of
from dragoman.alignment.words import filled_pairs
from dragoman.attention.kinds import kind_of
from dragoman.bundle import Bundle, is_demo, open_bundle, refuse_demo
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads
from dragoman.decoding.options import SearchOptions
from dragoman.device import AUTO
from dragoman.inspection.cell import CellExplanation, describe_cell
from dragoman.inspection.export_trace import trace_export
from dragoman.inspection.head_ranking import rank_heads
from dragoman.inspection.head_search import score_heads
from dragoman.io.progress import Progress
from dragoman.studio.schemas import (
    CounterfactualCounts,
    HeadSearchReport,
    HeadSearchRequest,
    LinkList,
    StudioModelInfo,
    TraceRequest,
)

if TYPE_CHECKING:
    from dragoman.inspection.inspector import Inspector
    from dragoman.inspection.trace import HeadVectors, Trace
    from dragoman.triage.model_triage import TriageModel
    from dragoman.triage.ranking import TriageReport

MOST_TRACES: Final = 32
EXAMPLE: Final = "A woman is reading a book in the garden."
NEEDS_TORCH: Final = "needs torch: pip install 'dragoman[train]'"


def has_torch() -> bool:
    """Return True if torch is installed, so that all heads can be traced."""
    return find_spec("torch") is not None


class UnknownTraceError(ValueError):
    """Raised for the id of a trace that is not kept any more."""


class StudioModel:
    """A model of the studio; its weights are loaded by the first request."""

    def __init__(self, name: str, folder: Path, device: str = AUTO) -> None:
        self.name, self.folder = name, folder
        self.bundle: Bundle = open_bundle(folder)
        self._device = device
        self._lock = threading.Lock()
        self._triage_lock = threading.Lock()

    @property
    def info(self) -> StudioModelInfo:
        info, is_built_in = self.bundle.info, is_demo(self.bundle.folder)
        return StudioModelInfo(
            name=self.name,
            argument="demo" if is_built_in else str(self.folder),
            sha256=self.bundle.sha256,
            family=info.model.family,
            source_language=info.source_language,
            target_language=info.target_language,
            example=EXAMPLE if is_built_in else None,
            alignment_heads=info.alignment_heads,
            is_demo=is_built_in,
        )

    def trace(self, request: TraceRequest) -> "Trace":
        """Trace a request, with the history of the search; without torch, the alignment head alone."""
        if not has_torch():
            if request.prefix or request.interventions:
                raise ValueError(f"to force words or to change heads {NEEDS_TORCH}")
            with self._lock:
                return trace_export(self.bundle, request.source, request.target, request.beam_size)
        _check_prefix(request.prefix, self.bundle.vocab.target.size)
        with self._lock:
            return self._inspector(request.beam_size).trace(
                request.source,
                request.target,
                prefix=request.prefix,
                interventions=request.interventions,
                history=request.target is None,
            )

    def counterfactual(self, trace: "Trace") -> CounterfactualCounts:
        """Count the tokens of a trace that survive permuted or uniform cross-attention."""
        from dragoman.inspection.intervene import counterfactual

        with self._lock:
            return CounterfactualCounts(**counterfactual(self._loaded.model, trace)._asdict())

    def vectors(self, trace: "Trace", name: str) -> "HeadVectors":
        """Return the queries, keys and values of one attention in a trace."""
        if name not in trace.attention:
            raise ValueError(f"there is no attention {name!r}: choose from {', '.join(trace.attention)}")
        with self._lock:
            again = self._loaded.capture(trace.source, trace.target, interventions=trace.interventions, vectors=True)
        return again.vectors[name]

    def explain(self, trace: "Trace", name: str, row: int, head: int | None, key: int | None) -> CellExplanation:
        """Explain one row of a map, in a pass over the tokens of the trace without its interventions.

        A `head` of None is the most instructive one, a `key` of None the one with the largest weight.
        """
        if name not in trace.attention:
            raise ValueError(f"there is no attention {name!r}: choose from {', '.join(trace.attention)}")
        inspector = self._loaded
        from dragoman.inspection.explanation import explain_row
        from dragoman.inspection.explanation.selection import find_attention, find_row

        kind = kind_of(name)
        layer = find_attention(inspector.model, kind, trace.names(kind).index(name))
        written = None if kind == "encoder" else trace.target
        with self._lock:
            word = find_row(row, written or trace.source)
            explanation = explain_row(inspector, layer, trace.source, written, word, head, key, free=trace.free)
        return describe_cell(explanation)

    def triage(self, sources: Sequence[str], progress: Progress) -> "TriageReport":
        """Translate sentences and rank them, as `dragoman triage` does; traces can be made meanwhile."""
        from dragoman.triage.model_triage import rank_measured
        from dragoman.triage.ranking import make_report

        with self._triage_lock:
            progress("triage", 0, len(sources))  # may stop what has waited in vain
            pairs = self._triage_model.measure(sources, None, progress)
            return make_report(*rank_measured(pairs, self._triage_model.sha256, is_free=True))

    def search_heads(self, request: HeadSearchRequest, progress: Progress) -> HeadSearchReport:
        """Rank all heads by gold links, as `dragoman align --search` does; traces can be made meanwhile."""
        inspector = self._loaded
        from dragoman.alignment.aligner import require_short_lines
        from dragoman.attention.tap import cross_attentions

        sources, targets = request.sources, request.targets
        for name, lines in (("translations", targets), ("lines of gold links", request.gold)):
            if len(lines) != len(sources):
                raise ValueError(f"there are {len(sources):,} sources but {len(lines):,} {name}: give as many of both")
        gold = read_gold_of(request.gold, sources, targets, swap=request.swap_gold)
        require_short_lines(inspector.model, inspector.vocab, sources, targets)
        filled = filled_pairs(sources, targets)
        if not filled:
            raise ValueError("every sentence pair has an empty side: give text on both sides")
        traces = self._one_by_one(inspector.trace_pairs(sources, targets, progress))
        grid = score_heads(traces, [gold[i] for i in filled])
        return HeadSearchReport(
            ranking=rank_heads(grid, cross_attentions(inspector.model)),
            diagonal_aer=diagonal_score(sources, targets, gold).aer,
        )

    def links(self, head: AlignmentHead, sources: Sequence[str], targets: Sequence[str]) -> LinkList:
        """Return the links of one head, as `dragoman align --layer` does."""
        inspector = self._loaded
        from dragoman.alignment.aligner import Aligner

        with self._lock:
            found = Aligner(inspector.model, inspector.vocab, (head,)).links(sources, targets)
        return LinkList(links=tuple(tuple(sorted(of_pair)) for of_pair in found))

    def store_head(self, head: AlignmentHead) -> StudioModelInfo:
        """Store the alignment head in the model's folder, as `dragoman align --store` does, and align by it."""
        refuse_demo(self.bundle.folder)
        inspector = self._loaded
        from dragoman.alignment.aligner import Aligner
        from dragoman.inspection.inspector import Inspector

        with self._lock:
            Aligner(inspector.model, inspector.vocab, (head,))  # refuses a head that the model does not have
            if open_bundle(self.folder).model_sha256 != self.bundle.model_sha256:
                raise ValueError(f"{self.folder} has changed since it was opened: start dragoman studio again")
            try:
                self.bundle = store_alignment_heads(self.bundle.folder, (head,))
            except OSError as error:
                raise ValueError(f"{self.folder} cannot be changed ({error.strerror or error})") from None
            self._loaded = Inspector.of_model(inspector.model, self.bundle)
            self.__dict__.pop("_triage_model", None)
        return self.info

    def _one_by_one(self, traces: "Iterator[Trace]") -> "Iterator[Trace]":
        """Yield traces that are made on demand; the model is free for other requests between two."""
        while True:
            with self._lock:
                trace = next(traces, None)
            if trace is None:
                return
            yield trace

    def prefix_text(self, prefix: tuple[int, ...]) -> str | None:
        """Return the text that is tokenized to this prefix, as `inspect --prefix` needs it; None if there is none."""
        subwords = self.bundle.vocab.target
        text = subwords.decode(prefix)
        return text if tuple(subwords.encode([text]).ids.tolist()[:-1]) == prefix else None

    @cached_property
    def _triage_model(self) -> "TriageModel":
        from dragoman.triage.model_triage import TriageModel

        return TriageModel.of(self.bundle)

    @cached_property
    def _loaded(self) -> "Inspector":
        if not has_torch():
            raise ValueError(f"this {NEEDS_TORCH}")
        from dragoman.inspection.inspector import Inspector

        return Inspector.of(self.bundle, device=self._device)

    def _inspector(self, beam_size: int | None) -> "Inspector":
        from dragoman.inspection.inspector import Inspector

        loaded = self._loaded
        if beam_size is None:
            return loaded
        options = SearchOptions.model_validate({**loaded.options.model_dump(), "beam_size": beam_size})
        return Inspector(loaded.model, loaded.vocab, options, loaded.identity, loaded.alignment_heads)


@dataclass(frozen=True)
class KeptTrace:
    """A trace, and the model that made it."""

    model: StudioModel
    trace: "Trace"


@dataclass
class TraceCache:
    """The last traces by id; the same request has the same id."""

    most: int = MOST_TRACES
    _kept: "OrderedDict[str, KeptTrace]" = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def trace(self, model: StudioModel, request: TraceRequest) -> tuple[str, "Trace"]:
        """Return the id and the trace of a request; trace it unless it is kept."""
        key = f"{model.bundle.sha256} {request.model_dump_json()}"
        trace_id = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:16]
        with self._lock:
            kept = self._kept.get(trace_id)
            if kept is not None:
                self._kept.move_to_end(trace_id)
                return trace_id, kept.trace
        trace = model.trace(request)
        with self._lock:
            self._kept[trace_id] = KeptTrace(model, trace)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return trace_id, trace

    def find(self, trace_id: str) -> KeptTrace:
        """Return a kept trace by its id."""
        with self._lock:
            kept = self._kept.get(trace_id)
        if kept is None:
            raise UnknownTraceError("this trace is not kept any more: translate the sentence again")
        return kept


def _check_prefix(prefix: tuple[int, ...], size: int) -> None:
    if any(token >= size for token in prefix):
        raise ValueError(f"the prefix has the token {max(prefix)}, but the vocabulary has {size}: give other tokens")
