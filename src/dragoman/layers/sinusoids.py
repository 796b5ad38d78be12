"""Sinusoidal position tables in float64. This file does not import torch, so that exports can use the tables."""

import math

import numpy as np
from numpy.typing import NDArray


def sinusoids(max_positions: int, d_model: int) -> NDArray[np.float64]:
    """Return the paper's table: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same angle."""
    angle = _angles(max_positions, np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(max_positions, -1)[:, :d_model]


def sinusoids_in_halves(max_positions: int, d_model: int) -> NDArray[np.float64]:
    """Return tensor2tensor's table: sines, then cosines, exponent i / (d/2 - 1); for odd d the last column is zero."""
    half = d_model // 2
    angle = _angles(max_positions, np.arange(half) / max(half - 1, 1))
    table = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
    return np.pad(table, ((0, 0), (0, d_model - table.shape[1])))


def _angles(max_positions: int, exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    positions = np.arange(max_positions, dtype=np.float64)
    return positions[:, None] * np.exp(-math.log(10_000.0) * exponents)[None, :]
