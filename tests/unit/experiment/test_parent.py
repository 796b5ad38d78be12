"""Training that begins with a trained model: little dates, a little parent, a few updates at a time."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.bundle import Bundle, open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads
from dragoman.data.dates import dates
from dragoman.data.manifest import Prepared
from dragoman.evaluation.metrics import corpus_value
from dragoman.experiment.held_out import read_pairs
from dragoman.experiment.launchers import Launcher
from dragoman.experiment.log import Event
from dragoman.experiment.parent import choose_sentences, kept_weight, num_held_out, num_read, num_rehearsed
from dragoman.experiment.request import TrainRequest
from dragoman.experiment.run_training import run_training
from dragoman.recipes.recipe import load_recipe
from dragoman.translation.translator import Translator

slow = pytest.mark.slow
GOLDEN = Path(__file__).parents[2] / "golden"
HEAD = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read")

DECAY = "training.optimizer.weight_decay=0.1"
SCRATCH = """\
name: little parent
source_language: en
data:
  train: [{source: a.en, target: a.iso}]
  split: 20
  vocabulary: {size: 380}
model: {d_model: 16, d_ff: 24, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.2}
training:
  batch: {tokens: 512}
  schedule: {factors: [warmup, linear], rate: 0.01, warmup: 5}
  stop: {updates: 30, metric: loss}
  validate_every: 30
validation: {search: {beam_size: 2}}
card: {licence: CC0-1.0}
"""
CHILD = """\
name: child
data:
  train: [{source: b.en, target: b.iso}]
  split: 15
init: {bundle: parent}
model: {dropout: 0.05}
training:
  batch: {tokens: 400}
  schedule: {factors: [warmup, linear], rate: 0.005, warmup: 2}
  stop: {updates: 8, metric: loss}
  validate_every: 4
  checkpoints: {every: 3}
"""


def write(folder: Path, name: str, num: int, seed: int) -> None:
    for side, texts in zip(("en", "iso"), zip(*dates(num, seed=seed), strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def train(folder: Path, out: str, *overrides: str, recipe: str = CHILD, **options: Any) -> list[Event]:
    (folder / f"{out}.yaml").write_text(recipe, encoding="utf-8")
    events: list[Event] = []
    request = TrainRequest(out=folder / out, recipe=folder / f"{out}.yaml", overrides=overrides, **options)
    run_training(request, Launcher(), on_event=events.append)
    return events


def keep_old(folder: Path, more: str = "") -> str:
    return f"init.keep={{source: {folder / 'old.en'}, target: {folder / 'old.iso'}{more}}}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a parent that has an alignment head, and with new and old pairs."""
    folder = tmp_path_factory.mktemp("from")
    for name, num, seed in (("a", 260, 1), ("b", 90, 2), ("old", 120, 3)):
        write(folder, name, num, seed)
    train(folder, "scratch", recipe=SCRATCH)
    shutil.copytree(folder / "scratch" / "bundle", folder / "parent")
    store_alignment_heads(folder / "parent", (HEAD,))
    (folder / "parent" / "licences").mkdir()
    (folder / "parent" / "licences" / "CC0").write_text("No rights reserved.\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def events(place: Path) -> list[Event]:
    """The events of a training that mixes in old pairs."""
    keep = keep_old(place, ", held_out: 11")
    return train(place, "child", keep)


def weights(folder: Path) -> dict[str, np.ndarray]:
    return dict(open_bundle(folder).weights())


def equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, bool]:
    assert one.keys() == other.keys()
    return {name: bool(np.array_equal(one[name], other[name])) for name in one}


@slow
def test_the_parent_gives_weights_vocabulary_shape_languages_and_heads(place: Path, events: list[Event]) -> None:
    parent, child = open_bundle(place / "parent"), open_bundle(place / "child")
    assert child.vocab.sha256 == parent.vocab.sha256
    assert child.info.model == parent.info.model.model_copy(update={"dropout": 0.05})
    assert (child.info.search, child.info.source_language) == (parent.info.search, "en")
    assert child.info.alignment_heads == (HEAD,)
    assert child.card.parent is not None
    assert child.card.parent.model_dump() == {
        "title": "little parent", "sha256": parent.model_sha256, "licence": "CC0-1.0"
    }  # fmt: skip
    readme = (place / "child" / "bundle" / "README.md").read_text(encoding="utf-8")
    assert f"| little parent | {parent.model_sha256} | CC0-1.0 |" in readme
    texts = [folder.folder / "licences" / "CC0" for folder in (parent, child)]
    assert texts[0].read_bytes() == texts[1].read_bytes()
    losses = [event["loss"] for event in events if event["event"] == "validation"]
    assert losses[-1] < losses[0] < 4.0  # from scratch, the first loss is about the logarithm of 380
    assert not all(equal(weights(place / "parent"), weights(place / "child")).values())


@slow
def test_the_parent_is_validated_as_update_0(place: Path, events: list[Event]) -> None:
    validations = [event for event in events if event["event"] == "validation"]
    assert [event["update"] for event in validations] == [0, 4, 8]
    assert (validations[0]["which"], validations[0]["seconds"]) == ("update 0, the parent", 0.0)
    dev = read_pairs(load_recipe(place / "child" / "recipe.yaml").data.dev)  # type: ignore[arg-type]
    by_parent = Translator.load(place / "parent").translate(dev.source)
    assert validations[0]["bleu"] == corpus_value("bleu", by_parent, [dev.target])


@slow
def test_old_pairs_are_trained_on_but_for_those_that_measure_forgetting(place: Path, events: list[Event]) -> None:
    recipe = load_recipe(place / "child" / "recipe.yaml")
    (old, new), (kept,) = recipe.data.train, recipe.data.test
    assert (old.name, new.name, kept.name) == ("old", "train", "kept")
    assert old.weight == 0.75  # as many as the 90 new pairs
    held_out = read_pairs(kept)
    assert len(held_out) == 11
    assert set(held_out.source) <= set((place / "old.en").read_text("utf-8").splitlines())
    dev = set(read_pairs(recipe.data.dev).source)  # type: ignore[arg-type]
    assert dev <= set((place / "b.en").read_text("utf-8").splitlines())
    corpora = {corpus.name: corpus.num_pairs for corpus in Prepared.open(place / "child" / "prepared").manifest.corpora}
    assert corpora["old"] <= 120 - 11
    assert not any("left out" in event.get("message", "") for event in events)


@slow
def test_the_end_compares_parent_and_child_on_new_and_kept_pairs(place: Path, events: list[Event]) -> None:
    (comparison,) = [event for event in events if event["event"] == "comparison"]
    assert [(row["test_set"], row["num_pairs"]) for row in comparison["rows"]] == [("dev", 15), ("kept", 11)]
    assert ["--keep" in note for note in comparison["notes"]] == [True]  # the parent is hardly trained
    recipe = load_recipe(place / "child" / "recipe.yaml")
    for row, corpus in zip(comparison["rows"], (recipe.data.dev, recipe.data.test[0]), strict=True):
        pairs = read_pairs(corpus)  # type: ignore[arg-type]
        for model, name in (("parent", "before"), ("child", "after")):
            hypotheses = Translator.load(place / model).translate(pairs.source)
            assert row[name] == pytest.approx(corpus_value("bleu", hypotheses, [pairs.target]), abs=1e-4)
        assert row["p_value"] is None or 0.0 < row["p_value"] <= 1.0
    card = open_bundle(place / "child").card
    assert card.notes[-1].startswith("BLEU of the parent and of this model: ")
    assert {score.test_set for score in card.scores} == {"dev", "kept"}


@slow
def test_a_finished_run_is_known_again_and_a_changed_one_refused(place: Path, events: list[Event]) -> None:
    keep = keep_old(place, ", held_out: 11")
    (finished,) = train(place, "child", keep)
    assert finished["was_finished"]
    with pytest.raises(ValueError, match=r"init\.freeze"):
        train(place, "child", keep, "init.freeze=[encoder]")
    assert events


@slow
def test_the_parents_weights_are_kept_if_nothing_is_better(place: Path) -> None:
    seen = train(place, "worse", "training.schedule.rate=0.09", "model.dropout=0.9", "training.stop.updates=4")
    assert all(equal(weights(place / "parent"), weights(place / "worse")).values())
    (comparison,) = [event for event in seen if event["event"] == "comparison"]
    assert [row["p_value"] for row in comparison["rows"]] == [None]
    assert len(comparison["notes"]) == 2  # about the parent's weights, and about forgetting


@slow
def test_frozen_parts_do_not_change(place: Path) -> None:
    longer = ("training.schedule.rate=0.003", "training.stop.updates=40", "training.validate_every=20")
    train(place, "frozen", "init.freeze=[embeddings, encoder]", DECAY, *longer)
    same = equal(weights(place / "parent"), weights(place / "frozen"))
    assert {name.split(".")[0] for name, is_same in same.items() if not is_same} == {"decoder"}
    assert all(is_same for name, is_same in same.items() if name.startswith("encoder."))


@slow
def test_a_killed_run_is_resumed_to_the_same_weights(place: Path) -> None:
    keep = keep_old(place)
    changes = (keep, "init.parent_share=0.3", "training.ema=0.9", "training.subword_sampling=0.1")
    train(place, "straight", *changes)
    (place / "killed.yaml").write_text(CHILD, encoding="utf-8")
    request = TrainRequest(out=place / "killed", recipe=place / "killed.yaml", overrides=changes)

    def interrupt(event: Event) -> None:
        if event["event"] == "saved" and event["checkpoint"] >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(request, Launcher(), on_event=interrupt)
    seen: list[Event] = []
    run_training(request, Launcher(), on_event=seen.append)
    assert "resumed" in [event["event"] for event in seen]
    assert 0 not in [event["update"] for event in seen if event["event"] == "validation"]
    assert all(equal(weights(place / "straight"), weights(place / "killed")).values())


@slow
def test_another_parent_is_refused_when_a_run_is_resumed(place: Path) -> None:
    shutil.copytree(place / "parent", place / "moving")
    (place / "changed.yaml").write_text(CHILD.replace("bundle: parent", "bundle: moving"), encoding="utf-8")
    request = TrainRequest(out=place / "changed", recipe=place / "changed.yaml")

    def interrupt(event: Event) -> None:
        if event["event"] == "saved":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(request, Launcher(), on_event=interrupt)
    store_alignment_heads(place / "moving", ())
    for allow_changes in (False, True):
        again = TrainRequest(out=request.out, recipe=request.recipe, allow_changes=allow_changes)
        with pytest.raises(ValueError, match="is not the one that this run began with"):
            run_training(again, Launcher())
    store_alignment_heads(place / "moving", (HEAD,))
    assert not run_training(request, Launcher()).was_finished


@slow
def test_a_recurrent_model_is_a_parent_too(place: Path) -> None:
    recipe = CHILD.replace("bundle: parent", f"bundle: {GOLDEN / 'v1-recurrent'}")
    train(place, "recurrent", "training.stop.updates=2", "training.schedule.warmup=1", recipe=recipe)
    parent, child = open_bundle(GOLDEN / "v1-recurrent"), open_bundle(place / "recurrent")
    assert child.info.model.family == "recurrent"
    assert child.info.model == parent.info.model.model_copy(update={"dropout": 0.05})


@slow
def test_old_text_without_translations_is_translated_once_by_the_parent(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.experiment.parent._CHUNK", 50)
    sentences = choose_sentences((place / "old.en").read_text("utf-8").splitlines(), 1000)
    first = "".join(f"{line}\n" for line in sentences[:50])
    folder = place / "rehearsed" / "rehearsal"  # as a killed run leaves it: the first part is translated
    folder.mkdir(parents=True)
    (place / "rehearsed" / "prepared").mkdir()
    digest = hashlib.sha256(first.encode()).hexdigest()[:16]
    (folder / f"{0:09}-{digest}").write_text("1999-12-31\n" * 50, encoding="utf-8")
    seen = train(place, "rehearsed", f"init.keep={{source: {place / 'old.en'}}}")
    assert (place / "rehearsed" / "rehearsal.source").read_text("utf-8").splitlines() == sentences
    targets = (place / "rehearsed" / "rehearsal.target").read_text("utf-8").splitlines()
    assert targets[:50] == ["1999-12-31"] * 50
    assert targets[50:] == Translator.load(place / "parent").translate(sentences[50:])
    assert not folder.exists()
    (comparison,) = [event for event in seen if event["event"] == "comparison"]
    assert [row["test_set"] for row in comparison["rows"]] == ["dev", "kept"]
    assert "own translations" in comparison["notes"][-1]


def test_the_share_of_old_pairs_follows_from_the_number_of_new_pairs() -> None:
    assert kept_weight(0.5, 1000.0, 4000) == 0.25
    assert kept_weight(0.75, 1000.0, 6000) == 0.5
    assert kept_weight(0.5, 1000.0, 100) == 2.0  # no old pair more than twice
    assert [num_held_out(500, num) for num in (5, 70, 9000)] == [1, 7, 500]
    assert [num_read(num, 1000) for num in (700, 40_000, 41_000)] == [700, 40_000, 20_000]
    assert [num_rehearsed(num, 1500) for num in (700, 90_000)] == [700, 3000]


def test_sentences_to_rehearse_are_spread_over_the_text_without_blank_or_equal_ones() -> None:
    lines = ["one", " ", "two", "one", "three ", "x" * 2000, "four", "five", "six"]
    assert choose_sentences(lines, 3) == ["one", "three", "five"]
    assert choose_sentences(lines, 99) == ["one", "two", "three", "four", "five", "six"]


def test_cards_without_a_parent_are_written_as_before() -> None:
    bundle: Bundle = open_bundle(GOLDEN / "v1")
    assert "parent" not in json.loads(bundle.card.model_dump_json())
