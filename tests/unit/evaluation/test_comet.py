"""COMET: the mean of line scores with interval and p-value, what is refused, and a real model where there is one."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from dragoman.evaluation.comet import compare_by_comet, load_comet, score_means

CHECKPOINT = os.environ.get("DRAGOMAN_COMET", "")


def line_scores(seed: int, mean: float, num_lines: int = 400) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 10, num_lines)


def test_the_score_is_the_mean_and_lies_in_its_interval() -> None:
    lines = line_scores(1, 80)
    [score] = score_means("COMET", "model:x", [lines])
    assert score.value == pytest.approx(lines.mean())
    assert score.low < score.value < score.high
    assert score.high - score.low == pytest.approx(2 * 1.96 * 10 / 400**0.5, rel=0.15)
    assert (score.metric, score.signature, score.p_value) == ("COMET", "model:x", None)


def test_the_same_lines_give_the_same_interval() -> None:
    assert score_means("COMET", "", [line_scores(1, 80)]) == score_means("COMET", "", [line_scores(1, 80)])


def test_a_small_difference_on_every_line_is_significant_and_noise_is_not() -> None:
    first = line_scores(1, 80)
    better, noise = first + 0.5 + 0.1 * line_scores(2, 0), first + line_scores(3, 0)
    scores = score_means("COMET", "", [first, better, noise])
    assert scores[0].p_value is None
    assert scores[1].p_value is not None
    assert scores[1].p_value < 0.01
    assert scores[2].p_value is not None
    assert scores[2].p_value > 0.1


@pytest.mark.skipif(find_spec("comet") is not None, reason="the package is installed")
def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dragoman\[comet\]"):
        load_comet(tmp_path)


@pytest.mark.skipif(find_spec("comet") is None, reason="unbabel-comet is not installed")
@pytest.mark.parametrize("name", ["", "absent.ckpt", "text.ckpt"])
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.ckpt").write_text("text")
    with pytest.raises(ValueError, match="--comet"):
        load_comet(tmp_path / name)


@pytest.mark.skipif(not CHECKPOINT, reason="no COMET weights: set DRAGOMAN_COMET to a checkpoint to test with it")
def test_a_real_model_prefers_the_reference() -> None:
    source, reference = ["A dog sleeps.", "I am tired."], ["Ein Hund schläft.", "Ich bin müde."]
    wrong = ["Das Auto ist rot.", "Er kommt morgen."]
    first, second = compare_by_comet(load_comet(Path(CHECKPOINT)), [reference, wrong], source, reference)
    assert first.value > second.value
    assert "sha256:" in first.signature
