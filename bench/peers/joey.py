"""Joey NMT's Transformer with its own loss: label-smoothed, by the divergence from a full distribution for each token.

Its layers drop attention weights and activations too; here, as in the paper, only sub-layer outputs and embeddings.
The loss also counts the correct tokens, as in all of Joey NMT's training.
"""

from types import SimpleNamespace

from joeynmt.model import build_model
from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward
from joeynmt.vocabulary import Vocabulary
from torch import Tensor, nn
from turns import BOS, DROPOUT, EOS, PAD, SMOOTHING, UNK, Loss, Size, serve, shifted


class Numbers(Vocabulary):
    """A vocabulary of ids without spelling: Joey NMT's own takes a minute for 37,000."""

    def add_tokens(self, tokens: list[str]) -> None:
        self._itos = list(dict.fromkeys(tokens))
        self._stoi = {token: number for number, token in enumerate(self._itos)}


def vocabulary(size: int) -> Vocabulary:
    specials = SimpleNamespace(
        pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>", sep_token=None,
        pad_id=1, bos_id=2, eos_id=3, unk_id=0, lang_tags=[],
    )  # fmt: skip
    made = Numbers([str(number) for number in range(size - 4)], specials)
    made.pad_index, made.bos_index, made.eos_index, made.unk_index = PAD, BOS, EOS, UNK
    return made


def build(size: Size) -> tuple[nn.Module, Loss]:
    part = {
        "type": "transformer",
        "num_layers": size.num_layers,
        "num_heads": size.num_heads,
        "hidden_size": size.d_model,
        "ff_size": size.d_ff,
        "dropout": DROPOUT,
        "layer_norm": "post",
        "embeddings": {"embedding_dim": size.d_model, "scale": True, "dropout": DROPOUT},
    }
    config = {"tied_embeddings": True, "tied_softmax": True, "encoder": part, "decoder": part}
    ids = vocabulary(size.vocabulary)
    model = build_model(config, ids, ids)
    model.loss_function = ("crossentropy", SMOOTHING)
    drop_as_the_paper(model)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        seen, written = (source != PAD).unsqueeze(1), (target != PAD).unsqueeze(1)
        total, *_ = model(
            return_type="loss",
            src=source,
            src_mask=seen,
            src_length=seen.sum(dim=(1, 2)),
            trg_input=shifted(target),
            trg=target,
            trg_mask=written,
        )
        return total / int(written.sum())

    return model, loss


def drop_as_the_paper(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, MultiHeadedAttention):
            module.dropout.p = 0.0
        elif isinstance(module, PositionwiseFeedForward):
            module.pwff_layer[2].p = 0.0


if __name__ == "__main__":
    serve("joeynmt", {"": build})
