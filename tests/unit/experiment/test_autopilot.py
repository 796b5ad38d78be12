import math
import re
from pathlib import Path

import pytest

from dragoman.data.augment import AugmentConfig
from dragoman.data.corpus import CorpusConfig
from dragoman.data.dates import dates
from dragoman.experiment.autopilot import (
    SIZES,
    Plan,
    PlanInputs,
    autopilot,
    check_changes,
    guess_languages,
    round_up_time,
)
from dragoman.experiment.census import Census
from dragoman.experiment.machine import Machine, tokens_per_update
from dragoman.models.config import TransformerShape
from dragoman.recipes.recipe import Recipe, dump_recipe, load_recipe, override_recipe

MACHINE = Machine(cores=2, memory=20_000_000_000, bfloat16=True)
CORPUS = CorpusConfig(source="a.en", target="a.de")
MINUTE, HOUR = 60.0, 3600.0


def census(pairs: int, tokens: float = 32.0, letters: int = 90) -> Census:
    words = frozenset(str(number) for number in range(60 * math.isqrt(pairs)))
    return Census(pairs, 130 * pairs, tokens, letters, words, frozenset(), is_whole=pairs <= 20_000)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> object:
    def made(pairs: int, time: float = HOUR, machine: Machine = MACHINE) -> Plan:
        monkeypatch.setattr("dragoman.experiment.autopilot.take_census", lambda *_: census(pairs))
        return autopilot([CORPUS], "run", time, machine)

    return made


SITUATIONS = [
    (pairs, time, cores)
    for pairs in (20, 300, 29_000, 150_000, 1_000_000, 40_000_000)
    for time in (10.0, 45 * MINUTE, 240 * HOUR)
    for cores in (1, 7, 64)
]


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "time", "cores"), SITUATIONS)
def test_every_situation_gives_a_recipe_that_can_be_written_read_and_run(
    plan: object, tmp_path: Path, pairs: int, time: float, cores: int
) -> None:
    made = plan(pairs, time, Machine(cores, None, bfloat16=cores > 1)).recipe  # type: ignore[operator]
    (tmp_path / "recipe.yaml").write_text(dump_recipe(made), encoding="utf-8")
    again = load_recipe(tmp_path / "recipe.yaml")
    assert again.model_copy(update={"data": made.data}) == made
    training = made.training
    assert training.schedule.warmup < training.stop.updates
    assert 0.48 * time <= training.stop.time <= time
    assert 2 <= made.data.split <= min(1000, pairs / 10)
    assert made.validation.max_pairs <= made.data.split
    assert training.batches_per_update == min(16, cores)
    assert training.precision == ("bfloat16" if cores > 1 else "float32")


def test_captions_for_45_minutes_get_the_small_model_in_small_updates(plan: object) -> None:
    recipe: Recipe = plan(29_000, 45 * MINUTE).recipe  # type: ignore[operator]
    training, shape = recipe.training, recipe.model
    assert isinstance(shape, TransformerShape)
    sizes = (shape.num_encoder_layers, shape.num_decoder_layers, shape.d_model, shape.d_ff, shape.num_heads)
    assert (sizes, shape.dropout, shape.attention_bias, shape.norm) == ((3, 3, 256, 1024, 4), 0.2, True, "pre")
    assert recipe.data.vocabulary is not None
    assert (recipe.data.vocabulary.size, recipe.data.split) == (5400, 1000)
    assert (training.batch.tokens, training.batches_per_update, training.subword_sampling) == (2048, 2, 0.0)
    assert (training.schedule.factors, training.schedule.rate) == (("warmup", "linear"), 1.2e-3)
    assert 500 <= training.schedule.warmup <= 800
    assert (training.stop.time, training.validate_every) == (44 * MINUTE, 4 * MINUTE)
    assert (training.stop.metric, training.stop.patience, training.ema) == ("bleu", None, 0.998)
    assert (recipe.source_language, recipe.target_language) == ("en", "de")


def test_a_warm_up_takes_no_more_than_a_tenth_of_what_the_time_is_enough_for(plan: object) -> None:
    recipe: Recipe = plan(29_000, 8 * MINUTE).recipe  # type: ignore[operator]
    given = PlanInputs(census(29_000), 8 * MINUTE, MACHINE)
    updates = given.possible_epochs * given.epoch / tokens_per_update(recipe)
    assert updates / 11 < recipe.training.schedule.warmup <= updates / 10
    assert recipe.training.schedule.rate == 1.2e-3
    short: Recipe = plan(29_000, MINUTE).recipe  # type: ignore[operator]
    assert short.training.schedule.warmup < 100
    assert short.training.schedule.rate < 3e-3  # the rate of the tiny model


@pytest.mark.parametrize(
    ("pairs", "time", "preset"),
    [
        (9_999, 100 * HOUR, "tiny"),
        (10_000, 3 * MINUTE, "tiny"),
        (10_000, 45 * MINUTE, "small"),
        (1_499_999, 1000 * HOUR, "small"),
        (3_000_000, 3 * HOUR, "small"),
        (3_000_000, 240 * HOUR, "paper-base"),
    ],
)
def test_a_larger_model_needs_both_data_and_time(pairs: int, time: float, preset: str) -> None:
    assert PlanInputs(census(pairs), time, MACHINE).size.preset == preset


def test_more_cores_are_more_time() -> None:
    few, many = (PlanInputs(census(200_000), 3 * MINUTE, Machine(cores, None, True)) for cores in (2, 16))
    assert (few.size.preset, many.size.preset) == ("tiny", "small")
    assert many.speed(SIZES[0]) == pytest.approx(8 * few.speed(SIZES[0]))


def test_speeds_are_about_those_measured() -> None:
    """9,000 to 10,000 tokens a second of one core with the tiny model, 4,500 with the small one."""
    given = PlanInputs(census(29_000), HOUR, Machine(1, None, bfloat16=True))
    assert 7_500 < given.speed(SIZES[0]) < 10_000
    assert 4_000 < given.speed(SIZES[1]) < 5_500


def test_a_slower_machine_gets_a_shorter_warm_up_and_the_smaller_model(plan: object) -> None:
    fast, slow = (Machine(2, None, bfloat16=True, speed=speed) for speed in (1.0, 0.1))
    warmups = [plan(29_000, 45 * MINUTE, machine).recipe.training.schedule.warmup for machine in (fast, slow)]  # type: ignore[operator]
    assert warmups[1] < warmups[0] / 6
    assert [PlanInputs(census(200_000), 20 * MINUTE, machine).size.preset for machine in (fast, slow)] == [
        "small",
        "tiny",
    ]


@pytest.mark.parametrize("speed", [1.0, 0.3, 0.1])
def test_a_thousand_updates_fit_or_a_warning_gives_a_better_time(plan: object, speed: float) -> None:
    made: Plan = plan(29_000, 8 * MINUTE, Machine(2, None, bfloat16=True, speed=speed))  # type: ignore[operator]
    inputs = PlanInputs(census(29_000), 8 * MINUTE, Machine(2, None, bfloat16=True, speed=speed))
    updates = inputs.speed(inputs.size) * inputs.training_time / tokens_per_update(made.recipe)
    assert (updates > 1000) != any("updates fit" in warning for warning in made.warnings)
    assert updates > 1000 or speed == 0.1


def test_the_number_of_processes_decides_the_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.experiment.autopilot.take_census", lambda *_: census(29_000))
    for processes in (1, 3, 4):
        plan = autopilot([CORPUS], "run", HOUR, MACHINE, processes=processes)
        assert plan.recipe.training.batches_per_update == processes


def test_on_accelerators_there_is_a_batch_for_each_of_them_however_many_cores(plan: object) -> None:
    gpus = Machine(cores=64, memory=None, bfloat16=True, speed=30.0, device="cuda", num_devices=4)
    made: Plan = plan(200_000, machine=gpus)  # type: ignore[operator]
    assert made.recipe.training.batches_per_update == 4
    shown = {choice.what: choice.reason for choice in made.choices}
    assert "device" in shown["update"]
    assert "core" not in shown["update"]
    assert shown["precision"] == "this cuda device is fast in bfloat16"


def test_the_first_validation_comes_after_a_tenth_of_the_time(plan: object) -> None:
    for time in (8 * MINUTE, 45 * MINUTE):
        training = plan(29_000, time).recipe.training  # type: ignore[operator]
        assert training.validate_every >= 0.09 * training.stop.time


def test_regularisation_follows_how_often_a_pair_is_read(plan: object) -> None:
    def chosen(pairs: int, time: float) -> tuple[float, float]:
        recipe = plan(pairs, time).recipe  # type: ignore[operator]
        return recipe.model.dropout, recipe.training.subword_sampling

    assert chosen(90_000, 8 * HOUR) == (0.3, 0.1)
    assert chosen(190_000, 24 * HOUR) == (0.2, 0.1)
    assert chosen(400_000, 24 * HOUR) == (0.2, 0.0)
    assert chosen(600_000, 240 * HOUR) == (0.1, 0.0)
    assert chosen(90_000, 40 * MINUTE) == (0.1, 0.0)
    assert chosen(90_000, 10 * MINUTE) == (0.0, 0.0)


def test_what_people_type_is_added_to_much_text_of_two_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(pairs: int, time: float, names: tuple[str, str]) -> AugmentConfig:
        monkeypatch.setattr("dragoman.experiment.autopilot.take_census", lambda *_: census(pairs))
        made = autopilot([CorpusConfig(source=names[0], target=names[1])], "run", time, MACHINE)
        is_shown = "augmentation" in {choice.what for choice in made.choices}
        assert is_shown == (made.recipe.training.augment != AugmentConfig())
        return made.recipe.training.augment

    nothing = AugmentConfig()
    much = chosen(150_000, 4 * HOUR, ("a.en", "a.de"))
    assert min(much.typing_errors, much.copied, much.phrases, much.title_case) > 0
    assert chosen(90_000, 4 * HOUR, ("a.en", "a.de")) == nothing  # too few pairs
    assert chosen(150_000, 5 * MINUTE, ("a.en", "a.de")) == nothing  # no time
    assert chosen(150_000, 4 * HOUR, ("a.txt", "b.txt")) == nothing  # languages not known
    assert chosen(150_000, 4 * HOUR, ("a.spelled", "a.phonemes")) == nothing


def test_where_the_data_is_used_up_before_the_time_it_stops_by_itself(plan: object) -> None:
    little = plan(300).recipe.training  # type: ignore[operator]
    assert (little.stop.patience, little.stop.metric) == (5, "loss")
    epoch = 32.0 * 270
    assert little.batch.tokens * little.batches_per_update == 1024
    assert little.stop.updates * 1024 * 0.93 / 1.15 / epoch == pytest.approx(150, rel=0.01)


def test_a_vocabulary_has_every_letter() -> None:
    letters = PlanInputs(census(300, letters=2_000), HOUR, MACHINE)
    assert letters.vocabulary(SIZES[0]) == letters.census.smallest > 2_000


def test_each_choice_has_its_reason(plan: object) -> None:
    shown = {choice.what: (choice.value, choice.reason) for choice in plan(29_000, 45 * MINUTE).choices}  # type: ignore[operator]
    assert shown["data"][0] == "29,000 pairs"
    assert shown["vocabulary"][0] == "5,400 subwords"
    assert shown["model"][0].startswith("small: 3+3 layers, d_model 256, 6.9 M parameters")
    assert shown["dropout"][0] == "0.2"
    assert shown["update"][0] == "4,096 tokens in 2 batches"
    assert shown["precision"][0] == "bfloat16"
    assert shown["end"][0] == "after 44 minutes of training"
    assert shown["validation"][0] == "every 4m"
    assert all(reason for _, reason in shown.values())


@pytest.mark.parametrize(
    ("pairs", "time", "warning"),
    [
        (300, HOUR, r"300 pairs .* 10,000 pairs, .* 100,000"),
        (5_000, HOUR, r"5,000 pairs .* 10,000 pairs"),
        (140_000, 10 * MINUTE, r"\d\.\d times; .*--time \d+m"),
        (1_500_000, 20 * HOUR, r"paper-base.* \d+d "),
    ],
)
def test_warnings_name_what_may_disappoint(plan: object, pairs: int, time: float, warning: str) -> None:
    (warning_shown,) = plan(pairs, time).warnings  # type: ignore[operator]
    assert re.search(warning, warning_shown), warning_shown


def test_where_all_is_well_there_are_no_warnings(plan: object) -> None:
    assert plan(29_000, 45 * MINUTE).warnings == ()  # type: ignore[operator]


def test_fewer_than_20_pairs_are_refused(plan: object) -> None:
    with pytest.raises(ValueError, match=r"a\.en: 19 pairs .* 20"):
        plan(19)  # type: ignore[operator]


def test_standard_input_is_refused() -> None:
    with pytest.raises(ValueError, match="standard input can be read only once"):
        autopilot([CorpusConfig(source="-", format="tsv")], "run", HOUR, MACHINE)


def test_keys_can_be_set_on_what_was_chosen(plan: object) -> None:
    recipe = plan(29_000).recipe  # type: ignore[operator]
    other = override_recipe(recipe, ["training.stop.updates=5000", "model.dropout=0.25"])
    assert (other.training.stop.updates, other.model.dropout) == (5000, 0.25)
    assert other.training.schedule == recipe.training.schedule
    assert other.data.train[0].source == str(Path("a.en").absolute())
    with pytest.raises(ValueError, match=r"--set model\.droput=0\.25: unknown key; did you mean dropout\?"):
        override_recipe(recipe, ["model.droput=0.25"])


def test_keys_that_cannot_be_set_are_refused_before_any_text_is_read() -> None:
    corpora = [CorpusConfig(source="nowhere.en", target="nowhere.de")]
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        check_changes(corpora, "run", ["data.train.5.weight=2", "training.schedul.rate=1", "model.dropout=2", "seed"])
    assert [line.partition(": ")[0] for line in str(refused.value).splitlines()] == [
        "--set data.train.5.weight=2",
        "--set seed",
        "--set model.dropout=2",
        "--set training.schedul.rate=1",
    ]


@pytest.mark.parametrize(
    "change",
    [
        "model.d_model=100",
        "model.num_heads=3",
        "training.schedule.warmup=3000000",
        "model.preset=paper-big",
        "training.stop.time=1h30m",
        "training.loss.r_drop=5",
    ],
)
def test_what_depends_on_what_will_be_chosen_is_not_refused_before(change: str) -> None:
    check_changes([CorpusConfig(source="nowhere.en", target="nowhere.de")], "run", [change])


def test_another_preset_is_taken_whole(plan: object) -> None:
    shape = override_recipe(plan(9_000).recipe, ["model.preset=small", "model.d_ff=640"]).model  # type: ignore[operator]
    assert isinstance(shape, TransformerShape)
    assert (shape.d_model, shape.d_ff, shape.num_encoder_layers) == (256, 640, 3)
    assert (shape.dropout, shape.attention_bias) == (0.3, True)


@pytest.mark.parametrize(
    ("source", "target", "codes"),
    [
        ("a.en", "a.de", ("en", "de")),
        ("x/train.en.gz", "x/train.pt_BR.zst", ("en", "pt_BR")),
        ("a.eng", "a.zh-Hans", ("eng", "zh-Hans")),
        ("a.txt", "b.txt", (None, None)),
        ("a.en", "b.txt", (None, None)),
        ("a.en", "b.en", (None, None)),
        ("source", "target", (None, None)),
        ("a.src", "a.tgt", (None, None)),
    ],
)
def test_languages_are_read_off_the_names_of_files(source: str, target: str, codes: tuple[str | None, ...]) -> None:
    assert guess_languages([CorpusConfig(source=source, target=target)]) == codes


def test_corpora_of_different_languages_have_none() -> None:
    assert guess_languages([CORPUS, CorpusConfig(name="other", source="b.en", target="b.fr")]) == (None, None)
    assert guess_languages([CorpusConfig(source="a.tsv")]) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(61.0, "2m"), (600.0, "10m"), (7199.0, "120m"), (7201.0, "3h"), (2e5, "3d")]
)
def test_a_time_is_rounded_up_to_what_one_would_type(seconds: float, expected: str) -> None:
    assert round_up_time(seconds) == expected


def test_real_files_are_counted(tmp_path: Path) -> None:
    for side, texts in zip(("en", "iso"), zip(*dates(150, seed=1), strict=True), strict=True):
        (tmp_path / f"a.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = CorpusConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.iso"))
    made = autopilot([files], "dates", HOUR, MACHINE)
    assert (made.recipe.name, made.recipe.data.split, made.recipe.target_language) == ("dates", 15, "iso")
    assert made.choices[0].value == "150 pairs"
