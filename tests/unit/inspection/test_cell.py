"""The arithmetic of a cell as data: the explanation's numbers, and weights that follow from the scores."""

import json
import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.bundle import open_bundle
from dragoman.inspection.cell import CellExplanation, CellNumbers, describe_cell
from dragoman.inspection.explanation import explain
from dragoman.inspection.explanation.worksheet import Table, format_number
from dragoman.inspection.inspector import Inspector
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig

GOLDEN = Path(__file__).parents[2] / "golden"
MAKER = runpy.run_path(str(GOLDEN / "make_cells.py"))
SOURCE, TARGET = "two red dogs.", "zwei rote Hunde."


def cell_of(name: str = "v1", **options: Any) -> CellExplanation:
    return describe_cell(explain(Inspector.load(GOLDEN / name), SOURCE, TARGET, **options))


def weights_of(cell: CellExplanation, divisor: float) -> np.ndarray:
    exps = [0.0 if key.mark == "hidden" else math.exp(key.score / divisor) for key in cell.keys]
    return np.array(exps) / sum(exps) * [key.factor for key in cell.keys]


@pytest.mark.parametrize("name", MAKER["CELLS"])
def test_the_stored_cells_are_those_of_today(name: str) -> None:
    stored = CellExplanation.model_validate_json(json.dumps(json.loads((GOLDEN / "cells.json").read_text())[name]))
    today = MAKER["make_cell"](name)
    assert (today.title, today.row, today.key, today.divisor) == (stored.title, stored.row, stored.key, stored.divisor)
    for ours, theirs in zip(today.keys, stored.keys, strict=True):
        assert (ours.label, ours.mark) == (theirs.label, theirs.mark)
        assert (ours.score, ours.weight) == pytest.approx((theirs.score, theirs.weight), abs=1e-4)
    assert [(step.short, step.formula) for step in today.steps] == [(step.short, step.formula) for step in stored.steps]


RECURRENT: dict[str, dict[str, Any]] = {
    "bahdanau": {},
    "luong, general": {"context": "luong", "score": "general"},
    "luong, concat": {"context": "luong", "score": "concat"},
    "luong, location": {"context": "luong", "score": "location"},
    "luong, activated": {"context": "luong", "score": "activated-general"},
    "luong, local-m": {"context": "luong", "score": "general", "locality": "local-m", "window": 2},
    "luong, local-p": {"context": "luong", "score": "dot", "locality": "local-p", "window": 3},
}


@pytest.mark.parametrize("name", RECURRENT)
def test_scores_divisor_and_factors_give_the_weights_of_a_recurrent_model(name: str) -> None:
    vocab = open_bundle(GOLDEN / "v1").vocab
    sizes: dict[str, Any] = {"d_model": 16, "d_embedding": 10, "d_score": 7, **RECURRENT[name]}
    config = RecurrentConfig(source_vocabulary=vocab.source.size, target_vocabulary=vocab.target.size, **sizes)
    cell = describe_cell(explain(Inspector(build(config).eval(), vocab), SOURCE, TARGET))
    np.testing.assert_allclose(weights_of(cell, cell.divisor), [key.weight for key in cell.keys], atol=1e-6)
    assert cell.divisor == 1
    assert any(key.mark == "hidden" for key in cell.keys) == ("local" in name)
    assert any(key.factor != 1 for key in cell.keys) == ("local-p" in name)


@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
def test_a_transformer_divides_by_the_root_and_hides_what_its_mask_hides(kind: str) -> None:
    target = None if kind == "encoder" else TARGET
    cell = describe_cell(explain(Inspector.load(GOLDEN / "v1"), SOURCE, target, kind=kind, row=2, head=0))
    assert cell.divisor == cell.root > 1
    np.testing.assert_allclose(weights_of(cell, cell.divisor), [key.weight for key in cell.keys], atol=1e-6)
    hidden = [j for j, key in enumerate(cell.keys) if key.mark == "hidden"]
    assert hidden == (list(range(3, len(cell.keys))) if kind == "decoder" else [])
    assert all(key.printed == f"{key.weight:.4f}" for key in cell.keys)


def test_every_printed_number_of_the_explanation_is_there_and_whole_vectors_too() -> None:
    shown = explain(Inspector.load(GOLDEN / "v1"), SOURCE, TARGET, kind="cross")
    cell = describe_cell(shown)
    assert len(cell.steps) == len(shown.steps)
    for ours, step in zip(cell.steps, shown.steps, strict=True):
        assert (ours.title, ours.why, ours.formula) == (step.title, step.why, step.formula)
        assert ours.short
        for block, original in zip(ours.blocks, step.blocks, strict=True):
            if isinstance(original, Table):
                assert isinstance(block, CellNumbers)
                printed = [[format_number(number) for number in row.cells] for row in original.rows]
                assert [list(row.cells) for row in block.rows] == printed
    vectors = [row.whole for step in cell.steps for block in step.blocks if not isinstance(block, str)
               for row in block.rows if row.label == "q" and row.whole]  # fmt: skip
    assert vectors
    np.testing.assert_allclose(vectors[0], shown.recomputed.query, atol=1e-6)


@pytest.mark.parametrize("name", ["v1", "v1-recurrent", "v1-convolutional"])
def test_the_chosen_key_is_worked_through(name: str) -> None:
    cells = [cell_of(name, kind="cross", row=1, head=0, key=key) for key in (0, 3)]
    assert [cell.key for cell in cells] == [0, 3]
    for cell in cells:
        label = cell.keys[cell.key].label
        texts = [block for step in cell.steps for block in step.blocks if isinstance(block, str)]
        assert f"For {label}:" in texts
        assert any(text.startswith(f"{label}: ") for text in texts)
    usual = cell_of(name, kind="cross", row=1, head=0)
    assert usual.key == int(np.argmax([key.weight for key in usual.keys]))
    with pytest.raises(ValueError, match="there is no key 99: choose 0 to"):
        cell_of(name, kind="cross", key=99)
