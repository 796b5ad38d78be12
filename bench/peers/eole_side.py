"""Eole's EncoderDecoderModel with its own LossCompute: label-smoothed cross entropy, summed.

Eole normalises before each sub-layer, never after. Its layers drop activations too; here, as in the paper, only
sub-layer outputs and embeddings. The loss also counts the correct tokens, as in all of Eole's training.
"""

from types import SimpleNamespace

import torch
from eole.config.models import TransformerModelConfig
from eole.config.training import TrainingConfig
from eole.models.model import EncoderDecoderModel
from eole.modules.transformer_mlp import MLP
from eole.utils.loss import LossCompute
from torch import Tensor, nn
from turns import BOS, DROPOUT, EOS, PAD, SMOOTHING, UNK, Loss, Size, serve


def build(size: Size) -> tuple[nn.Module, Loss]:
    shape = TransformerModelConfig(
        layers=size.num_layers,
        hidden_size=size.d_model,
        heads=size.num_heads,
        transformer_ff=size.d_ff,
        add_qkvbias=True,
        add_final_linear_bias=True,
        add_ffnbias=True,
        generator_bias=False,
        share_embeddings=True,
        share_decoder_embeddings=True,
        embeddings={
            "word_vec_size": size.d_model,
            "position_encoding_type": "SinusoidalInterleaved",
        },
    )
    running = TrainingConfig(
        dropout=[DROPOUT], attention_dropout=[0.0], label_smoothing=SMOOTHING, param_init_method="xavier_uniform"
    )
    vocabs = vocabularies(size.vocabulary)
    model = EncoderDecoderModel.for_training(shape, vocabs, running)
    drop_as_the_paper(model)
    compute = LossCompute.from_config(SimpleNamespace(model=shape, training=running), model, vocabs)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        begun = torch.cat([torch.full_like(target[:, :1], BOS), target], dim=1)
        lengths = (source != PAD).sum(dim=1)
        rows = len(source)
        batch = {"tgt": begun, "srclen": lengths, "cid": ["corpus"] * rows, "cid_line_number": list(range(rows))}
        output = model(source, begun, lengths)
        total, _, _ = compute(batch, output.dec_out, output.attns)
        return total / int((target != PAD).sum())

    return model, loss


def vocabularies(size: int) -> dict[str, dict[str, object]]:
    names = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}
    ids: dict[str, object] = {names.get(number, str(number)): number for number in range(size)}
    specials: dict[str, object] = {
        "pad_token": names[PAD],
        "bos_token": names[BOS],
        "eos_token": names[EOS],
        "unk_token": names[UNK],
    }
    return {"src": ids, "tgt": ids, "specials": specials}


def drop_as_the_paper(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, MLP):
            module.dropout_1.p = 0.0


if __name__ == "__main__":
    serve("eole", {"": build})
