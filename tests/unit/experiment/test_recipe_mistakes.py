"""What people get wrong in recipes, and what they are told, word by word."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from dragoman.data.corpus import CorpusConfig
from dragoman.experiment.recipe import DataSection, Recipe, load_recipe
from dragoman.models.config import TransformerShape
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


def told(text: str, *overrides: str) -> list[str]:
    path = Path("r.yaml")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        load_recipe(path, overrides)
    assert type(refused.value) is ValueError
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        # Keys that there are not.
        (
            "training:\n  schedule: {warm_up: 100}",
            "r.yaml:6: training.schedule.warm_up: unknown key; did you mean warmup?",
        ),
        ("training:\n  r_drop: 5", "r.yaml:6: training.r_drop: unknown key; r_drop belongs to training.loss"),
        ("d_model: 64", "r.yaml:5: d_model: unknown key; d_model belongs to model"),
        (
            "model: {cell: lstm}",
            "r.yaml:5: model.cell: unknown key; cell belongs to model of family recurrent",
        ),
        ("model: {d_x: 3}", "r.yaml:5: model.d_x: unknown key; did you mean d_k or d_v?"),
        ("model: {presets: tiny}", "r.yaml:5: model.presets: unknown key; did you mean preset?"),
        (
            "trainig: {}",
            "r.yaml:5: trainig: unknown key; did you mean training?",
        ),
        (
            "training: {labelsmoothing: 0.1}",
            "r.yaml:5: training.labelsmoothing: unknown key; did you mean training.loss.label_smoothing?",
        ),
        (
            "card: {xyz: 1}",
            "r.yaml:5: card.xyz: unknown key; here may stand licence or corpora",
        ),
        (
            "card: {corpora: {train: {license: MIT}}}",
            "r.yaml:5: card.corpora.train.license: unknown key; did you mean licence?",
        ),
        # Values of the wrong kind.
        (
            'model:\n  num_heads: "abc"',
            'r.yaml:6: model.num_heads: expected a whole number of 1 or more, found "abc"',
        ),
        (
            'model:\n  num_heads: "8"',
            'r.yaml:6: model.num_heads: expected a whole number of 1 or more, found "8"; leave out the quotes',
        ),
        ("model: {num_heads: 0}", "r.yaml:5: model.num_heads: expected a whole number of 1 or more, found 0"),
        ("model: {num_heads: 2.5}", "r.yaml:5: model.num_heads: expected a whole number of 1 or more, found 2.5"),
        ("model: {dropout: 1}", "r.yaml:5: model.dropout: expected a number of 0 or more and below 1, found 1"),
        ("model: {attention_bias: yes}", 'r.yaml:5: model.attention_bias: expected true or false, found "yes"'),
        ("model: {norm: layer}", 'r.yaml:5: model.norm: expected post or pre, found "layer"'),
        (
            "model: {family: convolutional}",
            'r.yaml:5: model.family: expected transformer or recurrent, found "convolutional"',
        ),
        ("training:", "r.yaml:5: training: expected a section of keys, found nothing"),
        ("model: tiny", 'r.yaml:5: model: expected a section of keys, found "tiny"'),
        ("seed: true", "r.yaml:5: seed: expected a whole number of 0 or more, found true"),
        ("description: 2016", "r.yaml:5: description: expected text, found 2016; put it in quotes"),
        (
            "training: {stop: {time: 45}}",
            "r.yaml:5: training.stop.time: 45 is not a time: write a number and a unit, such as 90s, 45m, 1.5h, "
            "1h30m or 3d",
        ),
        (
            "training: {validate_every: soon}",
            "r.yaml:5: training.validate_every: expected a whole number of 1 or more, or a time such as 45m or 1.5h, "
            'found "soon"',
        ),
        (
            "training: {schedule: {factors: [paper, up]}}",
            'r.yaml:5: training.schedule.factors.1: expected paper, warmup, inverse_sqrt, cosine or linear, found "up"',
        ),
        (
            "training: {optimizer: {clip: .nan}}",
            'r.yaml:5: training.optimizer.clip: expected a number above 0, or null, found ".nan"',
        ),
        # Presets.
        ("model: {preset: tyni}", "r.yaml:5: model.preset: no preset is named 'tyni'; did you mean tiny?"),
        ("model: {preset: [tiny]}", "r.yaml:5: model.preset: expected the name of a preset, such as tiny"),
        (
            "model: {preset: tiny, family: recurrent}",
            "r.yaml:5: model.family: the preset tiny is of family transformer: leave out family",
        ),
        # What a section refuses by itself.
        (
            "model:\n  d_model: 100\n  num_heads: 8",
            "r.yaml:5: model: d_model 100 is not a multiple of num_heads 8: give d_k and d_v",
        ),
        (
            "training:\n  schedule:\n    factors: [paper, cosine]",
            "r.yaml:6: training.schedule: the factor paper is a whole schedule: leave out cosine",
        ),
        # What does not go together across sections.
        (
            "training: {loss: {r_drop: 5}}\nmodel: {dropout: 0}",
            "r.yaml:5: training.loss.r_drop: R-Drop compares two readings under dropout, and the model has none: "
            "give model.dropout, or r_drop: 0",
        ),
        (
            "training: {schedule: {rate: 5e-4}}",
            "r.yaml:5: training.schedule.rate: the factor paper is a whole learning rate, below 0.001 by itself, and "
            "0.0005 times that is nearly nothing: use rate: 1, or factors: [warmup, inverse_sqrt] with this as the "
            "highest rate",
        ),
        (
            "training:\n  schedule: {factors: [warmup, cosine]}",
            "r.yaml:6: training.schedule.rate: 1 would be the highest learning rate, and far too high: try 0.001",
        ),
        (
            "training: {schedule: {factors: [warmup, linear], rate: 1e-3}, stop: {updates: 4000}}",
            "r.yaml:5: training.schedule.warmup: 4000 leaves no update for linear: training.stop.updates is 4000",
        ),
        (
            "training: {schedule: {floor: 0.1}}",
            "r.yaml:5: training.schedule.floor: only cosine and linear have a floor: add one to factors, or leave "
            "floor out",
        ),
        (
            "training: {schedule: {warmup: 20000}, stop: {updates: 8000}}",
            "r.yaml:5: training.schedule.warmup: 20000 updates of warm-up are more than there are, "
            "training.stop.updates being 8000: training would end while the rate still rises; make one of the two fit "
            "the other",
        ),
        (
            "training: {schedule: {factors: [warmup, inverse_sqrt], rate: 1e-3, warmup: 801}, stop: {updates: 800}}",
            "r.yaml:5: training.schedule.warmup: 801 updates of warm-up are more than there are, "
            "training.stop.updates being 800: training would end while the rate still rises; make one of the two fit "
            "the other",
        ),
        (
            "training: {snapshots: {every: 20000}, stop: {updates: 10000}}",
            "r.yaml:5: training.snapshots.every: there would be none before training stops: make them more often, or "
            "leave them out with null",
        ),
        (
            "training: {snapshots: {every: 2h}, stop: {time: 90m}}",
            "r.yaml:5: training.snapshots.every: there would be none before training stops: make them more often, or "
            "leave them out with null",
        ),
        (
            "model: {max_positions: 200}",
            "r.yaml:5: model.max_positions: 200 tokens are too few for the sentences that data.clean.max_characters "
            "lets in: 4000 characters are 250 tokens or more; change one of the two",
        ),
        (
            "validation: {search: {min_length: 9, max_length: {ratio: 0, extra: 8}}}",
            "r.yaml:5: validation.search.min_length: 9 is more than the 8 that max_length allows",
        ),
        (
            "validation: {samples: 5, max_pairs: 4}",
            "r.yaml:5: validation.samples: 5 cannot be shown where max_pairs is 4",
        ),
        (
            "card: {corpora: {trian: {}}}",
            "r.yaml:5: card.corpora.trian: no corpus of data.train has this name; did you mean train?",
        ),
        (
            "card: {corpora: {zzz: {}}}",
            "r.yaml:5: card.corpora.zzz: no corpus of data.train has this name; there are train",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(more: str, line: str) -> None:
    assert told(GOOD + more + "\n") == [line]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            "  vocabulary: {size: 200}",
            "r.yaml:5: data.vocabulary.size: specials and bytes alone take 260 ids: 200 leave none for letters",
        ),
        (
            "  vocabulary: {joint: false}",
            "r.yaml: model.tie: all needs one vocabulary for both sides, "
            "but data.vocabulary.joint is false: use target",
        ),
        (
            "  clean: {policies: {too-lng: keep}}",
            "r.yaml:5: data.clean.policies.too-lng: unknown key; did you mean too-long?",
        ),
        (
            "  clean: {policies: {length-ratio: ignore}}",
            'r.yaml:5: data.clean.policies.length-ratio: expected drop, fix or keep, found "ignore"',
        ),
        (
            "  clean: {policies: {too-long: keep}}",
            "r.yaml:5: data.clean: policies: too-long: keep is not possible; give drop",
        ),
        (
            "  dev: {source: b.en}",
            "r.yaml:5: data.dev: {here}/b.en: a text corpus needs a target; "
            "a file with both sides is named .tsv, .jsonl or .parquet",
        ),
        (
            "  dev: {source: a.en, target: b.de}",
            "r.yaml:5: data.dev.source: the same file as data.train.0: none of its pairs would be left to train on",
        ),
        (
            "  dev: {source: b.en, target: b.de, weight: 2}",
            "r.yaml:5: data.dev.weight: only a training corpus has a weight: leave it out",
        ),
        (
            "  dev: {source: '-', format: tsv}",
            "r.yaml:5: data.dev.source: standard input can be read only once: give a file",
        ),
        (
            "  test: [{name: train, source: b.en, target: b.de}]",
            "r.yaml:2: data: 2 corpora are named 'train': give each its own name",
        ),
        (
            "  dev: {target: b.de}",
            "r.yaml:5: data.dev.source: missing: a path, an address fsspec can open, "
            "or - for standard input; .gz and .zst are unpacked",
        ),
        ("  weight: 2", "r.yaml:5: data.weight: unknown key; weight belongs to data.train.0, data.dev or data.test.0"),
    ],
)
def test_a_mistake_about_data_is_told_in_one_line(more: str, line: str) -> None:
    assert told(GOOD + more + "\n") == [line.format(here=Path.cwd())]


def test_an_unset_variable_is_named_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    text = "name: x\ndata:\n  train:\n    - source: ${NOWHERE}/a.en\n      target: ${NOWHERE}/a.de\n"
    mend = "the environment variable NOWHERE is not set; say where it is, as in: export NOWHERE=/path/to/data"
    assert told(text) == [f"r.yaml:4: data.train.0.source: {mend}", f"r.yaml:5: data.train.0.target: {mend}"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "r.yaml: a recipe has keys such as name and data; here is none"),
        ("- a\n", "r.yaml: a recipe has keys such as name and data; here is none"),
        ("data: {train: [{source: a, target: b}]}", "r.yaml: name: missing: what the run and its model are called"),
        ("name: x\ndata: {}\n", "r.yaml:2: data.train: missing: the sentence pairs to learn from"),
        ("name: x\ndata: {train: []}\n", "r.yaml:2: data.train: expected a list of 1 or more, found a list"),
        (
            "name: x\ndata:\n  train: {source: a, target: b}\n",
            "r.yaml:3: data.train: expected a list of 1 or more, found a section",
        ),
        (
            "name: x\ndata:\n  trian: [{source: a, target: b}]\n",
            "r.yaml:3: data.trian: unknown key; did you mean train?",
        ),
        (
            "name: ''\ndata: {train: [{source: a, target: b}]}",
            'r.yaml:1: name: expected text that is not empty, found ""',
        ),
    ],
)
def test_a_recipe_that_lacks_what_it_needs_says_so(text: str, line: str) -> None:
    assert told(text) == [line]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "training.loss.r_drop=abc",
            '--set training.loss.r_drop=abc: expected a number of 0 or more, found "abc"',
        ),
        ("training.lose.r_drop=1", "--set training.lose.r_drop=1: training.lose: unknown key; did you mean loss?"),
        (
            "training.loss={r_drop: abc}",
            '--set training.loss={r_drop: abc}: training.loss.r_drop: expected a number of 0 or more, found "abc"',
        ),
        ("training.loss.rdrop=1", "--set training.loss.rdrop=1: unknown key; did you mean r_drop?"),
        ("model.preset=tyni", "--set model.preset=tyni: no preset is named 'tyni'; did you mean tiny?"),
        (
            "data.vocabulary.size=9",
            "--set data.vocabulary.size=9: specials and bytes alone take 260 ids: 9 leave none for letters",
        ),
    ],
)
def test_a_mistake_on_the_command_line_is_placed_there(override: str, line: str) -> None:
    assert told(GOOD, override) == [line]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    text = GOOD + "model:\n  norm: layer\n  d_modl: 3\ntraining:\n  ema: 2\nseed: -1\n"
    assert told(text, "validation.samples=few") == [
        'r.yaml:6: model.norm: expected post or pre, found "layer"',
        "r.yaml:7: model.d_modl: unknown key; did you mean d_model?",
        "r.yaml:9: training.ema: expected a number above 0 and below 1, or null, found 2",
        "r.yaml:10: seed: expected a whole number of 0 or more, found -1",
        '--set validation.samples=few: expected a whole number of 0 or more, found "few"',
    ]


def test_all_that_is_wrong_on_the_command_line_is_told_at_once() -> None:
    wrong = ("data.train.5.weight=2", "training.schedul.rate=1", "seed")
    assert told(GOOD, *wrong) == [
        "--set data.train.5.weight=2: data.train has 1 entries, counted from 0: there is no 5",
        "--set seed: write a key, = and a value, as in training.stop.updates=500",
        "--set training.schedul.rate=1: training.schedul: unknown key; did you mean schedule?",
    ]
    assert told(GOOD, "data.train.5.weight=2", "seed=3") == told(GOOD, "data.train.5.weight=2")


@pytest.mark.parametrize("factors", ["[warmup, inverse_sqrt]", "[inverse_sqrt]"])
def test_a_warm_up_may_last_to_the_end_and_without_its_factor_longer(factors: str) -> None:
    last = 30 if "warmup" in factors else 12
    more = f"training: {{schedule: {{factors: {factors}, rate: 1e-3, warmup: 30}}, stop: {{updates: {last}}}}}\n"
    Path("r.yaml").write_text(GOOD + more, encoding="utf-8")
    assert load_recipe(Path("r.yaml")).training.stop.updates == last


def test_all_conflicts_are_told_at_once() -> None:
    text = GOOD + "training:\n  loss: {r_drop: 5}\n  schedule: {rate: 0.01}\nmodel: {dropout: 0}\n"
    assert [line.split(": ")[1] for line in told(text)] == ["training.loss.r_drop", "training.schedule.rate"]


def test_a_recipe_made_in_python_is_held_to_the_same_rules() -> None:
    data = DataSection(train=(CorpusConfig(source="a.en", target="a.de"),))
    training = TrainingConfig(loss=LossConfig(r_drop=5.0))
    with pytest.raises(ValidationError, match=r"training\.loss\.r_drop: R-Drop compares two readings"):
        Recipe(name="x", data=data, model=TransformerShape(dropout=0.0), training=training)


def test_the_guide_shows_what_is_really_said() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "recipes.md").read_text(encoding="utf-8")
    recipe, shown = (guide.split(f"```{kind}\n")[1].partition("```")[0] for kind in ("yaml", "text"))
    wrong = recipe.replace("dropout: 0.2", "droput: 0.2").replace("warmup: 2000", "warmup: two thousand")
    expected = shown.removeprefix("error: ").replace("my-model.yaml", "r.yaml").splitlines()
    assert told(f"{wrong}  r_drop: 5\n") == expected
