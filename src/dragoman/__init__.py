"""Dragoman: train a Transformer on your own parallel text, ship it, and see what happens inside it."""

from typing import TYPE_CHECKING

from dragoman.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.decoding.given import Compute, EngineName
    from dragoman.decoding.model import Model

__all__ = ["__version__", "load"]


def load(
    model: "str | Path" = "demo",
    *,
    engine: "EngineName" = "auto",
    threads: int | None = None,
    compute: "Compute | None" = None,
    beam_size: int | None = None,
    num_best: int | None = None,
) -> "Model":
    """The model in a folder, ready to translate; without one, the small English-German model that is built in.

    `model` is the folder of a model or of a run. `engine` is "ctranslate2", "torch", or "auto" for the faster of those
    that can run it. `compute` is what CTranslate2 multiplies: "float32", "int16" or "int8". The others are the threads
    to compute with (else all), the hypotheses kept by the search (else the model's own), and how many come back.
    """
    from dragoman.decoding.model import Model  # heavy, and the name of a version should cost nothing

    return Model.load(model, engine, threads, compute, beam_size, num_best)
