"""Order without positions: what encoder and decoder make of the same tokens in another order."""

import torch
from torch import Tensor

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import NUM_SPECIALS

VOCABULARY, BATCH, LENGTH = 50, 8, 12


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Shuffle the tokens that untrained models of several depths read, and compare the hidden states."""
    depths = (1, 2) if is_smallest else (1, 2, 4, 6)
    torch.manual_seed(seed)
    tokens = torch.randint(NUM_SPECIALS, VOCABULARY, (BATCH, LENGTH))
    order = torch.randperm(LENGTH - 1)
    order = torch.cat([order, torch.tensor([LENGTH - 1])])  # the last token stays, as the query that is compared
    with torch.no_grad():
        blind = [shuffle_changes(build_transformer(depth, False), tokens, order) for depth in depths]
        sighted = [shuffle_changes(build_transformer(depth, True), tokens, order) for depth in depths]
    lines = {
        "encoder, with positions": [change[0] for change in sighted],
        "encoder, without": [change[0] for change in blind],
        "mean of the encoder, without": [change[1] for change in blind],
        "decoder, without": [change[2] for change in blind],
    }
    return Measurement(
        numbers={
            "encoder": max(lines["encoder, without"]),
            "pooled": max(lines["mean of the encoder, without"]),
            "with_positions": min(lines["encoder, with positions"]),
            "decoder_one": blind[0][2],
            "decoder_deep": min(change[2] for change in blind[1:]),
        },
        panels=(
            Panel(
                title="Change when earlier tokens are shuffled", x_label="layers", y_label="relative change", x=depths,
                lines={name: tuple(max(value, 1e-9) for value in values) for name, values in lines.items()}, log_y=True,
            ),
        ),
    )  # fmt: skip


def build_transformer(depth: int, has_positions: bool) -> Transformer:
    """Return an untrained Transformer; without positions, its position vectors are zero."""
    sizes = {"d_model": 64, "d_ff": 128, "num_heads": 4, "num_encoder_layers": depth, "num_decoder_layers": depth}
    vocabularies = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    model = Transformer(TransformerConfig(**sizes, **vocabularies, max_positions=LENGTH)).eval()
    if not has_positions:
        model.encoder.embedding.positions.table.zero_()
        model.decoder.embedding.positions.table.zero_()
    return model


def shuffle_changes(model: Transformer, tokens: Tensor, order: Tensor) -> tuple[float, float, float]:
    """Return the relative changes by a shuffle: of the encoder per token, of its mean, of the decoder's last state."""
    memory = model.encode(tokens)
    before, after = memory.hidden, model.encode(tokens[:, order]).hidden
    last = model.hidden(memory, tokens)[:, -1]
    return (
        relative_change(before[:, order], after),
        relative_change(before.mean(dim=1), after.mean(dim=1)),
        relative_change(last, model.hidden(memory, tokens[:, order])[:, -1]),
    )


def relative_change(before: Tensor, after: Tensor) -> float:
    """Return the norm of the difference, divided by the norm of `before`."""
    return float((after - before).norm() / before.norm())


EXPERIMENT = Experiment(
    claim="Without recurrence and convolution, the model can make use of the order of the tokens only if positions are "
    "added to the embeddings.",
    source="Vaswani et al. 2017, section 3.5",
    prediction="The encoder without positions only moves its outputs with the tokens, up to rounding. A decoder of one "
    "layer is blind at its last position, but from two layers on the causal mask gives away the order: the second "
    "layer reads states that depend on which tokens came before.",
    method="Untrained Transformers of models/transformer.py (d_model 64) with the position table set to zero or left "
    f"as it is, {BATCH} random sequences of {LENGTH} tokens. All tokens but the last are shuffled. The encoder's "
    "outputs are compared token by token and as a mean; the decoder's at the last position, which sees the same set "
    "of tokens in both orders.",
    numbers={
        "encoder": "largest relative change of the encoder's outputs, moved with their tokens, without positions",
        "pooled": "largest relative change of the mean of the encoder's outputs, without positions",
        "with_positions": "smallest relative change of the encoder's outputs, with positions",
        "decoder_one": "relative change of the decoder's last state, one layer, without positions",
        "decoder_deep": "smallest relative change of the decoder's last state, two or more layers, without positions",
    },
    criteria=(
        Criterion(number="encoder", side="below", bound=1e-4, reason="the encoder is blind to order without positions"),
        Criterion(number="with_positions", side="above", bound=0.01, reason="positions make it see the order"),
        Criterion(number="decoder_deep", side="below", bound=1e-4, reason="the decoder is blind without positions too"),
    ),
    lesson="An encoder needs positions: without them it only moves its outputs with the tokens. A decoder of two or "
    "more layers does not: its causal mask shows each state another set of tokens, and the next layer reads that. Say "
    "that positions are necessary in the encoder and helpful in the decoder (Haviv et al. 2022 train language "
    "models without them).",
    measure=measure,
)
