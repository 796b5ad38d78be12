import io
from functools import reduce

import pytest
from rich.console import Console

from dragoman.text.cleaning import Problem
from dragoman.text.cleaning_report import EXAMPLES, CleaningReport, ProblemExample, excerpt


def part(first: int) -> CleaningReport:
    found = {Problem.BIDI: 2, Problem.TOO_LONG: 3} if first else {Problem.BIDI: 4}
    return CleaningReport(
        pairs=10 + first,
        dropped=found.get(Problem.TOO_LONG, 0),
        fixed=found[Problem.BIDI],
        counts={problem: {"fix" if problem is Problem.BIDI else "drop": n} for problem, n in found.items()},
        examples={
            problem: tuple(ProblemExample(line=first + i, source="s", target="t") for i in range(n))
            for problem, n in found.items()
        },
    )


def test_reports_of_chunks_add_up_in_any_grouping() -> None:
    one, two, three = part(0), part(100), part(200)
    assert (one + two) + three == one + (two + three)
    assert CleaningReport() + one == one + CleaningReport() == one
    total = reduce(CleaningReport.__add__, [one, two, three])
    assert (total.pairs, total.dropped, total.fixed, total.stayed) == (330, 6, 8, 324)
    assert (total.count(Problem.BIDI), total.count(Problem.TOO_LONG), total.count(Problem.BOM)) == (8, 6, 0)
    assert [example.line for example in total.examples[Problem.BIDI]] == [0, 1, 2, 3, 100]
    assert len(total.examples[Problem.TOO_LONG]) == EXAMPLES


def test_the_same_problem_may_be_handled_in_two_ways() -> None:
    total = CleaningReport(counts={Problem.BIDI: {"fix": 2}}) + CleaningReport(counts={Problem.BIDI: {"drop": 3}})
    assert total.counts == {Problem.BIDI: {"drop": 3, "fix": 2}}


def test_a_report_survives_json() -> None:
    report = part(0) + part(100)
    assert CleaningReport.model_validate_json(report.model_dump_json()) == report
    assert '"too-long":{"drop":3}' in report.model_dump_json()


def test_the_table_says_what_was_found_and_done() -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print((part(0) + part(100)).table())
    page = console.file.getvalue()
    assert "120 pairs read, 3 dropped, 6 fixed; 97.50% stayed" in page
    row = next(line for line in page.split("\n") if "too-long" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "too-long",
        "3",
        "drop",
        "100",
        "a side longer than max_characters",
    ]
    console.print(CleaningReport().table())
    assert "0 pairs read" in console.file.getvalue()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        ("schön 漢字".encode(), "schön 漢字"),
        ("a\u202e\u200b\x00\tb".encode(), r"a\u202e\u200b\x00\tb"),
        (b"caf\xe9", r"caf\xe9"),
        (b"x" * 80, "x" * 80),
        (b"x" * 81, "x" * 80 + "…"),
        (b"x" * 1_000_000, "x" * 80 + "…"),
    ],
)
def test_an_excerpt_shows_what_cannot_be_seen(raw: bytes, shown: str) -> None:
    assert excerpt(raw) == shown
