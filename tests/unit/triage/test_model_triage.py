"""A test set through a model: what is traced, what is not, and what is usual."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.decoding.options import SearchOptions
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.source_share import source_share
from dragoman.inspection.trace import Trace
from dragoman.translation.translator import Translator
from dragoman.triage import model_triage

GOLDEN = Path(__file__).parents[2] / "golden"
SOURCES = ["two red dogs.", "", "four green women.", "ten old houses."]
TARGETS = ["zwei rote Hunde.", "nichts", "vier grüne Frauen.", "zehn alte alte alte Häuser."]
LONG = "two red dogs. " * 60


@cache
def inspector(name: str = "v1") -> Inspector:
    return Inspector.load(GOLDEN / name)


def quiet(*_: object) -> None:
    pass


@pytest.mark.parametrize("name", ["v1", "v1-recurrent"])
def test_what_the_model_writes_is_what_its_trace_shows(name: str) -> None:
    lines = model_triage.translate_lines(inspector(name), SOURCES, quiet)
    assert [line.target for line in lines] == Translator.load(GOLDEN / name).translate(SOURCES)
    for line, source in zip(lines, SOURCES, strict=True):
        seen = model_triage.trace_line(inspector(name), line)
        if source:
            own = inspector(name).trace(source)
            assert seen is not None
            assert seen.free
            assert seen.target == own.target
            np.testing.assert_allclose(seen.log_probabilities, own.log_probabilities, atol=1e-6)
        else:
            assert seen is None
            assert "has no text" in line.untraced


def test_targets_that_are_given_are_forced() -> None:
    lines = model_triage.force_lines(inspector(), SOURCES, TARGETS)
    assert [line.target for line in lines] == TARGETS
    seen = model_triage.trace_line(inspector(), lines[3])
    assert seen is not None
    assert (seen.free, seen.target.text) == (False, TARGETS[3])


def test_what_the_model_cannot_take_is_judged_by_its_text() -> None:
    given, written = (
        model_triage.force_lines(inspector(), [LONG], ["kurz"]),
        model_triage.translate_lines(inspector(), [LONG], quiet),
    )
    assert "but the model takes" in given[0].untraced
    assert (given[0].target, given[0].tokens) == ("kurz", None)
    assert written[0].target == Translator.load(GOLDEN / "v1").translate([LONG])[0] != ""
    assert written[0].tokens is None
    found, method = model_triage.rank_lines(inspector(), given, quiet)
    assert [flag.name for flag in found[0].flags] == ["length"]
    assert "nothing could be traced" in method.model
    assert method.untraced == {1: given[0].untraced}


def test_the_worst_come_first_and_the_account_says_how() -> None:
    found, method = model_triage.rank_lines(inspector(), model_triage.force_lines(inspector(), SOURCES, TARGETS), quiet)
    assert {flag.name for flag in found[0].flags} == {"length"}  # the empty source
    assert found[1].number == 4
    assert "repeated" in {flag.name for flag in found[1].flags}
    assert method.model == f"forced (teacher forcing); model {inspector().identity.sha256[:12]}"
    assert method.has_share


def test_few_lines_do_not_tell_what_is_usual_and_many_do() -> None:
    few = model_triage.rank_lines(inspector(), model_triage.force_lines(inspector(), SOURCES[2:], TARGETS[2:]), quiet)[
        1
    ].rules
    assert (few.expected_ratio, few.expected_tokens, few.expected_share) == (1.0, None, 0.5)
    several = model_triage.force_lines(
        inspector(), SOURCES[2:3] * 19, TARGETS[2:3] * 19
    )  # many tokens, but of few lines
    method = model_triage.rank_lines(inspector(), several, quiet)[1]
    assert (method.rules.expected_share, method.num_lines, method.num_tokens) == (0.5, 19, 0)
    lines = model_triage.force_lines(
        inspector(), SOURCES[:1] * 13 + SOURCES[2:3] * 8, TARGETS[:1] * 13 + TARGETS[2:3] * 8
    )
    method = model_triage.rank_lines(inspector(), lines, quiet)[1]
    many = method.rules
    source, target = lines[0].tokens
    assert many.expected_ratio == len(TARGETS[0]) / len(SOURCES[0])
    assert many.expected_tokens == len(target) / len(source)
    shares = [source_share(inspector().model, *(side.ids for side in line.tokens))[:-1] for line in lines]
    assert many.expected_share == pytest.approx(np.median(np.concatenate(shares)))
    assert (method.num_lines, method.num_tokens) == (21, len(np.concatenate(shares)))


def test_a_recurrent_model_has_no_source_share() -> None:
    method = model_triage.rank_lines(
        inspector("v1-recurrent"), model_triage.force_lines(inspector("v1-recurrent"), SOURCES, TARGETS), quiet
    )[1]
    assert not method.has_share


def test_an_alignment_head_that_is_known_changes_nothing() -> None:
    plain = inspector()
    nowhere = (AlignmentHead(layer="nowhere", head=0),)  # which would be refused if it were used
    known = Inspector(plain.model, plain.vocab, SearchOptions(), plain.identity, nowhere)
    found, _ = model_triage.rank_lines(known, model_triage.force_lines(known, SOURCES, TARGETS), quiet)
    assert found == model_triage.rank_lines(plain, model_triage.force_lines(plain, SOURCES, TARGETS), quiet)[0]


def test_traces_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[str] = []
    capture = Inspector.capture

    def counted(self: Inspector, *given: object, **more: object) -> Trace:
        captured.append("")
        return capture(self, *given, **more)  # type: ignore[arg-type]

    lines = model_triage.force_lines(inspector(), SOURCES, TARGETS)
    monkeypatch.setattr(Inspector, "capture", counted)
    pairs = model_triage.trace_pairs(inspector(), lines, [None] * 4, quiet)
    assert captured == []
    next(pairs)
    assert len(captured) == 1


def test_the_worst_that_can_be_traced_have_pages(tmp_path: Path) -> None:
    targets = ["zwei zwei zwei zwei rote Hunde.", "nichts", "vier grüne grüne grüne Frauen.", "zehn alte Häuser."]
    lines = model_triage.force_lines(inspector(), SOURCES, targets)
    found, _ = model_triage.rank_lines(inspector(), lines, quiet)
    pages = model_triage.save_traces(inspector(), lines, found, tmp_path / "all.html", 9, quiet)
    assert set(pages) == {one.number for one in found if one.flags} - {2}
    assert {f"all_traces/{path.name}" for path in (tmp_path / "all_traces").iterdir()} == set(pages.values())
    text = (tmp_path / pages[3]).read_text(encoding="utf-8")
    assert "vier <mark>grüne grüne grüne</mark> Frauen." in text
    assert '<a href="../all.html#line-3">Back to line 3 of the report</a>' in text
    assert len(model_triage.save_traces(inspector(), lines, found, tmp_path / "one.html", 1, quiet)) == 1
    assert model_triage.save_traces(inspector(), lines, found, tmp_path / "none.html", 0, quiet) == {}
    assert not (tmp_path / "none_traces").exists()


def test_progress_is_reported_to_the_end() -> None:
    calls: dict[str, tuple[int, int | None]] = {}

    def tell(what: str, done: int, total: int | None) -> None:
        calls[what] = (done, total)

    model_triage.rank_lines(inspector(), model_triage.translate_lines(inspector(), SOURCES, tell), tell)
    assert calls == {"translate": (3, 3), "source share": (4, 4), "trace": (4, 4)}
