"""Pages and reports: they show the stored numbers, and docs/lab.md is the report of docs/lab."""

from pathlib import Path

import pytest

from dragoman.lab.result_page import describe, render_report, write_report
from dragoman.lab.run_experiment import (
    ExperimentResult,
    experiment_names,
    fingerprint,
    load_experiment,
    read_results,
    run_experiment,
    summarise,
)

DOCS = Path(__file__).parents[3] / "docs"
STORED = read_results(DOCS / "lab")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResult:
    return run_experiment("hi-how-are-you", tmp_path_factory.mktemp("lab"), 2, is_smallest=True)


def test_a_page_has_the_claim_the_rule_the_numbers_and_the_verdict(result: ExperimentResult) -> None:
    experiment, page = load_experiment(result.name), describe(result, "picture.svg")
    for text in (experiment.claim, experiment.source, experiment.prediction, experiment.method, experiment.lesson):
        assert text in page
    assert all(description in page for description in experiment.numbers.values())
    assert page.count("(refuted)") == 3
    assert "**Verdict: fails as told.**" in page
    assert "smallest" in page


def test_a_report_can_be_read_back_and_written_again(result: ExperimentResult, tmp_path: Path) -> None:
    write_report([result], tmp_path / "verdicts.md")
    assert read_results(tmp_path / "verdicts") == [result]
    assert (tmp_path / "verdicts" / "hi-how-are-you.svg").is_file()
    page = (tmp_path / "verdicts.md").read_text(encoding="utf-8")
    assert page == render_report([result], "verdicts")
    assert "| **fails as told** |" in page


def test_the_page_of_the_docs_is_the_report_of_the_stored_results() -> None:
    assert (DOCS / "lab.md").read_text(encoding="utf-8") == render_report(STORED, "lab"), (
        "write it again: dragoman lab report docs/lab --output docs/lab.md"
    )


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.name)
def test_stored_results_are_of_this_code_and_their_verdicts_follow_from_the_seeds(stored: ExperimentResult) -> None:
    assert stored.name in experiment_names()
    assert not stored.is_smallest
    assert {seed.fingerprint for seed in stored.seeds} == {fingerprint(stored.name)}
    assert summarise(stored.name, load_experiment(stored.name), list(stored.seeds)) == stored
    assert (DOCS / "lab" / f"{stored.name}.svg").is_file()
