"""The rows of Table 3 for a recipe, and the comparison of their trainings."""

import json
from pathlib import Path

import pytest

from dragoman.lab.ablation import BASE, ROWS, Variation, read_results, variations
from dragoman.lab.ablation_page import TABLE_FILE, render_table, write_page
from dragoman.recipes.recipe import Recipe, load_recipe, override_recipe

RECIPE = """\
name: base
data:
  train: [{source: a.en, target: a.de}]
  split: 20
  vocabulary: {size: 500}
model: {family: transformer}
"""


def recipe(folder: Path, *overrides: str) -> Recipe:
    (folder / "r.yaml").write_text(RECIPE)
    return load_recipe(folder / "r.yaml", overrides)


def test_of_the_paper_s_base_they_are_the_paper_s_rows(tmp_path: Path) -> None:
    base = recipe(tmp_path)
    changed = {one.name: override_recipe(base, one.changes) for one in variations(base)}
    models = {name: other.model.model_dump() for name, other in changed.items()}
    assert [name for name in models if name.startswith("heads")] == ["heads-1", "heads-4", "heads-16", "heads-32"]
    assert {(model["num_heads"], model["d_k"], model["d_v"]) for name, model in models.items() if "heads" in name} == {
        (1, 512, 512),
        (4, 128, 128),
        (16, 32, 32),
        (32, 16, 16),
    }
    assert [(models[f"key-width-{d_k}"]["d_k"], models[f"key-width-{d_k}"]["d_v"]) for d_k in (16, 32)] == [
        (16, 64),
        (32, 64),
    ]
    assert [models[f"layers-{n}"]["num_decoder_layers"] for n in (2, 4, 8)] == [2, 4, 8]
    assert [(models[f"width-{d}"]["d_k"], models[f"width-{d}"]["d_v"]) for d in (256, 1024)] == [(32, 32), (128, 128)]
    assert [models[f"inner-width-{d}"]["d_ff"] for d in (1024, 4096)] == [1024, 4096]
    assert [models[f"dropout-{rate}"]["dropout"] for rate in ("0", "0.2")] == [0.0, 0.2]
    smoothing = [changed[f"smoothing-{rate}"].training.loss.label_smoothing for rate in ("0", "0.2")]
    assert smoothing == [0.0, 0.2]
    assert models["learned-positions"]["positions"] == "learned"
    assert len(models) == 1 + 4 + 2 + 7 + 4 + 1


def test_each_differs_from_the_base_in_what_its_row_says_alone(tmp_path: Path) -> None:
    base = recipe(tmp_path, "model.d_model=36", "model.num_heads=3", "model.dropout=0.2", "model.num_encoder_layers=1")
    every = variations(base)
    assert every[0] == Variation("", BASE, ())
    assert len({one.name for one in every}) == len(every)
    for one in every[1:]:
        assert override_recipe(base, one.changes) != base, one.name
    assert "dropout-0.2" not in {one.name for one in every}  # it is the base
    assert {one.row for one in variations(base, "AE")} == {"", "A", "E"}
    assert {one.row for one in every} == {"", *ROWS}


def test_another_model_than_a_transformer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="recurrent"):
        variations(recipe(tmp_path, "model={family: recurrent}"))


def write_run(folder: Path, *validations: tuple[float, float, bool], is_finished: bool = True) -> None:
    folder.mkdir(parents=True)
    events: list[dict[str, object]] = [{"event": "begin", "parameters": 1234567}]
    events += [{"event": "validation", "loss": loss, "bleu": bleu, "best": best} for loss, bleu, best in validations]
    (folder / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    if is_finished:
        (folder / "bundle").mkdir()


def test_models_are_compared_with_the_base_of_the_same_seed_by_the_weights_that_were_kept(tmp_path: Path) -> None:
    base, heads, other = Variation("", BASE, ()), Variation("A", "heads-1", ()), Variation("E", "learned", ())
    for seed, bleu in enumerate((30.0, 32.0, 34.0), 1):
        write_run(tmp_path / BASE / f"seed-{seed}", (2.0, bleu, True), (1.0, 5.0, False))
        write_run(tmp_path / "heads-1" / f"seed-{seed}", (0.0, bleu - 1, True))
    write_run(tmp_path / "learned" / "seed-1", (1.0, 1.0, True), is_finished=False)
    first, second = read_results(tmp_path, [base, heads, other])
    assert (first.num_seeds, first.parameters, first.gain) == (3, 1234567, None)
    assert first.bleu.mean == 32
    assert first.perplexity.mean == pytest.approx(7.389, abs=1e-3)
    assert second.perplexity.mean == 1
    assert second.gain is not None
    assert second.gain.interval is not None
    assert (second.gain.mean, second.gain.interval.low, second.gain.interval.high) == (-1, -1, -1)
    rows = render_table([first, second]).splitlines()
    assert rows[-1].startswith("| (A) | heads-1 | 3 | 1,234,567 | 1.00 (1.00 to 1.00) | 31.0 ")
    assert rows[-1].endswith("| -1.0 (-1.0 to -1.0) |")
    write_page([first, second], tmp_path, "dragoman ablate r.yaml")
    assert (tmp_path / "table.svg").read_text().startswith("<?xml")
    assert "dragoman ablate r.yaml" in (tmp_path / TABLE_FILE).read_text()


def test_one_seed_has_no_interval_and_the_base_alone_no_picture(tmp_path: Path) -> None:
    write_run(tmp_path / BASE / "seed-1", (2.0, 30.0, True))
    results = read_results(tmp_path, [Variation("", BASE, ())])
    assert results[0].bleu.interval is None
    write_page(results, tmp_path, "dragoman ablate r.yaml")
    assert not (tmp_path / "table.svg").exists()
