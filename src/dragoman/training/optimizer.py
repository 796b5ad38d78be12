"""Adam (section 5.3)."""

import torch
from torch import nn, optim

from dragoman.training.config import OptimizerConfig


def adam(model: nn.Module, config: OptimizerConfig) -> optim.AdamW:
    """Adam over all weights; the learning rate is set before each update. Only matrices decay, if anything does."""
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    made = optim.AdamW([group for group in groups if group["params"]], 0.0, betas, config.epsilon, fused=True)
    for weight in model.parameters():
        # As the first step would make it. Made now, there is a state to save and to load into from the beginning.
        made.state[weight] = {
            "step": torch.zeros((), dtype=torch.float32, device=weight.device),
            "exp_avg": torch.zeros_like(weight, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(weight, memory_format=torch.preserve_format),
        }
    return made


def set_rate(optimizer: optim.Optimizer, rate: float) -> None:
    """The learning rate of the next update."""
    for group in optimizer.param_groups:
        group["lr"] = rate
