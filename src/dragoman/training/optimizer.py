"""The Adam optimizer (section 5.3 of the paper)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn, optim

from dragoman.device import cpu, has_fused_adam
from dragoman.training.config import OptimizerConfig


class Adam(optim.AdamW):
    """Adam with decoupled weight decay on matrices only, and with its state saved by weight name."""

    def __init__(self, model: nn.Module, config: OptimizerConfig) -> None:
        matrices = [weight for weight in model.parameters() if weight.dim() > 1]
        others = [weight for weight in model.parameters() if weight.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        betas = (config.beta1, config.beta2)
        is_fused = has_fused_adam(next(model.parameters()).device)
        super().__init__([group for group in groups if group["params"]], 0.0, betas, config.epsilon, fused=is_fused)
        self.named_weights = dict(model.named_parameters())
        for weight in model.parameters():
            # As torch does at the first step: so there is a state to save and to load into from the beginning.
            step = torch.zeros((), dtype=torch.float32, device=weight.device if is_fused else cpu())
            mean, square = (torch.zeros_like(weight, memory_format=torch.preserve_format) for _ in range(2))
            self.state[weight] = {"step": step, "exp_avg": mean, "exp_avg_sq": square}

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next update."""
        for group in self.param_groups:
            group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state tensors by weight name."""
        return {name: self.state[weight] for name, weight in self.named_weights.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Copy the tensors of a saved state into the optimizer state."""
        for name, tensors in state_dict.items():
            for key, tensor in tensors.items():
                self.state[self.named_weights[name]][key].copy_(tensor)
