"""One model learns two target languages, which only a tag tells apart; and all that uses it chooses the language.

The task: the same English words, word by word in German or in French.
"""

import asyncio
import json
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
import torch

import dragoman
from dragoman.api import Model
from dragoman.bundle import Bundle, demo_folder, open_bundle
from dragoman.bundle.info import BundleInfo
from dragoman.bundle.writing import write_bundle
from dragoman.data.batches import SubwordSampling
from dragoman.data.shards import ShardTexts
from dragoman.experiment.train_model import train_model
from dragoman.experiment.training_data import TrainingData, prepare_run
from dragoman.inspection.inspector import Inspector
from dragoman.recipes.recipe import load_recipe
from dragoman.serving.app import create_app
from dragoman.serving.config import ServiceConfig
from dragoman.serving.engine_protocol import TranslationOptions
from dragoman.serving.model_worker import LoadedModel, ModelWorker
from dragoman.serving.service import Service
from dragoman.text.vocab import EOS, Vocab
from dragoman.training.parallel import Group
from dragoman.translation.translator import Translator

pytestmark = pytest.mark.learning

GERMAN = {"dog": "Hund", "house": "Haus", "tree": "Baum", "ball": "Ball", "red": "rot", "old": "alt", "big": "groß"}
FRENCH = {"dog": "chien", "house": "maison", "tree": "arbre", "ball": "balle", "red": "rouge", "old": "vieux"}
FRENCH["big"] = "grand"
DICTIONARIES = {"de": GERMAN, "fr": FRENCH}

RECIPE = """\
name: two languages
source_language: en
target_language: de
data:
  train:
    - {name: german, source: train.en, target: train.de}
    - {name: french, source: train.en, target: train.fr, target_language: fr}
  split: 40
  test:
    - {name: test-de, source: test.en, target: test.de}
    - {name: test-fr, source: test.en, target: test.fr, target_language: fr}
  vocabulary: {size: 380}
  clean: {policies: {duplicate: keep, leak: keep}}
model: {d_model: 48, d_ff: 96, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, norm: pre, dropout: 0}
training:
  batch: {tokens: 500}
  schedule: {factors: [warmup, linear], rate: 0.005, warmup: 20}
  guided_alignment: {weight: 0.3}
  stop: {updates: 300, metric: loss}
  validate_every: 150
  log_every: 40
  precision: float32
validation: {search: {beam_size: 2}, samples: 2}
"""


DRAGOMAN = [sys.executable, "-m", "dragoman"]
TEXTS = ["red dog", "old house", "big tree", "ball", "red ball", "dog"]


def sentences(count: int, seed: int) -> list[str]:
    """Return sentences of one or two different words."""
    draw = random.Random(seed)
    return [" ".join(draw.sample(list(GERMAN), k=draw.randint(1, 2))) for _ in range(count)]


def translate(sentence: str, language: str) -> str:
    """Translate word by word."""
    return " ".join(DICTIONARIES[language][word] for word in sentence.split())


def write(folder: Path, count: int = 600) -> Path:
    """Write the files and the recipe; return the path of the recipe."""
    for name, num, seed in (("train", count, 1), ("test", 30, 2)):
        lines = sentences(num, seed)
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        for language in DICTIONARIES:
            text = "".join(f"{translate(line, language)}\n" for line in lines)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def run(*arguments: str, folder: Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [*DRAGOMAN, *arguments]
    return subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, check=False, timeout=600)


def share_right(found: list[str], language: str, texts: list[str]) -> float:
    return sum(each == translate(text, language) for each, text in zip(found, texts, strict=True)) / len(texts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model of both languages, its folder and the events of its training."""
    folder = tmp_path_factory.mktemp("languages")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    recipe = prepare_run(load_recipe(write(folder)), folder / "run", num_workers=1)
    events: list[dict[str, Any]] = []
    bundle = train_model(folder / "run", Group(), events.append)
    torch.set_num_threads(threads)
    return {"folder": folder, "run": folder / "run", "recipe": recipe, "events": events, "bundle": bundle}


@pytest.fixture(scope="module")
def model(trained: dict[str, Any]) -> Model:
    return dragoman.load(trained["run"])


def test_the_tag_alone_decides_the_language(model: Model) -> None:
    texts = sentences(40, seed=3)
    for language in DICTIONARIES:
        assert share_right(model.translate(texts, to=language), language, texts) >= 0.8


def test_every_source_of_the_shards_begins_with_the_tag_of_its_corpus(trained: dict[str, Any]) -> None:
    vocab = Vocab.load(trained["run"] / "prepared")
    assert vocab.languages == ("de", "fr")
    reader = TrainingData.open(trained["run"]).reader(trained["recipe"], vocab)
    batches = [reader(index) for index in range(6)]
    tags = {"german": vocab.source.tags["de"], "french": vocab.source.tags["fr"]}
    assert {batch.corpus for batch in batches} == {*tags}
    for batch in batches:
        assert (batch.source[:, 0] == tags[batch.corpus]).all()
        assert not np.isin(batch.source[:, 1:], list(tags.values())).any()
        assert not np.isin(batch.target, list(tags.values())).any()
        assert batch.guide is not None
        assert not batch.guide[:, :, 0].any()  # no word of the target is linked to the tag
        assert batch.guide.any()


def test_sampled_subwords_have_the_tag_too(trained: dict[str, Any]) -> None:
    vocab = Vocab.load(trained["run"] / "prepared")
    reader = TrainingData.open(trained["run"]).reader(trained["recipe"], vocab)
    texts = ShardTexts(*(pa.array(["red dog", ""], pa.large_string()) for _ in range(2)))
    rows = SubwordSampling(vocab, 0.5, 1)(texts, 0, reader.corpora[1].language)
    assert rows.source.rows()[0][0] == vocab.source.tags["fr"]
    assert rows.source.rows()[1] == [EOS]
    assert rows.target.rows()[0][0] not in vocab.source.tags.values()


def test_each_language_is_validated_and_scored_by_itself(trained: dict[str, Any]) -> None:
    validations = [event for event in trained["events"] if event["event"] == "validation"]
    for event in validations:
        assert [of_set["name"] for of_set in event["sets"]] == ["dev-de", "dev-fr"]
        assert event["chrf"] == pytest.approx(sum(of_set["chrf"] for of_set in event["sets"]) / 2)
    scored = {event["test_set"]: event["value"] for event in trained["events"] if event["event"] == "score"}
    assert set(scored) == {"dev-de", "dev-fr", "test-de", "test-fr"}
    assert min(scored.values()) > 80  # chrF, which comes last: all sets were translated into their language


def test_the_bundle_lists_its_languages(trained: dict[str, Any]) -> None:
    bundle = open_bundle(trained["run"])
    info = bundle.info
    assert (info.source_language, info.target_language, info.target_languages) == ("en", None, ("de", "fr"))
    assert info.protects
    assert "en → de, fr" in (bundle.folder / "README.md").read_text(encoding="utf-8")
    assert bundle.exports[-1].proof.identical == bundle.exports[-1].proof.texts == 40


def test_both_engines_translate_into_both_languages_alike(trained: dict[str, Any]) -> None:
    for language in DICTIONARIES:
        bundle = open_bundle(trained["run"]).to(language)
        found = [Translator.load(bundle, dragoman.api.EngineOptions(engine)) for engine in ("ctranslate2", "torch")]
        ours, theirs = (translator.translate(TEXTS) for translator in found)
        assert ours == theirs


def test_a_language_must_be_chosen_and_known(trained: dict[str, Any], model: Model) -> None:
    with pytest.raises(ValueError, match=r"into 2 languages: choose one .* de, fr"):
        model.translate("red dog")
    with pytest.raises(ValueError, match="does not translate into 'it': choose one of de, fr"):
        model.translate("red dog", to="it")
    with pytest.raises(ValueError, match="no target language is chosen"):  # whoever forgets to choose
        Translator.load(trained["run"]).translate(["red dog"])
    demo = dragoman.load("demo")
    assert demo.translate("A dog.", to="de") == demo.translate("A dog.")
    with pytest.raises(ValueError, match="does not translate into 'fr'"):
        demo.translate("A dog.", to="fr")


def test_a_tag_in_the_text_is_text(model: Model) -> None:
    """If a text could forge the tag, this French translation would be in German."""
    vocab = model.bundle.to("fr").vocab
    row = vocab.source.encode([">>de<< red dog"]).ids.tolist()
    assert row[0] == vocab.source.tags["fr"]
    assert not {*row[1:]} & {*vocab.source.tags.values()}
    assert model.translate("red dog", to="fr") == "rouge chien"


def test_the_tag_is_no_source_word(trained: dict[str, Any], model: Model) -> None:
    assert model.align("red dog", "rouge chien", to="fr") == [(0, 0), (1, 1)]
    inspector = Inspector.of(trained["bundle"].to("fr"))
    trace = inspector.trace("red dog")
    assert trace.source.pieces[0] == ">>fr<<"
    assert trace.source.words[0] == -1
    assert model.trace("red dog", to="fr").target.text == trace.target.text == "rouge chien"


def test_every_method_of_a_model_takes_the_language(model: Model) -> None:
    right, wrong = (sum(model.score("red dog", "rouge chien", to=language)) for language in ("fr", "de"))
    assert right > wrong + 3
    assert model.alternatives("red dog", num=1, to="fr")[0].word == "rouge"
    assert model.evaluate(TEXTS, [translate(text, "de") for text in TEXTS], ["chrf"], to="de")["chrf"].value > 70
    assert model.translate("red dog", to="fr", prefix="rouge") == "rouge chien"
    assert model.translate("red dog", to="de", glossary={"dog": "Welpe"}).count("Welpe") == 1
    assert model.translate("red dog {name}", to="de").count("{name}") == 1
    assert repr(model).count("en-de/fr") == 1


def test_commands_take_the_language(trained: dict[str, Any]) -> None:
    folder, text = trained["folder"], "".join(f"{line}\n" for line in TEXTS)
    done = run("translate", "run", "--to", "fr", "--alignment", folder=folder, text=text)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ||| ") for line in done.stdout.splitlines()]
    assert share_right([line[0] for line in lines], "fr", TEXTS) >= 0.8
    assert lines[0][1] == "0-0 1-1"
    refused = run("translate", "run", "red dog", folder=folder)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "de, fr" in refused.stderr
    files = ["--source", "test.en", "--reference", "test.fr", "--metrics", "chrf", "--json", "-"]
    done = run("evaluate", "run", "--to", "fr", *files, folder=folder)
    assert json.loads(done.stdout)["systems"][0]["scores"][0]["value"] > 80


def test_shards_are_translated_into_one_language(trained: dict[str, Any]) -> None:
    folder = trained["folder"]
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("red dog\n", encoding="utf-8")
    shards = ["--shards", "in/*.txt", "--out", "out", "--workers", "1"]
    done = run("translate", "run", "--to", "fr", *shards, folder=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "a.txt").read_text(encoding="utf-8") == "rouge chien\n"
    other = run("translate", "run", "--to", "de", *shards, folder=folder)
    assert other.returncode == 2
    assert "to fr there and de here" in other.stderr


def test_a_worker_of_the_service_translates_into_the_language_of_each_batch(trained: dict[str, Any]) -> None:
    worker = ModelWorker(LoadedModel.read("two", trained["run"]))
    assert worker.info.targets == ("de", "fr")
    assert worker.info.pairs == (("en", "de"), ("en", "fr"))
    for language, expected in (("de", "rot Hund"), ("fr", "rouge chien")):
        options = TranslationOptions("two", "", language, tokens=True, alignment=True, terms=(("dog", "chien"),))
        (answer,) = worker.translate(["red dog"], options._replace(terms=()))
        assert answer["hypotheses"][0]["text"] == expected
        assert answer["alignment"] == [(0, 0), (1, 1)]
        assert answer["tokens"][-1]["piece"] == "</s>"


def test_the_service_routes_by_language(trained: dict[str, Any]) -> None:
    async def ask() -> None:
        service = Service.create(ServiceConfig({"two": trained["run"], "demo": demo_folder()}), lambda *_, **__: None)
        await service.dispatcher.pool.start()
        transport = httpx.ASGITransport(create_app(service))
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as client:
                listed = (await client.get("/languages")).json()
                targets = {entry["code"]: entry["targets"] for entry in listed}
                assert targets == {"en": ["de", "fr"], "de": [], "fr": []}
                libre = {"q": "red dog", "source": "en", "target": "fr"}
                assert (await client.post("/translate", json=libre)).json()["translatedText"] == "rouge chien"
                assert (await client.post("/translate", json=libre | {"target": "it"})).status_code == 404
                for target, expected in (("de", "rot Hund"), ("fr", "rouge chien")):
                    body = {"texts": "red dog", "model": "two", "target": target}
                    answer = (await client.post("/v1/translate", json=body)).json()
                    assert answer["translations"][0]["text"] == expected
                unchosen = await client.post("/v1/translate", json={"texts": "red dog", "model": "two"})
                assert unchosen.status_code == 400
                assert "de, fr" in unchosen.json()["detail"]
                unknown = await client.post("/v1/translate", json={"texts": "a", "model": "two", "target": "it"})
                assert unknown.status_code == 404
                by_name = {"texts": "A dog.", "model": "demo"}  # one language needs no choice
                assert (await client.post("/v1/translate", json=by_name)).status_code == 200
        finally:
            await service.dispatcher.pool.close()

    asyncio.run(ask())


def test_a_killed_run_resumes_to_the_same_weights(trained: dict[str, Any], tmp_path: Path) -> None:
    few = ["training.stop.updates=12", "training.validate_every=12", "training.schedule.warmup=5"]
    weights = []
    for name, stop in (("whole", None), ("broken", 5)):
        prepare_run(load_recipe(trained["folder"] / "recipe.yaml", few), tmp_path / name, num_workers=1)
        if stop is not None:
            with pytest.raises(KeyboardInterrupt):
                train_model(tmp_path / name, Group(), partial(_interrupt, stop))
            prepare_run(load_recipe(trained["folder"] / "recipe.yaml", few), tmp_path / name, num_workers=1)
        bundle = train_model(tmp_path / name, Group(), lambda event: None)
        assert bundle is not None
        weights.append(bundle.weights())
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def _interrupt(update: int, event: dict[str, Any]) -> None:
    if event["event"] == "update" and event["update"] >= update:
        raise KeyboardInterrupt


def test_a_model_of_several_languages_can_be_a_parent(trained: dict[str, Any], tmp_path: Path) -> None:
    text = f"init: {{bundle: {trained['run']}}}\n" + RECIPE.split("model:")[0].replace(
        "  vocabulary: {size: 380}\n", ""
    )
    recipe = trained["folder"] / "child.yaml"
    recipe.write_text(text, encoding="utf-8")
    assert load_recipe(recipe).target_languages == ("de", "fr")
    recipe.write_text(text.replace("target_language: fr", "target_language: it"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"data\.train\.1\.target_language: .* no tag for the language it; .* de, fr"):
        load_recipe(recipe)
    recipe.write_text(text.replace("target_language: de\n", ""), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"data\.train\.0: .* several target languages \(de, fr\): add target_language"
    ):
        load_recipe(recipe)
    only = text.replace("target_language: de\n", "").replace("{name: german, source: train.en, target: train.de}", "")
    only = only.replace("    - \n", "").replace("    - {name: test-de, source: test.en, target: test.de}\n", "")
    recipe.write_text(only, encoding="utf-8")
    child = load_recipe(recipe)
    assert child.target_languages == ("fr",)
    assert child.data.train[0].target_language == "fr"  # the vocabulary has tags: the corpus needs its own


def test_a_bundle_whose_tags_are_not_its_languages_is_refused(trained: dict[str, Any], tmp_path: Path) -> None:
    bundle: Bundle = trained["bundle"]
    info: BundleInfo = bundle.info.model_copy(update={"target_languages": ("de", "it")})
    with pytest.raises(ValueError, match="other language tags"):
        write_bundle(tmp_path / "other", info, bundle.weights(), bundle.vocab, bundle.card)
