"""Small models trained on generated sequences of symbols, for experiments: tasks, one training loop, and accuracy."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.attention import mask
from dragoman.decoding.search import greedy_search
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.recurrent import Recurrent
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD
from dragoman.training.config import LossConfig, OptimizerConfig
from dragoman.training.loss import Objective
from dragoman.training.optimizer import Adam

NUM_SYMBOLS: Final = 12
VOCABULARY: Final = NUM_SPECIALS + NUM_SYMBOLS
VOCABULARIES: Final = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}

Pairs = tuple[Tensor, Tensor]
"""Sources and targets: token ids that end with EOS, padded."""


def draw_sequences(num: int, shortest: int, longest: int) -> Tensor:
    """Return random sequences of symbols that end with EOS, padded; the lengths do not count EOS."""
    lengths = torch.randint(shortest, longest + 1, (num, 1))
    tokens = torch.randint(NUM_SPECIALS, VOCABULARY, (num, int(lengths.max()) + 1))
    place = torch.arange(tokens.shape[1])[None, :]
    return tokens.masked_fill(place > lengths, PAD).masked_fill(place == lengths, EOS)


def reverse(tokens: Tensor) -> Tensor:
    """Return the sequences in reverse order; EOS and padding stay at the end."""
    lengths = (tokens != PAD).sum(dim=1, keepdim=True) - 1
    place = torch.arange(tokens.shape[1])[None, :].expand_as(tokens)
    return tokens.gather(1, torch.where(place < lengths, lengths - 1 - place, place))


def build_recurrent(context: str, width: int, cell: str = "gru", bidirectional: bool = True) -> Recurrent:
    """Return a recurrent model without dropout whose decoder uses the source in this way."""
    sizes = {"d_model": width, "d_embedding": width, "dropout": 0.0}
    kind = {"context": context, "cell": cell, "bidirectional": bidirectional}
    return Recurrent(RecurrentConfig.model_validate({**VOCABULARIES, **sizes, **kind}))


def build_transformer(width: int, num_layers: int, num_heads: int = 4, norm: str = "post") -> Transformer:
    """Return a Transformer without dropout, with equally many encoder and decoder layers."""
    sizes = {"d_model": width, "d_ff": 4 * width, "num_heads": num_heads, "dropout": 0.0, "norm": norm}
    layers = {"num_encoder_layers": num_layers, "num_decoder_layers": num_layers}
    return Transformer(TransformerConfig.model_validate({**VOCABULARIES, **sizes, **layers}))


class Tagger(nn.Module):
    """The encoder of a Transformer without dropout, and logits at every position."""

    def __init__(
        self, width: int, num_layers: int, num_heads: int = 4, norm: str = "post", num_tags: int = VOCABULARY
    ) -> None:
        super().__init__()
        self.encoder = build_transformer(width, num_layers, num_heads, norm).encoder
        self.output = nn.Linear(width, num_tags)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits [batch, n, tags]."""
        logits: Tensor = self.output(self.encoder(tokens, mask.padding(tokens, PAD)))
        return logits

    def loss(self, tokens: Tensor, tags: Tensor) -> Tensor:
        """Return the mean cross entropy of the tags."""
        return F.cross_entropy(self(tokens).flatten(0, 1), tags.flatten())

    @torch.no_grad()
    def accuracy(self, tokens: Tensor, tags: Tensor) -> float:
        """Return the share of symbols, without EOS and padding, with the right tag."""
        right = self(tokens).argmax(dim=-1) == tags
        return float(right[tokens >= NUM_SPECIALS].float().mean())


def warm_then_linear(update: int, num_updates: int, warmup: int = 50) -> float:
    """Return the share of the peak rate: a linear increase over `warmup` updates, and a linear decrease to the end."""
    return min(1.0, (update + 1) / max(1, warmup)) * (1 - update / num_updates)


def train(
    model: nn.Module,
    loss_of_update: Callable[[], Tensor],
    num_updates: int,
    rate: float,
    factor: Callable[[int, int], float] = warm_then_linear,
    clip: float | None = 1.0,
    on_update: Callable[[int], None] | None = None,
) -> list[float]:
    """Train a model by Adam on the losses of new batches; return the loss of every update.

    `on_update` is called with the number of updates done.
    """
    optimizer, losses = Adam(model, OptimizerConfig()), []
    for update in range(num_updates):
        optimizer.set_rate(rate * factor(update, num_updates))
        optimizer.zero_grad()
        loss = loss_of_update()
        torch.autograd.backward(loss)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
        if on_update is not None:
            on_update(len(losses))
    return losses


def train_seq2seq(
    model: Seq2Seq[Any, Any],
    draw: Callable[[], Pairs],
    num_updates: int,
    rate: float,
    factor: Callable[[int, int], float] = warm_then_linear,
    clip: float | None = 1.0,
    on_update: Callable[[int], None] | None = None,
) -> list[float]:
    """Train a sequence-to-sequence model on drawn pairs; return the loss per token of every update."""
    objective = Objective(model, LossConfig(label_smoothing=0.0))

    def loss() -> Tensor:
        source, target = draw()
        total: Tensor = objective(source, target)
        return total / int((target != PAD).sum())

    losses = train(model, loss, num_updates, rate, factor, clip, on_update)
    model.eval()
    return losses


def accuracy(model: Seq2Seq[Any, Any], pairs: Pairs, place: int | None = None) -> float:
    """Return the share of target tokens, without EOS, that greedy search writes right at their places, or at one."""
    source, target = pairs
    right = total = 0
    for row, hypothesis in zip(target.tolist(), greedy_search(model, source), strict=True):
        wanted = row[: row.index(EOS)]
        places = range(len(wanted)) if place is None else (place,)
        right += sum(at < len(hypothesis.tokens) and wanted[at] == hypothesis.tokens[at] for at in places)
        total += len(places)
    return right / total
