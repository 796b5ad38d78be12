"""Two engines, each loaded only when it is asked for. No torch here.

torch is the reference and runs every family. CTranslate2 is for production: Transformers, several times as fast, and
without torch. The same options mean the same to both.
"""

from importlib.util import find_spec
from typing import NamedTuple, get_args

from dragoman.bundle import Bundle
from dragoman.decoding.engine import Engine, Tokens, search
from dragoman.decoding.given import Compute, EngineName, a_number, a_word
from dragoman.decoding.options import SearchOptions

__all__ = ["Choice", "Engine", "Tokens", "open_engine", "search", "torchs_alone"]


class Choice(NamedTuple):
    """An engine, and why it was not another."""

    engine: Engine
    reason: str | None


def open_engine(
    bundle: Bundle,
    options: SearchOptions,
    name: EngineName = "auto",
    threads: int | None = None,
    compute: Compute | None = None,
) -> Choice:
    """The engine asked for; left to itself, CTranslate2 wherever it does what is asked."""
    a_word("engine", name, get_args(EngineName))
    a_number("threads", threads)
    a_word("compute", compute, get_args(Compute))
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


def torchs_alone(options: SearchOptions) -> tuple[str, str] | None:
    """What of a search CTranslate2 cannot do, and what it does instead; None if it can do all of it."""
    if options.stop != "count":
        return f"stop: {options.stop}", "stops by count"
    if options.min_length > 1:
        return f"min_length: {options.min_length}", "gives EOS's probability to the others"
    return None


def _why_not_ctranslate2(bundle: Bundle, options: SearchOptions) -> str | None:
    from dragoman.export.refusal import why_not

    reason = why_not(bundle.info.model)
    if reason:
        return reason
    if not bundle.exports:
        return f"this model has no export yet: dragoman export {bundle.folder}"
    alone = torchs_alone(options)
    return f"{alone[0]} is for torch alone; CTranslate2 {alone[1]}" if alone else None
