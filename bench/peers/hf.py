"""Hugging Face's MarianMTModel, with the loss it computes itself: cross entropy without label smoothing.

Its attention comes as torch's fused kernel and as plain matrix products; the faster one is measured.
"""

from functools import partial

from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel
from turns import BOS, DROPOUT, EOS, PAD, Loss, Size, serve

IGNORED = -100
"""The label that Hugging Face's losses ignore."""


def build(size: Size, attention: str) -> tuple[nn.Module, Loss]:
    config = MarianConfig(
        vocab_size=size.vocabulary,
        max_position_embeddings=1024,
        d_model=size.d_model,
        encoder_layers=size.num_layers,
        decoder_layers=size.num_layers,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        activation_function="relu",
        dropout=DROPOUT,
        scale_embedding=True,
        use_cache=False,
        pad_token_id=PAD,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=BOS,
        attn_implementation=attention,
    )
    model = MarianMTModel(config)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        labels = target.masked_fill(target == PAD, IGNORED)
        value: Tensor = model(input_ids=source, attention_mask=source != PAD, labels=labels).loss
        return value

    return model, loss


if __name__ == "__main__":
    serve("transformers", {attention: partial(build, attention=attention) for attention in ("sdpa", "eager")})
