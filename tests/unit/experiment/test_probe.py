"""Which sentences a run looks at, with which weights, and that looking changes nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.bundle import Bundle, open_bundle
from dragoman.data.dates import dates
from dragoman.decoding.torch_engine import load_model
from dragoman.experiment.held_out import TextPairs
from dragoman.experiment.probe import LONGEST, Probe, choose_pairs
from dragoman.experiment.train_model import train_model
from dragoman.experiment.training_data import prepare_run
from dragoman.experiment.validator import lengths
from dragoman.inspection.evolution import load_snapshot, load_traces, snapshot_folders
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.trace import Trace
from dragoman.recipes.recipe import Recipe
from dragoman.text.vocab import Vocab
from dragoman.training.parallel import Group

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
FEW = TextPairs("few", ["two red dogs.", "ten", "three old houses."], ["zwei rote Hunde.", "zehn", "drei alte Häuser."])
BEGIN = {"event": "begin", "update": 0}
VALIDATION = {
    "event": "validation", "update": 1200, "which": "update 1,200", "best": True, "loss": 0.5, "bleu": 60.25,
    "chrf": 70.5, "took": 1.0, "samples": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def vocab() -> Vocab:
    return open_bundle(GOLDEN).vocab


def of_length(*words: int) -> TextPairs:
    return TextPairs("made", ["dogs " * count for count in words], ["Hunde " * count for count in words])


def same(one: Trace, other: Trace) -> bool:
    """To the last bit: texts, log-probabilities, and maps as a file keeps them."""
    return (
        (one.source, one.target, one.free) == (other.source, other.target, other.free)
        and bool((one.log_probabilities == other.log_probabilities).all())
        and list(one.attention) == list(other.attention)
        and all((one.attention[name] == other.attention[name]).all() for name in one.attention)
    )


def read_back(trace: Trace, folder: Path) -> Trace:
    """As it comes out of a file, in one byte a weight."""
    replace(trace, norms={}).save(folder / "again.trace", is_compact=True)
    return Trace.load(folder / "again.trace")


def test_the_pairs_are_spread_and_of_medium_length(vocab: Vocab) -> None:
    pairs = of_length(9, 5, 1, 2, 7, 5, 5, 1, 4, 9, 8, 2)
    assert np.median(lengths(pairs, vocab).max(axis=0)) == lengths(of_length(5), vocab).max()
    # Of each stretch of four, the first that has the median's length, or is nearest to it.
    assert choose_pairs(pairs, vocab, 3, None) == of_length(5, 5, 4)
    assert choose_pairs(pairs, vocab, 1, None) == of_length(5)
    assert choose_pairs(pairs, vocab, 0, None) == of_length()
    assert choose_pairs(pairs, vocab, 99, None) == pairs


def test_what_is_empty_or_too_long_is_not_looked_at(vocab: Vocab) -> None:
    longest = lengths(TextPairs("six", ["dogs " * 6], ["Hunde"]), vocab).max()
    pairs = TextPairs("made", ["dogs " * 6, "dogs", "", " ", "dogs " * 7], ["Hunde", "  ", "Hunde", "Hunde", "Hunde"])
    assert choose_pairs(pairs, vocab, 5, int(longest)) == TextPairs("made", ["dogs " * 6], ["Hunde"])
    assert len(choose_pairs(of_length(LONGEST), vocab, 8, None)) == 0


def test_it_traces_the_reference_with_the_weights_of_the_moment(vocab: Vocab, tmp_path: Path) -> None:
    model = load_model(open_bundle(GOLDEN))
    probe = Probe([FEW], vocab, model, tmp_path)
    probe(BEGIN)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    probe({"event": "update", "update": 1100, "loss": 1.0})
    probe(VALIDATION)
    first, second = snapshot_folders(tmp_path)
    assert (first.name, second.name) == ("00000000", "00001200")
    assert (load_snapshot(first).update, load_snapshot(first).bleu, load_snapshot(first).best) == (0, None, False)
    found = load_snapshot(second)
    assert (found.update, found.loss, found.bleu, found.chrf, found.best) == (1200, 0.5, 60.25, 70.5, True)
    for folder, factor in ((first, 1.0), (second, 1.5)):
        own = load_model(open_bundle(GOLDEN))
        with torch.no_grad():
            for weight in own.parameters():
                weight.mul_(factor)
        for trace, source, target in zip(load_traces(folder), FEW.source, FEW.target, strict=True):
            assert not trace.free
            assert not trace.norms
            expected = read_back(Inspector(own, vocab).trace(source, target), tmp_path)
            assert same(trace, expected)


@pytest.mark.parametrize("training", [True, False])
def test_looking_leaves_weights_gradients_mode_and_chance_alone(training: bool, vocab: Vocab, tmp_path: Path) -> None:
    model = load_model(open_bundle(GOLDEN)).train(training)
    for weight in model.parameters():
        weight.requires_grad_()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    chance = torch.get_rng_state()
    probe = Probe([FEW], vocab, model, tmp_path)
    probe(BEGIN)
    probe(VALIDATION)
    assert torch.equal(chance, torch.get_rng_state())
    assert {module.training for module in model.modules()} == {training}
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name])
        assert weight.grad is None
        assert weight.requires_grad


def test_an_average_has_a_place_of_its_own(vocab: Vocab, tmp_path: Path) -> None:
    probe = Probe([FEW], vocab, load_model(open_bundle(GOLDEN)), tmp_path)
    probe(VALIDATION)
    probe(VALIDATION | {"which": "the average of 5 snapshots"})
    trained, averaged = snapshot_folders(tmp_path)
    assert (trained.name, averaged.name) == ("00001200", "00001200-average")
    assert (load_snapshot(trained).is_average, load_snapshot(averaged).is_average) == (False, True)


def test_what_an_earlier_training_left_goes_even_if_nothing_new_is_kept(vocab: Vocab, tmp_path: Path) -> None:
    model = load_model(open_bundle(GOLDEN))
    Probe([FEW], vocab, model, tmp_path)(VALIDATION)
    none = Probe([FEW.first(0)], vocab, model, tmp_path)
    none(BEGIN)
    none(VALIDATION)
    assert not (tmp_path / "probe").exists()


def trained(folder: Path, probe: int, **training: Any) -> Bundle:
    """Little dates, a little model, a few seconds."""
    for side, texts in zip(("source", "target"), zip(*dates(300, 1), strict=True), strict=True):
        (folder / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    settings = {
        "schedule": {"factors": ["warmup"], "rate": 0.004, "warmup": 10},
        "batch": {"tokens": 900},
        "stop": {"updates": 12, "metric": "loss"},
        "validate_every": 6,
        "log_every": 4,
    }
    shape = {"family": "transformer", "d_model": 16, "d_ff": 32, "num_heads": 2, "dropout": 0.3}
    described = {
        "name": "little dates",
        "data": {
            "train": [{"source": str(folder / "train.source"), "target": str(folder / "train.target")}],
            "split": 20,
            "vocabulary": {"size": 330, "character_coverage": 1.0},
        },
        "model": shape | {"num_encoder_layers": 1, "num_decoder_layers": 1},
        "training": settings | training,
        "validation": {"search": {"beam_size": 1}, "probe": probe},
    }
    run = folder / f"run-{probe}"
    prepare_run(Recipe.model_validate(described), run, num_workers=1)
    bundle = train_model(run, Group(), lambda _: None)
    assert bundle is not None
    return bundle


def test_a_run_that_is_looked_at_ends_with_bitwise_the_same_weights(tmp_path: Path) -> None:
    seen, unseen = trained(tmp_path, 3), trained(tmp_path, 0)
    weights = unseen.weights()
    assert all((array == weights[name]).all() for name, array in seen.weights().items())
    run = tmp_path / "run-3"
    assert [folder.name for folder in snapshot_folders(run)] == ["00000000", "00000006", "00000012"]
    assert [len(load_traces(folder)) for folder in snapshot_folders(run)] == [3, 3, 3]
    assert sum(file.stat().st_size for file in snapshot_folders(run)[0].iterdir()) < 30_000
    assert not (tmp_path / "run-0" / "probe").exists()
    assert sorted(path.name for path in (run / "bundle").iterdir()) == sorted(
        path.name for path in (tmp_path / "run-0" / "bundle").iterdir()
    )


def test_it_looks_with_the_moving_average_where_that_is_what_is_validated(tmp_path: Path) -> None:
    """The last validation is the best here, so the bundle holds its weights."""
    bundle = trained(tmp_path, 2, ema=0.5)
    run = tmp_path / "run-2"
    last = snapshot_folders(run)[-1]
    assert load_snapshot(last).best
    for trace in load_traces(last):
        expected = Inspector.of(bundle).trace(trace.source.text, trace.target.text)
        assert same(trace, read_back(expected, tmp_path))
