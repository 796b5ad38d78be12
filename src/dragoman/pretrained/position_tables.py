"""The sinusoidal position tables of Marian and of transformers, in halves: sines, then cosines."""

import numpy as np
from numpy.typing import NDArray

from dragoman.layers.sinusoids import sinusoids, sinusoids_in_halves
from dragoman.pretrained.marian_model import Positions


def position_table(positions: Positions, max_positions: int, d_model: int) -> NDArray[np.float64]:
    """Return the position vectors of a model in its own order of dimensions."""
    if positions == "marian":
        return sinusoids_in_halves(max_positions, d_model)
    table = sinusoids(max_positions, d_model)
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


def residual_order(positions: Positions, d_model: int) -> NDArray[np.int64]:
    """Return the dimension of the model that each of our dimensions is: transformers' halves become interleaved."""
    order = np.arange(d_model)
    return order if positions == "marian" else order.reshape(2, d_model // 2).T.reshape(-1)
