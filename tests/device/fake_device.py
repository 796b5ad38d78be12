"""A training step without values, on a device that exists only in Python: python fake_device.py. Prints JSON.

Fake tensors have shapes, data types and devices. torch refuses an operation on tensors of two devices, and a value that
the host would have to wait for. The step must pass, and each mutant, which breaks one line, must be refused.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from dragoman.attention import mask
from dragoman.attention.attend import Attend
from dragoman.layers import dropout
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.training import loss as loss_module
from dragoman.training.averages import MovingAverage
from dragoman.training.config import LossConfig, OptimizerConfig
from dragoman.training.loss import apply_projected, cross_entropy_then_gradient, r_drop_then_gradient, smooth
from dragoman.training.optimizer import Adam

DEVICE, VOCABULARY = "pretend", 37
SHAPE = TransformerConfig(
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
    d_model=16,
    d_ff=24,
    num_heads=2,
    num_encoder_layers=2,
    num_decoder_layers=1,
    dropout=0.1,
)


class PretendModule(_DummyBackendModule):
    """What torch asks of a device, with autocast."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


class Step:
    """A model on the pretend device, and a batch on the host and on the device."""

    def __init__(self) -> None:
        with torch.device(DEVICE):
            self.model: Seq2Seq[Any, Any] = build(SHAPE)
        self.host = torch.randint(5, VOCABULARY, (8, 10)), torch.randint(5, VOCABULARY, (8, 12))
        self.source, self.target = (side.to(DEVICE) for side in self.host)
        self.optimizer = Adam(self.model, OptimizerConfig())
        self.average = MovingAverage(self.model, 0.99)

    def run(self) -> None:
        """Compute both losses and their gradients, clip, update and average the weights."""
        on_truth, elsewhere = smooth(LossConfig(), VOCABULARY)
        plain = partial(loss_module.cross_entropy_then_gradient, on_truth=on_truth, elsewhere=elsewhere)
        twice = partial(r_drop_then_gradient, on_truth=on_truth, elsewhere=elsewhere, alpha=1.0)
        for chunk_loss in (plain, twice):
            hidden = self.model.hidden(self.model.encode(self.source), shifted(self.target)).flatten(0, 1)
            loss = apply_projected(hidden, self.model.projection.weight, None, self.target.flatten(), chunk_loss)
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        self.average.update(self.model)


def _causal_on_host(length: int, _: torch.device | None = None) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def mask_on_host(step: Step) -> None:
    for part in step.model.modules():
        if isinstance(part, Attend):
            part.path = "explicit"
    with patch.object(mask, "causal", _causal_on_host):
        step.run()


def dropout_mask_on_host(step: Step) -> None:
    with patch.object(dropout, "is_cpu", lambda _: True):
        step.run()


def positions_on_host(step: Step) -> None:
    positions = step.model.encoder.embedding.positions
    positions.table = positions.table.cpu()
    step.run()


def batch_on_host(step: Step) -> None:
    step.source, step.target = step.host
    step.run()


def target_on_host(step: Step) -> None:
    step.target = step.host[1]
    step.run()


def loss_that_waits(step: Step) -> None:
    def wait(*given: Any, **named: Any) -> Tensor:
        return torch.tensor(float(cross_entropy_then_gradient(*given, **named)))

    with patch.object(loss_module, "cross_entropy_then_gradient", wait):
        step.run()


MUTANTS: list[Callable[[Step], None]] = [
    mask_on_host,
    dropout_mask_on_host,
    positions_on_host,
    batch_on_host,
    target_on_host,
    loss_that_waits,
]


def refusal(run: Callable[[Step], None]) -> str | None:
    """Return the error of a step, or None."""
    step = Step()
    step.model.train()
    try:
        run(step)
    except Exception as error:  # torch has several
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return None


def main() -> None:
    _setup_privateuseone_for_python_backend(DEVICE, PretendModule())
    with FakeTensorMode():
        buffers = sorted({str(buffer.device) for buffer in Step().model.buffers()})
        found = {"buffers": buffers, "step": refusal(Step.run)}
        found["mutants"] = {mutant.__name__: refusal(mutant) for mutant in MUTANTS}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
