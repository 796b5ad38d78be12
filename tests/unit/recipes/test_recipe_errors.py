"""Errors that people make in recipes: each is reported with its place, its key and the nearest key."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from dragoman.data.corpus import CorpusConfig
from dragoman.models.config import TransformerShape
from dragoman.recipes.recipe import DataSection, Recipe, load_recipe
from dragoman.training.config import LossConfig, TrainingConfig

GOOD = """\
name: x
data:
  train:
    - {source: a.en, target: a.de}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def check(expected: list[str], text: str, *overrides: str) -> None:
    """Assert that each error has this beginning and, after "...", this end."""
    lines = errors_of(text, *overrides)
    assert len(lines) == len(expected), lines
    for line, (begin, _, end) in zip(lines, (each.partition("...") for each in expected), strict=True):
        assert line.startswith(begin), line
        assert line.endswith(end), line


def errors_of(text: str, *overrides: str) -> list[str]:
    path = Path("r.yaml")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load_recipe(path, overrides)
    assert type(caught.value) is ValueError
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        # Keys that there are not.
        (
            "training:\n  schedule: {warm_up: 100}",
            "r.yaml:6: training.schedule.warm_up: ...did you mean warmup?",
        ),
        ("training:\n  r_drop: 5", "r.yaml:6: training.r_drop: ...belongs to training.loss"),
        ("d_model: 64", "r.yaml:5: d_model: ...belongs to model"),
        (
            "model: {cell: lstm}",
            "r.yaml:5: model.cell: ...belongs to model of family recurrent",
        ),
        ("model: {d_x: 3}", "r.yaml:5: model.d_x: ...did you mean d_k or d_v?"),
        ("model: {presets: tiny}", "r.yaml:5: model.presets: ...did you mean preset?"),
        (
            "trainig: {}",
            "r.yaml:5: trainig: ...did you mean training?",
        ),
        (
            "training: {labelsmoothing: 0.1}",
            "r.yaml:5: training.labelsmoothing: ...did you mean training.loss.label_smoothing?",
        ),
        (
            "card: {xyz: 1}",
            "r.yaml:5: card.xyz: ...",
        ),
        (
            "card: {corpora: {train: {license: MIT}}}",
            "r.yaml:5: card.corpora.train.license: ...did you mean licence?",
        ),
        # Values of the wrong kind.
        (
            'model:\n  num_heads: "abc"',
            "r.yaml:6: model.num_heads: ...",
        ),
        (
            'model:\n  num_heads: "8"',
            "r.yaml:6: model.num_heads: ...",
        ),
        ("model: {num_heads: 0}", "r.yaml:5: model.num_heads: ..."),
        ("model: {num_heads: 2.5}", "r.yaml:5: model.num_heads: ..."),
        ("model: {dropout: 1}", "r.yaml:5: model.dropout: ..."),
        ("model: {attention_bias: yes}", "r.yaml:5: model.attention_bias: ..."),
        ("model: {norm: layer}", "r.yaml:5: model.norm: ..."),
        (
            "model: {family: lstmn}",
            "r.yaml:5: model.family: ...",
        ),
        ("training:", "r.yaml:5: training: ..."),
        ("model: tiny", "r.yaml:5: model: ..."),
        ("seed: true", "r.yaml:5: seed: ..."),
        ("description: 2016", "r.yaml:5: description: ..."),
        (
            "training: {stop: {time: 45}}",
            "r.yaml:5: training.stop.time: ...",
        ),
        (
            "training: {validate_every: soon}",
            "r.yaml:5: training.validate_every: ...",
        ),
        (
            "training: {schedule: {factors: [paper, up]}}",
            "r.yaml:5: training.schedule.factors.1: ...",
        ),
        (
            "training: {optimizer: {clip: .nan}}",
            "r.yaml:5: training.optimizer.clip: ...",
        ),
        # Presets.
        ("model: {preset: tyni}", "r.yaml:5: model.preset: ...did you mean tiny?"),
        ("model: {preset: [tiny]}", "r.yaml:5: model.preset: ..."),
        (
            "model: {preset: tiny, family: recurrent}",
            "r.yaml:5: model.family: ...",
        ),
        # What a section refuses by itself.
        (
            "model:\n  d_model: 100\n  num_heads: 8",
            "r.yaml:5: model: ...",
        ),
        (
            "training:\n  schedule:\n    factors: [paper, cosine]",
            "r.yaml:6: training.schedule: ...",
        ),
        # What does not go together across sections.
        (
            "training: {loss: {r_drop: 5}}\nmodel: {dropout: 0}",
            "r.yaml:5: training.loss.r_drop: ...",
        ),
        (
            "training: {recompute: true, guided_alignment: {weight: 0.1}}",
            "r.yaml:5: training.recompute: ...set recompute to false, or guided_alignment.weight to 0",
        ),
        (
            "training: {compile: true}\nmodel: {family: recurrent}",
            "r.yaml:5: training.compile: ...set compile to false",
        ),
        (
            "training: {guided_alignment: {weight: 0.1, layer: 6}}",
            "r.yaml:5: training.guided_alignment.layer: ...",
        ),
        (
            "training: {guided_alignment: {weight: 0.1, head: 8}}",
            "r.yaml:5: training.guided_alignment.head: ...",
        ),
        (
            "training: {guided_alignment: {weight: 0.1}}\nmodel: {family: recurrent, context: first}",
            "r.yaml:5: training.guided_alignment.weight: ...",
        ),
        (
            "training: {schedule: {rate: 5e-4}}",
            "r.yaml:5: training.schedule.rate: ...",
        ),
        (
            "training:\n  schedule: {factors: [warmup, cosine]}",
            "r.yaml:6: training.schedule.rate: ...",
        ),
        (
            "training: {schedule: {factors: [warmup, linear], rate: 1e-3}, stop: {updates: 4000}}",
            "r.yaml:5: training.schedule.warmup: ...",
        ),
        (
            "training: {schedule: {floor: 0.1}}",
            "r.yaml:5: training.schedule.floor: ...",
        ),
        (
            "training: {schedule: {warmup: 20000}, stop: {updates: 8000}}",
            "r.yaml:5: training.schedule.warmup: ...",
        ),
        (
            "training: {schedule: {factors: [warmup, inverse_sqrt], rate: 1e-3, warmup: 801}, stop: {updates: 800}}",
            "r.yaml:5: training.schedule.warmup: ...",
        ),
        (
            "training: {snapshots: {every: 20000}, stop: {updates: 10000}}",
            "r.yaml:5: training.snapshots.every: ...",
        ),
        (
            "training: {snapshots: {every: 2h}, stop: {time: 90m}}",
            "r.yaml:5: training.snapshots.every: ...",
        ),
        (
            "model: {max_positions: 200}",
            "r.yaml:5: model.max_positions: ...",
        ),
        (
            "validation: {search: {min_length: 9, max_length: {ratio: 0, extra: 8}}}",
            "r.yaml:5: validation.search.min_length: ...",
        ),
        (
            "validation: {samples: 5, max_pairs: 4}",
            "r.yaml:5: validation.samples: ...",
        ),
        (
            "training: {stop: {metric: per}}",
            "r.yaml:5: training.stop.metric: ...add it to validation.metrics",
        ),
        (
            "card: {corpora: {trian: {}}}",
            "r.yaml:5: card.corpora.trian: ...did you mean train?",
        ),
        (
            "card: {corpora: {zzz: {}}}",
            "r.yaml:5: card.corpora.zzz: ...",
        ),
    ],
)
def test_an_error_is_one_line_with_its_place_its_key_and_the_nearest_key(more: str, line: str) -> None:
    check([line], GOOD + more + "\n")


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            "  vocabulary: {size: 200}",
            "r.yaml:5: data.vocabulary.size: ...",
        ),
        (
            "  vocabulary: {joint: false}",
            "r.yaml: model.tie: ...",
        ),
        (
            "  clean: {policies: {too-lng: keep}}",
            "r.yaml:5: data.clean.policies.too-lng: ...did you mean too-long?",
        ),
        (
            "  clean: {policies: {length-ratio: ignore}}",
            "r.yaml:5: data.clean.policies.length-ratio: ...",
        ),
        (
            "  clean: {policies: {too-long: keep}}",
            "r.yaml:5: data.clean: ...",
        ),
        (
            "  dev: {source: b.en}",
            "r.yaml:5: data.dev: ...",
        ),
        (
            "  dev: {source: a.en, target: b.de}",
            "r.yaml:5: data.dev.source: ...",
        ),
        (
            "  dev: {source: b.en, target: b.de, weight: 2}",
            "r.yaml:5: data.dev.weight: ...",
        ),
        (
            "  dev: {source: '-', format: tsv}",
            "r.yaml:5: data.dev.source: ...",
        ),
        (
            "  test: [{name: train, source: b.en, target: b.de}]",
            "r.yaml:2: data: ...",
        ),
        (
            "  dev: {target: b.de}",
            "r.yaml:5: data.dev.source: ...",
        ),
        (
            "  weight: 2",
            "r.yaml:5: data.weight: ...belongs to data.train.0, data.dev, data.test.0 or training.guided_alignment",
        ),
    ],
)
def test_an_error_in_data_is_one_line_with_its_place_and_its_key(more: str, line: str) -> None:
    check([line], GOOD + more + "\n")


def test_an_unset_variable_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    text = "name: x\ndata:\n  train:\n    - source: ${NOWHERE}/a.en\n      target: ${NOWHERE}/a.de\n"
    (line,) = errors_of(text)  # once, however many paths it stands in
    assert line.startswith("r.yaml:4: data.train.0.source: ")
    assert "export NOWHERE=" in line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "r.yaml: ..."),
        ("- a\n", "r.yaml: ..."),
        ("data: {train: [{source: a, target: b}]}", "r.yaml: name: ..."),
        ("name: x\ndata: {}\n", "r.yaml:2: data.train: ..."),
        ("name: x\ndata: {train: []}\n", "r.yaml:2: data.train: ..."),
        (
            "name: x\ndata:\n  train: {source: a, target: b}\n",
            "r.yaml:3: data.train: ...",
        ),
        (
            "name: x\ndata:\n  trian: [{source: a, target: b}]\n",
            "r.yaml:3: data.trian: ...did you mean train?",
        ),
        (
            "name: ''\ndata: {train: [{source: a, target: b}]}",
            "r.yaml:1: name: ...",
        ),
    ],
)
def test_a_recipe_that_lacks_what_it_needs_says_so(text: str, line: str) -> None:
    check([line], text)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "training.loss.r_drop=abc",
            "--set training.loss.r_drop=abc: ...",
        ),
        ("training.lose.r_drop=1", "--set training.lose.r_drop=1: training.lose: ...did you mean loss?"),
        (
            "training.loss={r_drop: abc}",
            "--set training.loss={r_drop: abc}: training.loss.r_drop: ...",
        ),
        ("training.loss.rdrop=1", "--set training.loss.rdrop=1: ...did you mean r_drop?"),
        ("model.preset=tyni", "--set model.preset=tyni: ...did you mean tiny?"),
        (
            "data.vocabulary.size=9",
            "--set data.vocabulary.size=9: ...",
        ),
    ],
)
def test_an_error_in_an_override_is_placed_there(override: str, line: str) -> None:
    check([line], GOOD, override)


def test_all_errors_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = GOOD + "model:\n  norm: layer\n  d_modl: 3\ntraining:\n  ema: 2\nseed: -1\n"
    expected = [
        "r.yaml:6: model.norm: ...",
        "r.yaml:7: model.d_modl: ...did you mean d_model?",
        "r.yaml:9: training.ema: ...",
        "r.yaml:10: seed: ...",
        "--set validation.samples=few: ...",
    ]
    check(expected, text, "validation.samples=few")


def test_all_errors_in_overrides_are_reported_at_once() -> None:
    wrong = ("data.train.5.weight=2", "training.schedul.rate=1", "seed")
    expected = [
        "--set data.train.5.weight=2: ...",
        "--set seed: ...",
        "--set training.schedul.rate=1: training.schedul: ...did you mean schedule?",
    ]
    check(expected, GOOD, *wrong)
    assert errors_of(GOOD, "data.train.5.weight=2", "seed=3") == errors_of(GOOD, "data.train.5.weight=2")


@pytest.mark.parametrize("factors", ["[warmup, inverse_sqrt]", "[inverse_sqrt]"])
def test_a_warm_up_may_last_to_the_end_and_without_its_factor_longer(factors: str) -> None:
    last = 30 if "warmup" in factors else 12
    more = f"training: {{schedule: {{factors: {factors}, rate: 1e-3, warmup: 30}}, stop: {{updates: {last}}}}}\n"
    Path("r.yaml").write_text(GOOD + more, encoding="utf-8")
    assert load_recipe(Path("r.yaml")).training.stop.updates == last


def test_all_conflicts_are_reported_at_once() -> None:
    text = GOOD + "training:\n  loss: {r_drop: 5}\n  schedule: {rate: 0.01}\nmodel: {dropout: 0}\n"
    assert [line.split(": ")[1] for line in errors_of(text)] == ["training.loss.r_drop", "training.schedule.rate"]


def test_a_recipe_made_in_python_is_held_to_the_same_rules() -> None:
    data = DataSection(train=(CorpusConfig(source="a.en", target="a.de"),))
    training = TrainingConfig(loss=LossConfig(r_drop=5.0))
    with pytest.raises(ValidationError, match=r"training\.loss\.r_drop: "):
        Recipe(name="x", data=data, model=TransformerShape(dropout=0.0), training=training)


def test_the_guide_shows_the_real_messages() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "recipes.md").read_text(encoding="utf-8")
    recipe, shown = (guide.split(f"```{kind}\n")[1].partition("```")[0] for kind in ("yaml", "text"))
    wrong = recipe.replace("dropout: 0.2", "droput: 0.2").replace("warmup: 2000", "warmup: two thousand")
    expected = shown.removeprefix("error: ").replace("my-model.yaml", "r.yaml").splitlines()
    assert errors_of(f"{wrong}  r_drop: 5\n") == expected
