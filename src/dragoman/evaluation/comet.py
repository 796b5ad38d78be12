"""COMET (Rei et al., 2020): a learned metric, with the weights of a local checkpoint.

COMET models are large and trained on human judgements. Nothing is downloaded: the checkpoint is a file that the user
has. The package `unbabel-comet` computes the scores of the sentences; their mean is the score of a system.
"""

import logging
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from sacrebleu.significance import estimate_ci

from dragoman.evaluation.metrics import RESAMPLES, Lines, MetricScore
from dragoman.io.durable import hash_file

_SEED: Final = 12345
"""sacreBLEU's default seed, so that the resamples of all metrics are described alike."""
_BATCH_SIZE: Final = 16
_VERBOSE_LOGGERS: Final = ("comet", "pytorch_lightning", "sacrebleu", "transformers")
"""Loggers whose information would be printed once comet has set up logging."""


class CometModel(NamedTuple):
    """A loaded COMET model and the signature of its scores."""

    model: Any
    signature: str


def load_comet(path: Path) -> CometModel:
    """Load a COMET checkpoint: a .ckpt file, or the folder of a model with checkpoints/model.ckpt in it."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about versions of the packages that it builds on
            import comet
    except ImportError as error:
        install = "pip install 'dragoman[comet]', in an environment of its own"
        raise ValueError(f"--comet needs the package unbabel-comet ({error}): {install}") from error
    for name in _VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    checkpoint = path / "checkpoints" / "model.ckpt" if path.is_dir() else path
    if not checkpoint.is_file():
        raise ValueError(f"--comet {path}: there is no checkpoint {checkpoint}: give the .ckpt file of a COMET model")
    try:
        model = comet.load_from_checkpoint(str(checkpoint), local_files_only=True)
    except Exception as error:  # comet raises bare exceptions, and transformers many kinds
        wrong = f"--comet {path}: comet cannot load the checkpoint ({error})"
        raise ValueError(
            f"{wrong}: give a complete model, with hparams.yaml and its encoder on this machine"
        ) from error
    version, name = comet.__version__, checkpoint.parent.parent.name
    sha256 = hash_file(checkpoint)
    return CometModel(model, f"model:{name}|sha256:{sha256[:12]}|bs:{RESAMPLES}|seed:{_SEED}|version:{version}")


def compare_by_comet(comet: CometModel, systems: Sequence[Lines], source: Lines, reference: Lines) -> list[MetricScore]:
    """Return the COMET score of each system, times 100, with p-values against the first system."""
    by_line = [_score_lines(comet.model, source, hypotheses, reference) for hypotheses in systems]
    return score_means("COMET", comet.signature, by_line)


def _score_lines(model: Any, source: Lines, hypotheses: Lines, reference: Lines) -> Float64[ndarray, " lines"]:
    rows = zip(source, hypotheses, reference, strict=True)
    data = [{"src": text, "mt": hypothesis, "ref": expected} for text, hypothesis, expected in rows]
    is_shown = sys.stderr.isatty()
    with warnings.catch_warnings(action="ignore"):
        predicted = model.predict(data, batch_size=_BATCH_SIZE, gpus=0, progress_bar=is_shown)
    return 100.0 * np.asarray(predicted.scores, np.float64)


def score_means(metric: str, signature: str, by_line: Sequence[Float64[ndarray, " lines"]]) -> list[MetricScore]:
    """Return the mean score of each system, with an interval and a p-value against the first system.

    Both are computed as by sacreBLEU: each resample draws the same lines for all systems (Koehn, 2004).
    """
    num_lines = len(by_line[0])
    draws = np.random.default_rng(_SEED).integers(num_lines, size=(RESAMPLES, num_lines))
    resampled = [lines[draws].mean(1) for lines in by_line]
    scores = []
    for number, (lines, means) in enumerate(zip(by_line, resampled, strict=True)):
        mean, margin = estimate_ci(means)
        p_value = None
        if number:
            differences = np.abs(means - resampled[0])
            found = abs(lines.mean() - by_line[0].mean())
            p_value = float((1 + (differences - differences.mean() > found).sum()) / (RESAMPLES + 1))
        ends = {"low": float(mean - margin), "high": float(mean + margin)}
        scores.append(
            MetricScore(metric=metric, value=float(lines.mean()), **ends, signature=signature, p_value=p_value)
        )
    return scores
