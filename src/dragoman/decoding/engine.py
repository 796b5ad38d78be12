"""The inference engine interface, and the choice between torch and CTranslate2.

torch is the reference and runs every model family. CTranslate2 is for production: Transformers only, several times as
fast, and without torch. Options have the same meaning for both. torch is imported only for the torch engine.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from dragoman.bundle import Bundle
from dragoman.decoding.hypothesis import Result, Tokens
from dragoman.decoding.options import EngineOptions, SearchOptions
from dragoman.device import choose_device, why_not_ctranslate2

if TYPE_CHECKING:
    from dragoman.decoding.ctranslate2_engine import ExportWeights


@runtime_checkable
class Engine(Protocol):
    """An inference engine, which works on token ids. Source sequences end with EOS, target sequences do not."""

    @property
    def name(self) -> str:
        """The engine's name in messages and shard manifests."""

    @property
    def longest(self) -> int | None:
        """The model's maximum sequence length in tokens, including EOS; None if there is no limit."""

    def submit(
        self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
    ) -> Iterator[tuple[int, Result]]:
        """Start a search, in the background if possible; yield (source index, result) pairs in any order.

        Any number of sources may be given: the engine makes its own batches.
        """

    def complete(self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens]) -> list[Result]:
        """Return translations that begin with the prefixes, in order, searched in batches.

        Faster than `submit` with CTranslate2, but not the same in every engine: it may miss the translation that ends
        directly after its prefix.
        """

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        """Return the log-probability of every token of each target, EOS last."""


class OpenEngine(NamedTuple):
    """A loaded engine with its search options, and the reason if `auto` chose torch."""

    engine: Engine
    search: SearchOptions
    """The search options that the engine uses."""
    reason: str | None = None
    """The reason why `auto` did not choose CTranslate2."""
    warning: str | None = None
    """A warning about a search option of the model that the engine does not follow."""


def search(
    engine: Engine, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
) -> list[Result]:
    """Search with an engine, and return one result per source, in order."""
    results = dict(engine.submit(sources, options, prefixes))
    return [results[index] for index in range(len(sources))]


def open_engine(
    bundle: Bundle,
    search: SearchOptions,
    options: EngineOptions | None = None,
    is_sampling: bool = False,
    weights: "ExportWeights | None" = None,
    others: Sequence[Bundle] = (),
) -> OpenEngine:
    """Load the engine that the options name; `auto` prefers CTranslate2 if it supports the model and the options.

    `weights` are those of CTranslate2 if they are in memory already. With `others`, all models translate together, as
    an ensemble.
    """
    options = options or EngineOptions()
    check_ensemble(bundle, others)
    reason = None if options.engine == "torch" else _find_reason(bundle, search, is_sampling, options.device)
    if others and options.engine != "torch":
        reason = "an ensemble is supported by the torch engine only"
    if options.engine == "ctranslate2" and reason:
        raise ValueError(f"{bundle.folder}: the ctranslate2 engine cannot be used: {reason}")
    if options.engine != "torch" and reason is None:
        from dragoman.decoding.ctranslate2_engine import CTranslate2Engine

        compute = options.compute or "float32"
        engine = CTranslate2Engine.load(bundle, options.threads, compute, options.device, weights)
        if search.stop == "count":
            return OpenEngine(engine, search)
        warning = f"{bundle.folder}: CTranslate2 uses `stop: count`, not `stop: {search.stop}`: use torch for that"
        return OpenEngine(engine, search.model_copy(update={"stop": "count"}), warning=warning)
    if options.compute not in (None, "float32"):
        why = f" ({reason})" if reason else ""
        raise ValueError(f"compute {options.compute} does not work with the torch engine{why}: use float32")
    if find_spec("torch") is None:
        why = f", and CTranslate2 cannot be used ({reason})" if reason else ""
        raise ValueError(f"torch is not installed{why}: pip install 'dragoman[train]'")
    import torch

    from dragoman.decoding.torch_engine import TorchEngine

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    return OpenEngine(TorchEngine.load(bundle, choose_device(options.device), others), search, reason)


def check_ensemble(bundle: Bundle, others: Sequence[Bundle]) -> None:
    """Raise ValueError if models cannot translate together: their tokens must mean the same."""
    for other in others:
        if other.vocab.sha256 != bundle.vocab.sha256:
            wrong = f"{bundle.folder} and {other.folder} have different vocabularies, so they cannot be an ensemble"
            fix = "give runs of one recipe, with its own data.dev, that differ in their seed"
            raise ValueError(f"{wrong}: {fix}")


def _find_reason(bundle: Bundle, search: SearchOptions, is_sampling: bool, device: str) -> str | None:
    """Return the reason why CTranslate2 cannot be used, or None."""
    from dragoman.export.obstacles import find_obstacle

    if reason := find_obstacle(bundle.info.model):
        return reason
    if not bundle.exports:
        return f"this model has no export: run dragoman export {bundle.folder}"
    if search.min_length > 1:
        return f"min_length: {search.min_length} is supported by the torch engine only"
    if is_sampling:
        return "sampling is supported by the torch engine only"
    return why_not_ctranslate2(device)
