"""The relative offsets of sinusoids: the position vector k places on as a linear function of the present one."""

import numpy as np
from numpy.typing import NDArray

from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.layers.sinusoids import sinusoids

Table = NDArray[np.float64]
OFFSETS = (1, 2, 4, 8, 16, 32, 64)


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Fit a matrix per offset on half of the positions, and test it on the other half."""
    num_positions, d_model = (160, 16) if is_smallest else (1024, 128)
    random = np.random.default_rng(seed)
    paper = sinusoids(num_positions, d_model)
    tables = {"sinusoids": paper, "random vectors": random.normal(scale=np.sqrt(0.5), size=paper.shape)}
    order = random.permutation(num_positions - max(OFFSETS))
    train, test = np.array_split(order, 2)
    misfits = {name: [misfit(table, k, train, test) for k in OFFSETS] for name, table in tables.items()}
    rotated = [np.abs(rotate(paper, k)[:-k] - paper[k:]).max() for k in OFFSETS]
    middle = num_positions // 2
    forward = np.array([paper[middle] @ paper[middle + k] for k in OFFSETS])
    backward = np.array([paper[middle] @ paper[middle - k] for k in OFFSETS])
    return Measurement(
        numbers={
            "rotation_error": float(max(rotated)),
            "misfit_sinusoids": max(misfits["sinusoids"]),
            "misfit_random": min(misfits["random vectors"]),
            "direction": float(np.abs(forward - backward).max() / forward.max()),
        },
        panels=(
            Panel(
                title="Misfit on positions left out of the fit", x_label="offset k", y_label="relative error",
                x=OFFSETS, lines={name: tuple(values) for name, values in misfits.items()}, log_x=True, log_y=True,
            ),
            Panel(
                title="Similarity of two positions", x_label="offset k", y_label="dot product", x=OFFSETS,
                lines={"k places on": tuple(forward.tolist()), "k places back": tuple(backward.tolist())}, log_x=True,
            ),
        ),
    )  # fmt: skip


def misfit(table: Table, offset: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> float:
    """Return the relative error of PE(pos + offset) = PE(pos) M on test positions, M being fitted on others."""
    matrix = np.linalg.lstsq(table[train], table[train + offset], rcond=None)[0]
    wanted = table[test + offset]
    return float(np.linalg.norm(table[test] @ matrix - wanted) / np.linalg.norm(wanted))


def rotate(table: Table, offset: int) -> Table:
    """Return the table moved on by `offset` positions: each pair of sine and cosine turned by the same angle."""
    d_model = table.shape[1]
    angle = offset * 10_000.0 ** (-np.arange(0, d_model, 2) / d_model)
    sine, cosine = table[:, 0::2], table[:, 1::2]
    turned = [sine * np.cos(angle) + cosine * np.sin(angle), cosine * np.cos(angle) - sine * np.sin(angle)]
    return np.stack(turned, axis=-1).reshape(table.shape)


EXPERIMENT = Experiment(
    claim="Sinusoids let the model attend by relative positions, since for any fixed offset k, PE(pos + k) is a linear "
    "function of PE(pos).",
    source="Vaswani et al. 2017, section 3.5",
    prediction="The rotation is exact up to rounding, and a fitted matrix predicts positions that it was not fitted "
    "on; for a table of random vectors no matrix does. The plain dot product cannot tell k places on from k back.",
    method="The table of layers/sinusoids.py with 1024 positions of dimension 128. For offsets from 1 to 64, a matrix "
    "is fitted by least squares on half of the positions and tested on the others; the control is a table of random "
    "vectors of the same size. The rotation by k is applied to all positions as well.",
    numbers={
        "rotation_error": "largest error of the rotation by k",
        "misfit_sinusoids": "largest relative misfit of the fitted matrix, sinusoids",
        "misfit_random": "smallest relative misfit of the fitted matrix, random vectors",
        "direction": "largest difference of the dot products k places on and back, relative to the largest product",
    },
    criteria=(
        Criterion(number="rotation_error", side="below", bound=1e-9, reason="the map is exact"),
        Criterion(number="misfit_sinusoids", side="below", bound=1e-6, reason="one matrix serves every position"),
        Criterion(number="misfit_random", side="above", bound=0.5, reason="this is a property of sinusoids"),
    ),
    lesson="The map exists and is exact: it turns each pair of sine and cosine by an angle that depends on k alone. It "
    "does not follow that a model uses it. The plain dot product of two positions is the same k places on and k "
    "places back, so the direction has to come from learned projections.",
    measure=measure,
)
