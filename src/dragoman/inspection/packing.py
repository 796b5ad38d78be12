"""Attention maps in one byte a weight, and back: small enough to keep, true enough to read off alignments.

A row is written in units of 1/255 of its largest weight. Rounding follows the running sum, so that no row gains or
loses by it, and the largest weight alone (the first, where several are equal) is 255. What comes back has zero where
zero was, the same largest weight in every row and the same sums, also where they are not 1; a weight is off by
less than 0.01, as a rule by less than 0.004.
"""

from typing import Final

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

_LARGEST: Final = 255

Map = Float[ndarray, "heads rows keys"]


def packed(weights: Map) -> tuple[UInt8[ndarray, "heads rows keys"], Float[ndarray, "heads rows"]]:
    """The bytes, and the sum of each row."""
    if not np.isfinite(weights).all() or weights.min(initial=0.0) < 0.0:
        raise ValueError("attention weights that are negative or not finite cannot be saved")
    exact = weights.astype(np.float64)
    largest = exact.max(axis=-1, keepdims=True, initial=0.0)
    units = np.divide(exact * _LARGEST, largest, out=np.zeros_like(exact), where=largest > 0.0)
    running = np.rint(np.cumsum(units, axis=-1))
    rounded = np.minimum(np.diff(running, axis=-1, prepend=0.0), _LARGEST - 1)
    if weights.shape[-1]:
        top = exact.argmax(axis=-1)[..., None]
        np.put_along_axis(rounded, top, np.where(largest > 0.0, _LARGEST, 0), axis=-1)
    return rounded.astype(np.uint8), exact.sum(axis=-1).astype(np.float32)


def unpacked(stored: UInt8[ndarray, "heads rows keys"], sums: Float[ndarray, "heads rows"]) -> Map:
    """The weights, in float32."""
    units = stored.astype(np.float64)
    total = units.sum(axis=-1, keepdims=True)
    shares = np.divide(units, total, out=np.zeros_like(units), where=total > 0.0)
    weights: Map = (shares * sums[..., None]).astype(np.float32)
    return weights


def column_norms(norms: Map, weights: Map) -> Float[ndarray, "heads keys"]:
    """What the norms of a map are beside its weights: one number for each key, read where its weight is largest."""
    if not weights.size:
        return np.zeros((weights.shape[0], weights.shape[2]), np.float32)
    row = weights.argmax(axis=1)[:, None]  # [heads, 1, keys]
    norm, weight = (np.take_along_axis(part, row, axis=1)[:, 0].astype(np.float64) for part in (norms, weights))
    columns = np.divide(norm, weight, out=np.zeros_like(norm), where=weight > 0.0)
    if not np.allclose(columns[:, None] * weights, norms, rtol=1e-3, atol=1e-5 * float(norms.max())):
        raise ValueError("norms that are not each weight times the norm of its key's value cannot be saved")
    return columns.astype(np.float32)
