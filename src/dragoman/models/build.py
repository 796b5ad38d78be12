"""From a config to its model: one explicit table."""

from typing import Any

from dragoman.models.config import ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.models.recurrent import Recurrent
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer


def build(config: ModelConfig) -> Seq2Seq[Any, Any]:
    """A freshly initialised model, drawn from torch's default generator."""
    match config:
        case TransformerConfig():
            return Transformer(config)
        case RecurrentConfig():
            return Recurrent(config)
