"""One run from two text files to a bundle, in this process: little dates, a little model, a few seconds."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dragoman.bundle import Bundle, open_bundle
from dragoman.cli.train_display import describe_event
from dragoman.data.batches import Reader
from dragoman.data.corpus import CorpusConfig
from dragoman.data.dates import dates
from dragoman.data.manifest import Prepared
from dragoman.data.order import BatchConfig
from dragoman.decoding.engine import open_engine
from dragoman.decoding.options import SearchOptions
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.metrics import score_translations
from dragoman.experiment.held_out import TextPairs, read_pairs
from dragoman.experiment.log import read_log
from dragoman.experiment.machine import Machine
from dragoman.experiment.train_model import _export, train_model
from dragoman.experiment.training_data import prepare_run
from dragoman.experiment.validator import Validator
from dragoman.recipes.recipe import Recipe, load_recipe
from dragoman.text.vocab import Vocab
from dragoman.training.parallel import Group
from dragoman.translation.translator import Translator

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"
COMMAND = "dragoman train 'my recipe.yaml' --out run"


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return {"name": name, "source": str(folder / f"{name}.source"), "target": str(folder / f"{name}.target")}


def recipe(data: dict[str, Any], **training: Any) -> Recipe:
    settings = {
        "schedule": {"factors": ["warmup"], "rate": 0.004, "warmup": 10},
        "batch": {"tokens": 900},
        "stop": {"updates": 12, "metric": "loss"},
        "validate_every": 6,
        "log_every": 4,
    }
    shape = {"family": "transformer", "d_model": 16, "d_ff": 32, "num_heads": 2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    described = {
        "name": "little dates",
        "description": "Dates.",
        "source_language": "en",
        "data": {"vocabulary": {"size": 330, "character_coverage": 1.0}, **data},
        "model": shape | layers,
        "training": settings | training,
        "validation": {"search": {"beam_size": 1}, "samples": 2},
        "card": {"licence": "CC0-1.0", "corpora": {"train": {"licence": "CC-BY 2.0", "attribution": "a calendar"}}},
    }
    return Recipe.model_validate(described)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run with a dev set split off and a test set, with its events in a list."""
    place = tmp_path_factory.mktemp("dates")
    pairs = dates(460, 1)
    data = {"train": [write(place, "train", pairs[:430])], "test": [write(place, "test", pairs[430:])], "split": 20}
    events: list[dict[str, Any]] = []
    described = prepare_run(recipe(data), place / "run", num_workers=1)
    bundle = train_model(place / "run", Group(), events.append, COMMAND)
    return {"folder": place / "run", "recipe": described, "events": events, "bundle": bundle, "pairs": pairs}


def test_it_leaves_a_bundle_that_opens_and_translates(finished: dict[str, Any]) -> None:
    bundle = open_bundle(finished["folder"] / "bundle")
    assert bundle.info == finished["bundle"].info
    assert (bundle.info.source_language, bundle.info.target_language) == ("en", None)
    assert bundle.info.search["beam_size"] == 1
    translations = Translator.load(finished["folder"]).translate(["4 March 1987", "", "the first of May 1999"])
    assert len(translations) == 3
    assert translations[1] == ""
    assert translations[0]


def test_the_card_says_how_good_it_is_and_how_it_was_made(finished: dict[str, Any]) -> None:
    card = open_bundle(finished["folder"]).card
    (data,) = card.data
    assert (data.name, data.pairs, data.licence, data.attribution) == ("train", 410, "CC-BY 2.0", "a calendar")
    assert (card.title, card.licence, card.command) == ("little dates", "CC0-1.0", COMMAND)
    assert [(score.test_set, score.metric) for score in card.scores] == [
        (name, metric) for name in ("dev", "test") for metric in ("BLEU", "chrF2")
    ]
    for score in card.scores:
        assert score.low is not None
        assert score.high is not None
        assert score.low <= score.high
        assert score.signature is not None
        assert "version:2" in score.signature
    assert card.sizes["vocabulary"] == 330
    assert card.sizes["parameters"] == sum(array.size for array in open_bundle(finished["folder"]).weights().values())
    assert card.notes[0] == "Dates."
    assert card.notes[1].startswith("Trained for 12 updates in ")
    assert finished["recipe"].training.precision in card.notes[1]
    assert "until all updates are made; these are the weights of update 12, the best by loss" in card.notes[1]


def test_the_cards_scores_are_those_of_the_bundle(finished: dict[str, Any]) -> None:
    test = finished["pairs"][430:]
    bundle = open_bundle(finished["folder"])
    # The model is hardly trained, so it is scored by the quick search of validations.
    dev = read_pairs(finished["recipe"].data.dev)
    (*_, last) = (event for event in finished["events"] if event["event"] == "validation")
    usual = SearchOptions.model_validate(bundle.info.search)
    search = Validator([dev], bundle.vocab, usual, MetricOptions()).search_for(last["loss"])
    engine = open_engine(bundle, search).engine
    translations = Translator(engine, bundle.vocab, search).translate([source for source, _ in test])
    expected = score_translations(translations, [[target for _, target in test]])["chrf"]
    (found,) = [s for s in bundle.card.scores if (s.test_set, s.metric) == ("test", "chrF2")]
    assert found.value > 0
    assert (found.value, found.low, found.signature) == (expected.value, expected.low, expected.signature)


def test_it_is_export_and_tried_on_the_dev_pairs(finished: dict[str, Any]) -> None:
    bundle = open_bundle(finished["folder"])
    (export,) = bundle.exports
    assert (export.store, export.kept) == ("float32", True)
    assert (export.proof.texts, export.proof.held_out) == (20, True)
    assert finished["bundle"].sha256 == bundle.sha256
    assert finished["events"][-2] == {"event": "export", **export.proof.model_dump(mode="json")}
    assert Translator.load(bundle).engine.name == "ctranslate2"


def bundle_of(name: str, folder: Path) -> Bundle:
    return open_bundle(Path(shutil.copytree(GOLDEN / name, folder / "bundle")))


def test_a_model_that_cannot_be_export_is_no_failure(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    bundle = bundle_of("v1-recurrent", tmp_path)
    assert _export(bundle, [TextPairs("dev", ["ten"], ["zehn"])], events.append) == bundle
    assert events == [{"event": "export", "reason": "this model stays with torch: CTranslate2 has no recurrent models"}]
    line = "not exported for CTranslate2: this model stays with torch: CTranslate2 has no recurrent models"
    assert describe_event(events[0]) == line


def test_an_export_that_fails_its_trial_leaves_the_run_with_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[dict[str, Any]] = []
    bundle = bundle_of("v1", tmp_path)
    monkeypatch.setattr("dragoman.translation.export_check.LARGEST_DIFFERENCE", -1.0)
    assert _export(bundle, [TextPairs("dev", ["ten old houses."], ["zehn"])], events.append) == bundle
    assert open_bundle(tmp_path / "bundle").exports == ()
    assert "the float32 export differs from torch" in events[0]["reason"]


def test_the_recipe_in_the_folder_is_the_one_that_was_run(finished: dict[str, Any]) -> None:
    assert load_recipe(finished["folder"] / "recipe.yaml") == finished["recipe"]
    assert finished["recipe"].data.dev.source == str(finished["folder"] / "dev.source")


def test_every_event_is_in_the_log_and_drawn(finished: dict[str, Any]) -> None:
    for_displays = ("progress", "validating", "scoring")
    events = [event for event in finished["events"] if event["event"] not in for_displays]
    assert json.loads(json.dumps(events)) == read_log(finished["folder"])
    assert "saved" in {event["event"] for event in events}  # how often depends on the speed of the machine
    kinds = [event["event"] for event in events if event["event"] != "saved"]
    after = ["end", *["score"] * 4, "export", "verdict"]
    assert kinds == ["begin", "update", "validation", "update", "update", "validation", *after]
    assert (events[0]["pairs"], events[0]["last"], events[0]["vocabulary"]) == (410, 12, 330)
    assert all(len(event["samples"]) == 2 for event in events if event["event"] == "validation")
    assert [event["tokens_per_second"] > 100 for event in events if event["event"] == "update"] == [True] * 3
    assert (finished["folder"] / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_split_off_is_kept_out_of_training(finished: dict[str, Any]) -> None:
    folder = finished["folder"]
    dev = read_pairs(finished["recipe"].data.dev)
    assert len(dev) == 20
    pairs = finished["pairs"]
    places = [pairs.index(pair) for pair in zip(dev.source, dev.target, strict=True)]
    assert max(places) < 430
    reader = Reader.of(Prepared.open(folder / "prepared"), BatchConfig(tokens=900), 1)
    batches = [reader(index) for index in range(reader.plan.num_batches)]
    seen = np.concatenate([batch.lines for batch in batches])
    assert sorted([*seen.tolist(), *places]) == list(range(430))
    vocab = Vocab.load(folder / "prepared")
    texts = {vocab.target.decode([int(i) for i in row]) for batch in batches for row in batch.target}
    assert len(texts) == 410
    assert not texts & set(dev.target)


def test_a_run_that_was_stopped_early_can_be_begun_again(tmp_path: Path) -> None:
    described = recipe({"train": [write(tmp_path, "train", dates(300, 1))], "split": 10})
    first = prepare_run(described, tmp_path / "run", num_workers=1)
    manifest = (tmp_path / "run" / "prepared" / "manifest.json").stat().st_mtime_ns
    assert prepare_run(described, tmp_path / "run", num_workers=1) == first
    assert (tmp_path / "run" / "prepared" / "manifest.json").stat().st_mtime_ns == manifest


def test_automatic_precision_is_resolved_once_and_kept_when_resuming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = recipe({"train": [write(tmp_path, "train", dates(200, 1))], "split": 8})
    folder = tmp_path / "run"
    for is_fast, precision in ((True, "bfloat16"), (False, "bfloat16")):  # the second time on another machine
        machine = Machine(1, None, bfloat16=is_fast)
        monkeypatch.setattr("dragoman.experiment.training_data.this_machine", lambda machine=machine: machine)
        assert prepare_run(described, folder, num_workers=1).training.precision == precision
        assert load_recipe(folder / "recipe.yaml").training.precision == precision
        (folder / "checkpoints" / "update-000000001").mkdir(parents=True, exist_ok=True)


def test_a_refused_run_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    prepare_run(recipe({"train": [write(tmp_path, "train", dates(300, 1))], "split": 10}), folder, num_workers=1)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = recipe({"train": [write(elsewhere, "train", dates(200, 2))], "split": 10})
    with pytest.raises(
        ValueError, match=r"run/prepared was prepared from other .* remove the whole folder .*/run first"
    ):
        prepare_run(other, folder, num_workers=1)
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_a_finished_run_is_not_trained_over(finished: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"holds a finished model .* give another --out"):
        prepare_run(finished["recipe"], finished["folder"])


def test_a_test_set_that_cannot_be_read_is_refused_before_training(tmp_path: Path) -> None:
    pairs = dates(300, 1)
    data = {"train": [write(tmp_path, "train", pairs[:270])], "test": [write(tmp_path, "test", pairs[270:])]}
    prepare_run(recipe(data | {"split": 10}), tmp_path / "run", num_workers=1)
    test = tmp_path / "test.target"
    test.write_bytes(test.read_bytes().replace(b"-", b"\xff", 1))
    events: list[dict[str, Any]] = []
    with pytest.raises(ValueError, match=r"test\.target: line \d+ is not UTF-8"):
        train_model(tmp_path / "run", Group(), events.append)
    assert events == []


def test_pairs_are_read_whole_and_a_file_without_any_is_refused(tmp_path: Path) -> None:
    corpus = CorpusConfig.model_validate(write(tmp_path, "few", [("ä\u2028b", "x"), ("", " y ")]))
    assert (read_pairs(corpus).source, read_pairs(corpus).target) == (["ä\u2028b", ""], ["x", " y "])
    nothing = pa.table({"source": pa.array([], pa.string()), "target": pa.array([], pa.string())})
    parquet.write_table(nothing, tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=r"none\.parquet"):
        read_pairs(CorpusConfig(source=str(tmp_path / "none.parquet")))


def test_subword_sampling_and_averages_go_through_to_the_bundle(tmp_path: Path) -> None:
    data = {"train": [write(tmp_path, "train", dates(240, 1))], "split": 40}
    changes = {"stop": {"updates": 16}, "subword_sampling": 0.1, "ema": 0.5, "snapshots": {"every": 8, "average": 2}}
    changes |= {"loss": {"r_drop": 1.0}, "precision": "bfloat16", "validate_every": 16}
    halved = recipe(data, **changes).model_copy(update={"store": "float16"})
    prepare_run(halved, tmp_path / "run", num_workers=1)
    events: list[dict[str, Any]] = []
    bundle = train_model(tmp_path / "run", Group(), events.append)
    assert bundle is not None
    assert all((array == array.astype(np.float16)).all() for array in bundle.weights().values())
    which = [event["which"] for event in events if event["event"] == "validation"]
    assert which == ["update 16", "the average of 2 snapshots"]
    (data_card,) = bundle.card.data
    assert data_card.pairs == 200
    assert {array.dtype for array in bundle.weights().values()} == {np.dtype("float32")}


def test_what_goes_wrong_after_training_does_not_cost_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: Any) -> None:
        raise MemoryError

    prepare_run(
        recipe({"train": [write(tmp_path, "train", dates(200, 1))], "split": 8}), tmp_path / "run", num_workers=1
    )
    monkeypatch.setattr("dragoman.experiment.train_model.score_translations", out_of_memory)
    with pytest.raises(MemoryError):
        train_model(tmp_path / "run", Group(), lambda _: None)
    bundle = open_bundle(tmp_path / "run")
    assert bundle.card.scores == ()
    assert Translator.load(bundle).translate(["4 March 1987"])[0]
