"""Build a model from its config."""

from typing import Any

from dragoman.models.config import ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.models.convolutional import Convolutional
from dragoman.models.recurrent import Recurrent
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer


def build(config: ModelConfig) -> Seq2Seq[Any, Any]:
    """Return a new model, initialised with torch's default random generator."""
    if isinstance(config, TransformerConfig):
        return Transformer(config)
    return Recurrent(config) if isinstance(config, RecurrentConfig) else Convolutional(config)
