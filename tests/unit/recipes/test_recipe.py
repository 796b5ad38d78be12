import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.models import cost
from dragoman.models.config import RecurrentShape, TransformerShape, with_vocabulary
from dragoman.models.presets import preset
from dragoman.recipes.catalog import LIBRARY
from dragoman.recipes.recipe import CorpusTerms, DataSection, Recipe, dump_recipe, load_recipe, override_recipe
from dragoman.training.config import LossConfig, OptimizerConfig, SnapshotConfig, TrainingConfig

ROOT = Path(__file__).parents[3]
RECIPES = sorted(LIBRARY.glob("*.yaml"))
PAPER = ["wmt14-en-de-base", "wmt14-en-de-big", "wmt14-en-fr-big"]

SHORT = """\
name: short
data:
  train:
    - {source: a.en, target: a.de}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str, *overrides: str) -> Recipe:
    return load_recipe(written(folder, text), overrides)


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> dict[str, Recipe]:
    monkeypatch.setenv("DRAGOMAN_DATA", "/data")
    return {path.stem: load_recipe(path) for path in RECIPES}


def test_a_short_recipe_is_the_paper_but_for_its_data(tmp_path: Path) -> None:
    recipe = load(tmp_path, SHORT)
    source, target = str(tmp_path / "a.en"), str(tmp_path / "a.de")
    assert recipe == Recipe(name="short", data=DataSection(train=(CorpusConfig(source=source, target=target),)))
    assert recipe.model == TransformerShape()
    assert recipe.validation.search.beam_size == 4
    assert recipe.validation.search.penalty.divisor(7) == 2**0.6


def test_a_preset_is_the_model_and_other_keys_change_it(tmp_path: Path) -> None:
    recipe = load(tmp_path, SHORT + "model: {preset: tiny, attention_bias: true, dropout: 0.2}\n")
    tiny = preset("tiny", 6000).model_dump() | {"attention_bias": True, "dropout": 0.2}
    assert with_vocabulary(recipe.model, 6000, 6000).model_dump() == tiny


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_a_preset_of_label_smoothing_trains_with_it(tmp_path: Path, epsilon: float) -> None:
    model = f"model: {{preset: paper-D-smoothing{epsilon:g}}}\n"
    assert load(tmp_path, SHORT + model).training == TrainingConfig(loss=LossConfig(label_smoothing=epsilon))
    described = load(tmp_path, SHORT + model + "training: {loss: {r_drop: 1.0}, log_every: 7}\n").training
    assert described == TrainingConfig(loss=LossConfig(label_smoothing=epsilon, r_drop=1.0), log_every=7)


def test_an_explicit_key_wins_over_the_preset(tmp_path: Path) -> None:
    model = "model: {preset: paper-D-smoothing0.2}\n"
    written = load(tmp_path, SHORT + model + "training: {loss: {label_smoothing: 0.05}}\n")
    overridden = load(tmp_path, SHORT + model, "training.loss.label_smoothing=0.05")
    assert (written.training.loss.label_smoothing, overridden.training.loss.label_smoothing) == (0.05, 0.05)


def test_a_preset_set_in_a_written_recipe_brings_its_training(tmp_path: Path) -> None:
    recipe = override_recipe(load(tmp_path, SHORT), ["model.preset=paper-D-smoothing0"])
    assert recipe.training.loss.label_smoothing == 0.0


def test_a_preset_of_another_family_brings_its_family(tmp_path: Path) -> None:
    recipe = load(tmp_path, SHORT, "model.preset=luong-general", "model.d_model=200")
    assert isinstance(recipe.model, RecurrentShape)
    assert (recipe.model.context, recipe.model.d_model, recipe.model.cell) == ("luong", 200, "lstm")


def test_corpora_without_names_get_the_name_of_their_use(tmp_path: Path) -> None:
    corpus = "{{source: {0}.en, target: {0}.de}}"
    text = "name: x\ndata:\n  train: [{}, {}]\n  dev: {}\n  test: [{}, {}]\n"
    data = load(tmp_path, text.format(*(corpus.format(letter) for letter in "abcde"))).data
    assert data.dev is not None
    names = [each.name for each in (*data.train, data.dev, *data.test)]
    assert names == ["train", "train-2", "dev", "test", "test-2"]


def test_paths_are_beside_the_recipe_or_where_a_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_DATA", "/somewhere")
    monkeypatch.chdir(tmp_path.parent)
    text = "name: x\ndata:\n  train:\n    - source: ${MY_DATA}/a.${MY_DATA}.en\n      target: sub/a.de\n"
    relative = Path(tmp_path.name) / written(tmp_path, text).name
    corpus = load_recipe(relative).data.train[0]
    assert (corpus.source, corpus.target) == ("/somewhere/a./somewhere.en", str(tmp_path / "sub/a.de"))


def test_paths_given_on_the_command_line_are_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    recipe = load(tmp_path, SHORT, "data.train.0.source=b.en", "data.dev={source: c.en, target: c.de}")
    assert recipe.data.train[0].source == str(tmp_path.parent / "b.en")
    assert recipe.data.train[0].target == str(tmp_path / "a.de")
    assert recipe.data.dev is not None
    assert recipe.data.dev.target == str(tmp_path.parent / "c.de")


def test_addresses_and_standard_input_are_left_alone(tmp_path: Path) -> None:
    text = "name: x\ndata:\n  train:\n    - {source: 's3://bucket/a.tsv'}\n    - {source: '-', format: tsv}\n"
    assert [corpus.source for corpus in load(tmp_path, text).data.train] == ["s3://bucket/a.tsv", "-"]


def test_norwegian_is_a_language_and_times_have_units(tmp_path: Path) -> None:
    text = (
        SHORT
        + "source_language: no\ntraining:\n  stop: {time: 1.5h}\n  snapshots: {every: 10m}\n  validate_every: 200\n"
    )
    recipe = load(tmp_path, text)
    training = recipe.training
    assert recipe.source_language == "no"
    assert (training.stop.time, training.snapshots.every, training.validate_every) == (5400.0, 600.0, 200)


def test_a_dumped_recipe_is_read_back_equal(tmp_path: Path) -> None:
    text = """\
name: "3e-4"
description: "two\\nlines: ü \\u2028 # ${HOME_OF_NOTHING} and a \\ttab \\U0001F600"
source_language: no
data:
  train:
    - {name: "on", source: a.tsv, source_field: 2, target_field: "3", weight: 0.1}
    - {source: b.en, target: b.de}
  test: [{source: c.en, target: c.de}]
  clean: {policies: {length-ratio: keep, crlf: drop}, max_characters: 300}
  vocabulary: {kind: unigram, size: 560}
model: {preset: luong-local-p}
training:
  schedule: {factors: [warmup, cosine], rate: 1e-3, floor: 0.01}
  stop: {time: 90s, patience: 3}
  validate_every: 5m
  ema: 0.999
card: {licence: CC0-1.0, corpora: {"on": {licence: "a: b"}, train-2: {attribution: null}}}
seed: 0
"""
    recipe = load(tmp_path, text)
    again = tmp_path / "elsewhere"
    again.mkdir()
    assert load(again, dump_recipe(recipe)) == recipe
    assert recipe.card.corpora == {"on": CorpusTerms(licence="a: b"), "train-2": CorpusTerms()}


def test_a_dumped_recipe_finds_its_files_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    corpora = [CorpusConfig(name=name, source=f"{name}.en", target=f"{name}.de") for name in ("train", "dev")]
    test = CorpusConfig(name="test", source="s3://bucket/test.tsv")
    data = DataSection(train=(corpora[0],), dev=corpora[1], test=(test,))
    (tmp_path / "run").mkdir()
    again = load(tmp_path / "run", dump_recipe(Recipe(name="x", data=data))).data
    assert again.dev is not None
    assert (again.train[0].source, again.dev.target) == (str(tmp_path / "train.en"), str(tmp_path / "dev.de"))
    assert again.test == (test,)


def test_a_dumped_recipe_says_what_each_key_means(tmp_path: Path) -> None:
    lines = dump_recipe(load(tmp_path, SHORT)).splitlines()
    at = lines.index("    label_smoothing: 0.1")
    assert lines[at - 1] == "    # epsilon of label smoothing (section 5.4)"
    assert all(len(line) <= 100 for line in lines if line.lstrip().startswith("#"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads_is_named_by_its_file_and_dumps(
    path: Path, shipped: dict[str, Recipe], tmp_path: Path
) -> None:
    recipe = shipped[path.stem]
    assert recipe.name == path.stem
    assert recipe.source_language in ("en", "de")
    assert recipe.data.dev is not None
    assert recipe.data.test
    assert load(tmp_path, dump_recipe(recipe)) == recipe


def test_the_promised_recipes_are_there() -> None:
    earlier = {"multi30k-en-de-bahdanau", "multi30k-en-de-luong-general", "multi30k-en-de-convs2s"}
    assert {path.stem for path in RECIPES} == {
        "multi30k-en-de",
        *earlier,
        "en-de-general",
        "de-en-general",
        "dates",
        "g2p",
        "parsing",
        "scan",
        "scan-length",
        *PAPER,
    }


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_recipes_have_the_papers_numbers(name: str, shipped: dict[str, Recipe]) -> None:
    recipe = shipped[name]
    training, search, vocabulary = recipe.training, recipe.validation.search, recipe.data.vocabulary
    assert vocabulary is not None
    assert training.optimizer == OptimizerConfig(beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=0.0, clip=None)
    assert (training.schedule.factors, training.schedule.rate, training.schedule.warmup) == (("paper",), 1.0, 4000)
    assert training.batch.tokens * training.batches_per_update == 25_000 + 25_000
    assert training.loss.label_smoothing == 0.1
    assert (training.loss.r_drop, training.ema, training.subword_sampling) == (0.0, None, 0.0)
    big = name.endswith("big")
    assert training.stop.updates == (300_000 if big else 100_000)
    assert (training.stop.time, training.stop.patience) == (None, None)
    assert training.snapshots == SnapshotConfig(every="10m", average=20 if big else 5)
    assert (search.beam_size, search.penalty.formula, search.penalty.alpha) == (4, "gnmt", 0.6)
    assert search.max_length.tokens(17) == 17 + 50
    size = 32_000 if name == "wmt14-en-fr-big" else 37_000
    assert (vocabulary.size, vocabulary.joint, vocabulary.kind) == (size, True, "bpe")
    dropout = {"wmt14-en-de-base": 0.1, "wmt14-en-de-big": 0.3, "wmt14-en-fr-big": 0.1}[name]
    model = preset("paper-big" if big else "paper-base", size).model_copy(update={"dropout": dropout})
    assert with_vocabulary(recipe.model, size, size) == model
    assert recipe.data.dev is not None
    assert (recipe.data.dev.name, [test.name for test in recipe.data.test]) == ("newstest2013", ["newstest2014"])
    assert {Path(str(corpus.source)).parts[:2] for corpus in recipe.data.train} == {("/", "data")}


def test_the_general_model_is_small_enough_to_come_along(shipped: dict[str, Recipe]) -> None:
    recipe = shipped["en-de-general"]
    assert recipe.data.vocabulary is not None
    size = recipe.data.vocabulary.size
    assert cost.parameters(with_vocabulary(recipe.model, size, size)) <= 9_000_000
    assert set(recipe.card.corpora) == {corpus.name for corpus in recipe.data.train}


def test_the_schema_and_the_reference_are_up_to_date() -> None:
    script = ROOT / "scripts" / "recipe_reference.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("up to date\n", 0), done.stderr


def test_the_schema_knows_presets_and_refuses_unknown_keys() -> None:
    schema = json.loads((LIBRARY / "schema.json").read_text(encoding="utf-8"))
    transformer, recurrent = schema["$defs"]["TransformerShape"], schema["$defs"]["RecurrentShape"]
    assert "tiny" in transformer["properties"]["preset"]["enum"]
    assert "bahdanau" in recurrent["properties"]["preset"]["enum"]
    assert "family" not in transformer.get("required", [])
    sections = [section for section in (schema, *schema["$defs"].values()) if "properties" in section]
    assert len(sections) > 15
    assert all(section["additionalProperties"] is False for section in sections)


def test_a_recipe_is_read_without_torch() -> None:
    code = "import sys; import dragoman.recipes.recipe; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


def test_the_recipe_of_the_guide_loads(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "recipes.md").read_text(encoding="utf-8")
    recipe = load(tmp_path, guide.split("```yaml\n")[1].partition("```")[0])
    assert (recipe.name, recipe.training.stop.time) == ("my-model", 5400.0)


LANGUAGES = """\
name: languages
target_language: de
data:
  train:
    - {source: a.en, target: a.de}
    - {name: french, source: a.en, target: a.fr, target_language: fr}
  dev:
    - {source: d.en, target: d.de}
    - {source: d.en, target: d.fr, target_language: fr}
  test:
    - {source: t.en, target: t.fr, target_language: fr}
"""


def languages_of(recipe: Recipe) -> list[str | None]:
    return [corpus.target_language for corpus in (*recipe.data.train, *recipe.data.held_out)]


def test_of_several_target_languages_every_corpus_has_its_own(tmp_path: Path) -> None:
    recipe = load(tmp_path, LANGUAGES)
    assert recipe.target_languages == ("de", "fr")
    assert languages_of(recipe) == ["de", "fr", "de", "fr", "fr"]
    assert [dev.name for dev in recipe.data.dev_sets] == ["dev", "dev-2"]
    again = load(tmp_path, dump_recipe(recipe))
    assert again == recipe


def test_one_target_language_is_no_matter_of_the_corpora(tmp_path: Path) -> None:
    one = load(tmp_path, LANGUAGES.replace("language: fr", "language: de"))
    assert languages_of(one) == [None] * 5
    unnamed = LANGUAGES.replace("target_language: de\n", "").replace(", target_language: fr", "")
    named = unnamed.replace("target: a.de", "target: a.de, target_language: de")
    named = named.replace("target: a.fr", "target: a.fr, target_language: de")
    assert load(tmp_path, named) == one
    assert load(tmp_path, unnamed).target_language is None


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ("target_language: de\n", "", r"r\.yaml:4: data\.train\.0: .*\n.*:7: data\.dev\.0: "),
        (
            "d.fr, target_language: fr",
            "d.fr, target_language: it",
            r"r\.yaml:9: data\.dev\.1\.target_language: .*\bit\b",
        ),
        ("t.fr, target_language: fr", "t.fr, target_language: f r", r"r\.yaml:11: data\.test\.0\.target_language: "),
        ("{source: d.en, target: d.de}", "{sauce: d.en, target: d.de}", r"r\.yaml:8: data\.dev\.0\.sauce: .*source"),
    ],
)
def test_a_corpus_without_a_language_or_with_an_unknown_one_is_refused(
    tmp_path: Path, before: str, after: str, key: str
) -> None:
    with pytest.raises(ValueError, match=key):
        load(tmp_path, LANGUAGES.replace(before, after))


def test_files_of_both_directions_are_allowed_if_the_languages_differ(tmp_path: Path) -> None:
    both = LANGUAGES.replace("{name: french, source: a.en, target: a.fr, target_language: fr}", "{name: back, SIDES}")
    both = both.partition("  dev:")[0].replace("SIDES", "source: a.de, target: a.en, target_language: en")
    assert load(tmp_path, both).target_languages == ("de", "en")
    with pytest.raises(ValueError, match="swap source and target"):
        load(tmp_path, both.replace(", target_language: en", ""))
