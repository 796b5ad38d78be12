"""A test set through a model: what is measured, what is not, and what is usual."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle import open_bundle
from dragoman.inspection.inspector import Inspector
from dragoman.translation.translator import Translator
from dragoman.triage import model_triage
from dragoman.triage.calibration import load_calibration
from dragoman.triage.model_triage import TriageModel, fit_model, rank_measured, save_traces
from dragoman.triage.ranking import ENOUGH

GOLDEN = Path(__file__).parents[2] / "golden"
SOURCES = ["two red dogs.", "", "four green women.", "ten old houses."]
TARGETS = ["zwei rote Hunde.", "nichts", "vier grüne Frauen.", "zehn alte alte alte Häuser."]
LONG = "two red dogs. " * 60


@cache
def triage_model(name: str = "v1") -> TriageModel:
    return TriageModel.of(open_bundle(GOLDEN / name if name != "demo" else name))


def quiet(*_: object) -> None:
    pass


@pytest.mark.parametrize("name", ["v1", "v1-recurrent", "v1-convolutional", "demo"])
def test_what_is_measured_is_what_the_model_writes_and_what_a_trace_shows(name: str) -> None:
    model = triage_model(name)
    pairs = model.measure(SOURCES)
    folder = GOLDEN / name if name != "demo" else "demo"
    assert [pair.target for pair in pairs] == Translator.load(folder).translate(SOURCES)
    inspector = Inspector.of(open_bundle(folder))
    for pair, source in zip(pairs, SOURCES, strict=True):
        if not source:
            assert pair.readings is None
            assert "no text" in pair.unmeasured
            continue
        trace = inspector.trace(source)
        assert pair.readings is not None
        np.testing.assert_allclose(pair.readings.log_probabilities, trace.log_probabilities, atol=1e-4)
        assert pair.readings.source.ids == trace.source.ids
        assert len(pair.readings.others) == inspector.options.beam_size - 1
        assert pair.target not in pair.readings.others
        assert pair.readings.attention_entropy > 0
        assert 0 <= pair.readings.uncovered <= 1


def test_both_engines_show_the_same_attention() -> None:
    bundle = open_bundle("demo")
    fast = triage_model("demo")
    from dragoman.alignment.aligner import Aligner

    rows = fast.translator.vocab.source.encode(["A dog sleeps.", "She bought three red apples."]).rows()
    written = [
        row[:-1] for row in fast.translator.vocab.target.encode(["Ein Hund schläft.", "Sie kaufte Äpfel."]).rows()
    ]
    assert fast.attention is not None
    for one, other in zip(fast.attention(rows, written), Aligner.of(bundle).attention(rows, written), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_targets_that_are_given_are_forced_and_compared_with_what_the_model_writes() -> None:
    pairs = triage_model().measure(SOURCES, TARGETS)
    assert [pair.target for pair in pairs] == TARGETS
    own = triage_model().measure(SOURCES)
    readings = pairs[3].readings
    assert readings is not None
    assert own[3].target in readings.others
    assert own[3].readings is not None
    assert readings.log_probabilities.sum() < own[3].readings.log_probabilities.sum()
    trace = Inspector.of(open_bundle(GOLDEN / "v1")).trace(SOURCES[3], TARGETS[3])
    np.testing.assert_allclose(readings.log_probabilities, trace.log_probabilities, atol=1e-4)


def test_what_the_model_cannot_take_is_judged_by_its_text() -> None:
    pairs = triage_model().measure([LONG, "two red dogs."], ["kurz", "zwei " * 500])
    assert "too long for the model" in pairs[0].unmeasured
    assert "but the model takes" in pairs[1].unmeasured
    own = triage_model().measure([LONG])
    assert own[0].target == Translator.load(GOLDEN / "v1").translate([LONG])[0] != ""
    ranked, method = rank_measured(pairs, triage_model().sha256, False)
    assert {line.number: "length" in {flag.name for flag in line.flags} for line in ranked} == {1: True, 2: True}
    assert all(line.signals == () for line in ranked)
    assert set(method.unmeasured) == {1, 2}


def test_lines_do_not_depend_on_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [
        f"{number} {color} {thing}."
        for number in ("two", "ten")
        for color in ("red", "old")
        for thing in ("dogs", "houses")
    ]
    whole = triage_model().measure(many)
    monkeypatch.setattr(model_triage, "WINDOW_CHARACTERS", 1)
    reports: list[int] = []
    parts = triage_model().measure(many, None, lambda _what, done, _total=None, _unit="": reports.append(done))
    assert [pair.target for pair in parts] == [pair.target for pair in whole]
    for one, other in zip(parts, whole, strict=True):
        assert one.readings is not None
        assert other.readings is not None
        np.testing.assert_allclose(one.readings.log_probabilities, other.readings.log_probabilities, atol=1e-5)
    assert reports == sorted(reports)
    assert set(reports) == set(range(1, len(many) + 1))


def test_the_score_is_a_chance_only_for_translations_it_was_fitted_for() -> None:
    demo = triage_model("demo")
    own = rank_measured(demo.measure(SOURCES), demo.sha256, True)[1]
    assert own.is_calibrated
    assert own.calibration == load_calibration()
    assert not rank_measured(demo.measure(SOURCES, TARGETS), demo.sha256, False)[1].is_calibrated
    assert not rank_measured(triage_model().measure(SOURCES), triage_model().sha256, True)[1].is_calibrated


def test_few_lines_do_not_tell_what_is_usual_and_many_do() -> None:
    few = triage_model().measure(SOURCES[2:], TARGETS[2:])
    method = rank_measured(few, triage_model().sha256, False)[1]
    assert (method.rules.expected_ratio, method.rules.expected_tokens) == (1.0, None)
    assert method.calibration == load_calibration()
    many = few * (ENOUGH // 2)
    method = rank_measured(many, triage_model().sha256, False)[1]
    ratios = [len(pair.readings.log_probabilities) / len(pair.readings.source) for pair in many if pair.readings]
    assert method.rules.expected_tokens == pytest.approx(np.median(ratios))
    assert method.calibration is not None
    nll = np.mean([-pair.readings.log_probabilities.mean() for pair in many if pair.readings])
    assert method.calibration.signals["nll"].mean == pytest.approx(nll)


def test_weights_can_be_fitted_for_a_model() -> None:
    names = ("dogs", "women", "houses", "trees", "men")
    sources = [
        f"{number} {color} {thing}."
        for number in ("two", "ten", "four", "six")
        for color in ("red", "old")
        for thing in names
    ]
    model = triage_model()
    references = [pair.target if place % 2 else "xyz" for place, pair in enumerate(model.measure(sources))]
    seen: set[str] = set()
    fitted = fit_model(model, sources, references, "dev.tsv", lambda what, *_: seen.add(what))
    assert (fitted.model, fitted.fitted_on, fitted.num_lines) == (model.sha256, "dev.tsv", len(sources))
    assert seen == {"calibrate"}
    ranked, method = rank_measured(model.measure(SOURCES), model.sha256, True, fitted)
    assert method.is_calibrated
    assert sum(bool(line.signals) for line in ranked) == 3


def test_the_worst_that_can_be_traced_have_pages(tmp_path: Path) -> None:
    targets = ["zwei zwei zwei zwei rote Hunde.", "nichts", "vier grüne grüne grüne Frauen.", "zehn alte Häuser."]
    inspector = Inspector.of(open_bundle(GOLDEN / "v1"))
    ranked, method = rank_measured(triage_model().measure(SOURCES, targets), triage_model().sha256, False)
    pages = save_traces(inspector, ranked, method, tmp_path / "all.html", 9, quiet)
    assert set(pages) == {line.number for line in ranked if line.is_suspect} - {2}
    assert {f"all_traces/{path.name}" for path in (tmp_path / "all_traces").iterdir()} == set(pages.values())
    text = (tmp_path / pages[3]).read_text(encoding="utf-8")
    assert "vier <mark>grüne grüne grüne</mark> Frauen." in text
    assert '<a href="../all.html#line-3">Back to line 3 of the report</a>' in text
    assert len(save_traces(inspector, ranked, method, tmp_path / "one.html", 1, quiet)) == 1


def test_an_exported_model_needs_no_torch() -> None:
    code = (
        "import sys; from dragoman.bundle import open_bundle; from dragoman.triage.model_triage import TriageModel;"
        "print(TriageModel.of(open_bundle('demo')).measure(['A dog.'])[0].target); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Ein Hund.\n"), done.stderr
