"""What an engine is: sources in, hypotheses out. Two of them, each loaded only when it is asked for. No torch here.

torch is the reference and runs every family. CTranslate2 is for production: Transformers, several times as fast, and
without torch. The same options mean the same to both.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Literal, NamedTuple, Protocol

from dragoman.bundle import Bundle
from dragoman.decoding.hypothesis import Result
from dragoman.decoding.options import SearchOptions

EngineName = Literal["auto", "ctranslate2", "torch"]
Compute = Literal["float32", "int16", "int8"]
"""What CTranslate2 multiplies. float32 gives what training gave, in whatever batch; the others are faster, and what
they give may depend on the batch."""

Tokens = Sequence[int]


class Engine(Protocol):
    """Searches and scores. A source is tokens that end with EOS; a target has none at its end."""

    @property
    def name(self) -> str:
        """What it is called in messages and manifests."""

    @property
    def longest(self) -> int | None:
        """The longest sequence the model takes, in tokens with EOS; None = any."""

    def submit(
        self, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
    ) -> Iterator[tuple[int, Result]]:
        """Begins to search, if it can do so in the background, and gives the results as they come, with the place of
        their source. However many sources there are, batches are the engine's affair.
        """

    def score(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[tuple[float, ...]]:
        """The log-probability of each token of each target and, last, of its EOS."""


class Choice(NamedTuple):
    """An engine, and why it was not another."""

    engine: Engine
    reason: str | None


def search(
    engine: Engine, sources: Sequence[Tokens], options: SearchOptions, prefixes: Sequence[Tokens] | None = None
) -> list[Result]:
    """The results of all, in the order of their sources."""
    found = dict(engine.submit(sources, options, prefixes))
    return [found[place] for place in range(len(sources))]


def open_engine(
    bundle: Bundle,
    options: SearchOptions,
    name: EngineName = "auto",
    threads: int | None = None,
    compute: Compute | None = None,
) -> Choice:
    """The engine asked for; left to itself, CTranslate2 wherever it does what is asked."""
    reason = None if name == "torch" else _why_not_ctranslate2(bundle, options)
    if name == "ctranslate2" and reason:
        raise ValueError(f"{bundle.folder}: the ctranslate2 engine cannot be used: {reason}")
    if name != "torch" and reason is None:
        from dragoman.decoding.ctranslate2_engine import CTranslate2Engine

        return Choice(CTranslate2Engine.load(bundle, threads, compute or "float32"), None)
    if compute not in (None, "float32"):
        why = f": {reason}" if reason else ""
        raise ValueError(f"--compute {compute} is for the ctranslate2 engine, and this is torch{why}")
    if find_spec("torch") is None:
        why = f"{reason}, and " if reason else ""
        raise ValueError(f"{why}the torch engine is not installed: pip install 'dragoman[train]'")
    from dragoman.decoding.torch_engine import TorchEngine, use_threads

    use_threads(threads)
    return Choice(TorchEngine.load(bundle), reason)


def _why_not_ctranslate2(bundle: Bundle, options: SearchOptions) -> str | None:
    from dragoman.export.refusal import why_not

    reason = why_not(bundle.info.model)
    if reason:
        return reason
    if not bundle.exports:
        return f"this model has no export yet: dragoman export {bundle.folder}"
    if options.stop != "count":
        return f"stop: {options.stop} is for torch alone; CTranslate2 stops by count"
    return None
