"""Compare a training step with torch's nn.Transformer of the same size: forward, label-smoothed loss, backward, Adam.

Both models are in one process and take turns on the same batches, so that a busy machine slows both alike. Values are
ratios of tokens per second: above 1, ours is faster.

    python bench/train_step.py [--seconds 20] [--only small_fp32 ...] [--rows 96]
"""

import math
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import torch
from report import option_parser, print_values
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.layers.sinusoids import sinusoids
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD
from dragoman.training.config import LossConfig
from dragoman.training.loss import projected_label_smoothed

DROPOUT = 0.1
SMOOTHING = 0.1


class Case(NamedTuple):
    """A model size and the precision of its products."""

    config: TransformerConfig
    precision: torch.dtype


class Reference(nn.Module):
    """nn.Transformer as its documentation uses it, with the paper's tied embedding and positions around it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.source_vocabulary, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        positions = torch.from_numpy(sinusoids(config.max_positions, config.d_model)).float()
        self.register_buffer("positions", positions)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.num_encoder_layers,
            config.num_decoder_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
        )

    def embed(self, tokens: Tensor) -> Tensor:
        scaled = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim)
        return self.dropout(scaled + self.positions[: tokens.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden_source = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=hidden_source,
            memory_key_padding_mask=hidden_source,
        )
        return F.linear(hidden, self.tokens.weight)


def batches(vocabulary: int, rows: int, number: int = 8) -> list[tuple[Tensor, Tensor]]:
    """Return length-bucketed batches as in training: 20 to 25 tokens on each side."""
    generator = torch.Generator().manual_seed(1)

    def side() -> Tensor:
        length = torch.randint(20, 26, (rows,), generator=generator)
        length[0] = 25
        ids = torch.randint(NUM_SPECIALS, vocabulary, (rows, 25), generator=generator)
        position = torch.arange(25)
        ids = torch.where(position == length[:, None] - 1, EOS, ids)
        return torch.where(position < length[:, None], ids, PAD)

    return [(side(), side()) for _ in range(number)]


Step = Callable[[Tensor, Tensor], None]


def stepper(
    model: nn.Module, precision: torch.dtype, loss: Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor]
) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(source: Tensor, target: Tensor) -> None:
        read = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", precision) if precision != torch.float32 else nullcontext():
            value = loss(model, source, read, target)
        value.backward()
        optimizer.step()

    return step


def torch_loss(model: nn.Module, source: Tensor, read: Tensor, target: Tensor) -> Tensor:
    logits = model(source, read)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)


def our_loss(model: nn.Module, source: Tensor, read: Tensor, target: Tensor) -> Tensor:
    hidden = model.hidden(model.encode(source), read)
    return projected_label_smoothed(hidden, model.projection.weight, target, LossConfig(label_smoothing=SMOOTHING)).mean


def measure(case: Case, rows: int, seconds: float) -> tuple[float, float]:
    """Return the median tokens per second (both sides, without padding) of ours and of the reference."""
    torch.manual_seed(0)
    steps = [
        stepper(Transformer(case.config).train(), case.precision, our_loss),
        stepper(Reference(case.config).train(), case.precision, torch_loss),
    ]
    work = batches(case.config.source_vocabulary, rows)
    rates: list[list[float]] = [[], []]
    for step in steps:
        step(*work[0])
    end = time.perf_counter() + seconds
    i = 0
    while time.perf_counter() < end or i < 3:
        source, target = work[i % len(work)]
        tokens = int((source != PAD).sum() + (target != PAD).sum())
        order = (0, 1) if i % 2 == 0 else (1, 0)
        for side in order:
            begin = time.perf_counter()
            steps[side](source, target)
            rates[side].append(tokens / (time.perf_counter() - begin))
        i += 1
    return statistics.median(rates[0]), statistics.median(rates[1])


def cases() -> dict[str, Case]:
    small = TransformerConfig(
        source_vocabulary=10_000,
        target_vocabulary=10_000,
        d_model=256,
        d_ff=1024,
        num_heads=4,
        num_encoder_layers=3,
        num_decoder_layers=3,
        dropout=DROPOUT,
    )
    base = TransformerConfig(source_vocabulary=37_000, target_vocabulary=37_000, dropout=DROPOUT)
    return {
        "small_fp32": Case(small, torch.float32),
        "small_bf16": Case(small, torch.bfloat16),
        "base_fp32": Case(base, torch.float32),
        "base_bf16": Case(base, torch.bfloat16),
    }


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="time for each case")
    parser.add_argument("--only", nargs="*", help="the cases to run")
    parser.add_argument("--rows", type=int, default=96, help="pairs of a batch")
    arguments = parser.parse_args()
    values = {}
    for name, case in cases().items():
        if arguments.only and name not in arguments.only:
            continue
        ours, reference = measure(case, arguments.rows, arguments.seconds)
        values[name] = ours / reference
        print(
            f"{name:12} {ours:9,.0f} tokens/s   nn.Transformer {reference:9,.0f}   ratio {values[name]:.2f}", flush=True
        )
    print_values("train_step", values)


if __name__ == "__main__":
    main()
