"""Dragoman: train a Transformer on your own parallel text, ship it, and see what happens inside it.

    import dragoman

    model = dragoman.load("demo")                       # or the folder of a model or of a run
    model.translate("Where is the station?")            # a text or a list of texts; layout is kept
    model.translate("I am late.", num_best=3)           # the three best, with scores
    for line in model.translate_iter(lines): ...        # a stream of any length
    model.score(source, target)                         # log-probability of each token
    model.align(source, target)                         # links between words
    model.evaluate(sources, references)                 # BLEU and chrF with confidence intervals

    trace = model.trace("I am late.", without="cross.2")  # trace, tap and train need torch
    trace.show(head="align")
    trace.save("a.trace"); dragoman.open_trace("a.trace")
    with model.tap() as maps: ...

    run = dragoman.train("recipe.yaml", out="run/")     # or source=, target=, time=
    dragoman.Client("http://127.0.0.1:5000")            # client of `dragoman serve`

Importing dragoman is fast, and translating needs no torch. The `dragoman` command offers the same and more: see
`dragoman --help`. Guides: docs/index.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.version import __version__

if TYPE_CHECKING:
    from dragoman.api import Model, load, open_trace, train
    from dragoman.client import Client

__all__ = ["Client", "Model", "__version__", "load", "open_trace", "train"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    return getattr(import_module("dragoman.client" if name == "Client" else "dragoman.api"), name)


def __dir__() -> list[str]:
    """Return all names of the module, so that `help(dragoman)` describes the public names."""
    return [*globals(), *__all__]
