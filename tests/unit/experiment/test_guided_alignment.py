"""A run with guided alignment: where its links come from, and the head that the bundle stores."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.bundle import open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.data.dates import dates
from dragoman.experiment.guided_alignment import LINKS
from dragoman.experiment.train_model import train_model
from dragoman.experiment.training_data import TrainingData, prepare_run
from dragoman.recipes.recipe import Recipe
from dragoman.text.vocab import Vocab
from dragoman.training.parallel import Group

pytestmark = pytest.mark.slow


def corpus(folder: Path, name: str, seed: int, num_pairs: int = 200) -> dict[str, Any]:
    for side, texts in zip(("source", "target"), zip(*dates(num_pairs, seed), strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return {"name": name, "source": str(folder / f"{name}.source"), "target": str(folder / f"{name}.target")}


def recipe(*corpora: dict[str, Any], **guided: Any) -> Recipe:
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 3}
    described = {
        "name": "dates",
        "data": {"train": corpora, "split": 20, "vocabulary": {"size": 330, "character_coverage": 1.0}},
        "model": {"family": "transformer", **sizes},
        "training": {
            "guided_alignment": {"weight": 0.1, **guided},
            "batch": {"tokens": 1000},
            "schedule": {"factors": ["warmup"], "rate": 0.004, "warmup": 2},
            "stop": {"updates": 4, "metric": "loss"},
            "validate_every": 4,
        },
        "validation": {"search": {"beam_size": 1}},
    }
    return Recipe.model_validate(described)


def num_guided(recipe: Recipe, run: Path) -> dict[str, int]:
    """Return the number of linked target tokens in an epoch, by corpus."""
    reader = TrainingData.open(run).reader(recipe, Vocab.load(run / "prepared"))
    counts: dict[str, int] = {}
    for index in range(reader.plan.num_batches):
        batch = reader(index)
        assert batch.guide is not None
        counts[batch.corpus] = counts.get(batch.corpus, 0) + int((batch.guide.sum(-1) > 0).sum())
    return counts


def test_links_are_learned_for_each_corpus_without_a_file_of_them(tmp_path: Path) -> None:
    own = {**corpus(tmp_path, "own", 2), "links": str(tmp_path / "own.links")}
    (tmp_path / "own.links").write_text("0-0\n" * 200)
    run = tmp_path / "run"
    described = prepare_run(recipe(corpus(tmp_path, "found", 1), own), run, num_workers=1)
    assert [path.name for path in (run / LINKS).iterdir()] == ["found.links"]
    lines = (run / LINKS / "found.links").read_text().splitlines()
    assert len(lines) == 200
    assert sum(map(bool, lines)) > 150
    assert described.data.train[0].links is None, "the recipe stays as it was given"
    counts = num_guided(described, run)
    assert counts["own"] >= 180
    assert counts["found"] > 200


def test_the_same_command_does_not_learn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = recipe(corpus(tmp_path, "found", 1))
    prepare_run(described, tmp_path / "run", num_workers=1)
    monkeypatch.setattr("dragoman.experiment.guided_alignment.learn_links", lambda *_, **__: 1 / 0)
    prepare_run(described, tmp_path / "run", num_workers=1)


def test_the_bundle_stores_the_guided_head(tmp_path: Path) -> None:
    prepare_run(recipe(corpus(tmp_path, "found", 1), layer=0, head=1, rows="written"), tmp_path / "run", num_workers=1)
    train_model(tmp_path / "run", Group(), lambda _: None)
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="written")
    assert open_bundle(tmp_path / "run").info.alignment_heads == (head,)


def test_without_a_weight_there_are_no_links_and_no_head(tmp_path: Path) -> None:
    described = recipe(corpus(tmp_path, "found", 1), weight=0)
    prepare_run(described, tmp_path / "run", num_workers=1)
    assert not (tmp_path / "run" / LINKS).exists()
    train_model(tmp_path / "run", Group(), lambda _: None)
    assert open_bundle(tmp_path / "run").info.alignment_heads == ()
