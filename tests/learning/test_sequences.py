"""Models learn to copy and to reverse from scratch, with a seed drawn anew each run, so that the bounds are honest."""

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.attention.tap import Tap
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.search import greedy_search
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD
from dragoman.training.config import LossConfig
from dragoman.training.loss import projected_label_smoothed

pytestmark = pytest.mark.learning

VOCABULARY = 32
SHORTEST, LONGEST = 4, 16
SECONDS = 90.0
HELD_OUT = 1000

TRANSFORMER = TransformerConfig(
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
    d_model=64,
    d_ff=128,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
    dropout=0.0,
    max_positions=LONGEST + 2,
)
BAHDANAU = RecurrentConfig(
    source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, d_model=64, d_embedding=32, dropout=0.0
)
CONVS2S = ConvolutionalConfig(
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
    d_model=64,
    d_embedding=32,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dropout=0.0,
    max_positions=LONGEST + 2,
)
BATCH = 64
WARMUP = 100


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread: a second one that waits for the first, busily, would count as processor time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


Task = Callable[[Tensor, Tensor], Tensor]
"""From words and their lengths to the words to write."""


def copy(words: Tensor, lengths: Tensor) -> Tensor:
    return words


def reverse(words: Tensor, lengths: Tensor) -> Tensor:
    position = torch.arange(words.shape[1])
    return words.gather(1, (lengths - 1 - position).clamp(min=0))


def pairs(task: Task, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random sequences and what the task makes of them, each ended by EOS and padded."""
    position = torch.arange(LONGEST + 1)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (number, 1), generator=generator)
    words = torch.randint(NUM_SPECIALS, VOCABULARY, (number, LONGEST + 1), generator=generator)

    def ended(side: Tensor) -> Tensor:
        return torch.where(position < lengths, side, torch.where(position == lengths, EOS, PAD))

    return ended(words), ended(task(words, lengths))


def learn(config: ModelConfig, task: Task, rate: float, num_steps: int) -> Seq2Seq[Any, Any]:
    """Adam with a linear rise and fall of the rate, every batch fresh."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = build(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=True)
    for step in range(num_steps):
        optimizer.param_groups[0]["lr"] = rate * min((step + 1) / WARMUP, (num_steps - step) / (num_steps - WARMUP))
        source, target = pairs(task, BATCH, generator)
        hidden = model.hidden(model.encode(source), shifted(target))
        optimizer.zero_grad()
        config = LossConfig(label_smoothing=0.0)
        projected_label_smoothed(hidden, model.projection.weight, target, config).mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def exact_share(model: Seq2Seq[Any, Any], source: Tensor, target: Tensor) -> float:
    options = SearchOptions(max_length=LengthLimit(ratio=1.0, extra=2))
    written = [[*found.tokens, EOS] for found in greedy_search(model, source, options)]
    return sum(w == row[row != PAD].tolist() for w, row in zip(written, target, strict=True)) / len(target)


@pytest.mark.parametrize("task", [copy, reverse])
@pytest.mark.parametrize(
    ("config", "rate", "num_steps"),
    [(TRANSFORMER, 4e-3, 2000), (BAHDANAU, 8e-3, 500), (CONVS2S, 4e-3, 1400)],
    ids=["transformer", "bahdanau", "convs2s"],
)
def test_a_small_model_learns_the_task_from_scratch(
    config: ModelConfig, rate: float, num_steps: int, task: Task
) -> None:
    begin = time.process_time()  # of the processor: a busy machine must not decide
    model = learn(config, task, rate, num_steps)
    elapsed = time.process_time() - begin
    held_out = pairs(task, HELD_OUT, torch.Generator().manual_seed(secrets.randbits(32)))
    share = exact_share(model, *held_out)
    print(f"{share:.1%} exact after {elapsed:.0f} s")
    assert share >= 0.99
    assert elapsed < SECONDS
    if task is reverse and config is TRANSFORMER:
        assert_looks_backwards(model, *held_out)


def assert_looks_backwards(model: Seq2Seq[Any, Any], source: Tensor, target: Tensor) -> None:
    """Writing the word at t, some head looks at the source's word at length - 1 - t: the anti-diagonal."""
    with torch.no_grad(), Tap(model) as tap:
        model(source, shifted(target))
    lengths = (source != PAD).sum(dim=1) - 1
    position = torch.arange(target.shape[1])
    written = position[None, :] < lengths[:, None]
    opposite = lengths[:, None] - 1 - position[None, :]
    shares = {}
    for name in tap:
        if name.endswith("cross_attention"):
            looked_at = tap[name].argmax(dim=-1)  # [batch, heads, queries]
            for head in range(looked_at.shape[1]):
                shares[name, head] = (looked_at[:, head] == opposite)[written].float().mean().item()
    print({f"{name}[{head}]": round(share, 3) for (name, head), share in shares.items()})
    assert max(shares.values()) >= 0.9
