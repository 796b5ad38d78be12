"""Dragoman's own side: its Transformer and the objective that its Trainer minimises."""

from torch import Tensor, nn
from turns import DROPOUT, PAD, SMOOTHING, Loss, Size, serve

from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.training.config import LossConfig
from dragoman.training.loss import Objective


def build(size: Size) -> tuple[nn.Module, Loss]:
    config = TransformerConfig(
        source_vocabulary=size.vocabulary,
        target_vocabulary=size.vocabulary,
        d_model=size.d_model,
        d_ff=size.d_ff,
        num_heads=size.num_heads,
        num_encoder_layers=size.num_layers,
        num_decoder_layers=size.num_layers,
        attention_bias=True,
        dropout=DROPOUT,
    )
    objective = Objective(Transformer(config), LossConfig(label_smoothing=SMOOTHING))

    def loss(source: Tensor, target: Tensor) -> Tensor:
        total: Tensor = objective(source, target)
        return total / int((target != PAD).sum())

    return objective, loss


if __name__ == "__main__":
    serve("dragoman", {"": build})
