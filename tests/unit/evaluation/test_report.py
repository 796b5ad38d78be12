"""The report: JSON that holds everything, a table that fits."""

import io

import pytest
from rich.console import Console

from dragoman import __version__
from dragoman.evaluation import report
from dragoman.evaluation.metrics import compare
from dragoman.evaluation.output import Output
from dragoman.evaluation.reading import Reading
from dragoman.evaluation.report import EvaluateOptions, Report
from dragoman.evaluation.text import Text

REFERENCE = [
    "Der Hund läuft heute nach Hause.",
    "Eine Frau liest die Zeitung im Zug.",
    "Drei Kinder spielen im Garten.",
]
GOOD = ["Der Hund läuft heute nach Hause.", "Eine Frau liest eine Zeitung im Zug.", "Drei Kinder spielen im Garten."]
BAD = ["Hunde laufen nach Hause.", "Die Frau liest im Zug.", "Drei Kinder im Garten."]


def output(name: str, lines: list[str]) -> Output:
    return Output(name, "file", f"sha of {name}", lines)


def made(*systems: Output, reading: Reading | None = None, reference: list[str] | None = None) -> Report:
    options = EvaluateOptions(reading=reading or Reading(), command="dragoman evaluate it")
    references = [Text("ref.de", reference or REFERENCE, "sha of the reference")]
    return report.evaluate(systems, Text("a.en", ["1", "2", "3"], "sha of the source"), references, options)


def shown(of_it: Report) -> list[str]:
    sink = io.StringIO()
    Console(file=sink, width=80).print(of_it.table())
    return [line.rstrip() for line in sink.getvalue().splitlines()]


def cells(of_it: Report, metric: str) -> list[list[str]]:
    return [line.split() for line in shown(of_it) if metric in line.split()]


def test_it_holds_all_that_repeating_it_takes() -> None:
    of_it = made(output("good", GOOD), output("bad", BAD))
    assert (of_it.command, of_it.dragoman) == ("dragoman evaluate it", __version__)
    assert of_it.source is not None
    assert of_it.source.model_dump() == {"file": "a.en", "lines": 3, "sha256": "sha of the source"}
    assert [text.model_dump() for text in of_it.references] == [
        {"file": "ref.de", "lines": 3, "sha256": "sha of the reference"}
    ]
    assert [(system.name, system.kind, system.sha256) for system in of_it.systems] == [
        ("good", "file", "sha of good"),
        ("bad", "file", "sha of bad"),
    ]
    assert [system.scores for system in of_it.systems] == compare([GOOD, BAD], [REFERENCE], ["bleu", "chrf", "ter"])


def test_json_gives_the_same_report_back() -> None:
    of_it = made(output("good", GOOD), output("bad", BAD))
    assert Report.model_validate_json(of_it.model_dump_json()) == of_it


def test_the_table_has_a_row_for_each_score() -> None:
    of_it = made(output("good", GOOD), output("bad", BAD))
    good, bad = (system.scores[0] for system in of_it.systems)
    first, second = cells(of_it, "BLEU")
    assert first == ["good", "BLEU", f"{good.value:.2f}", f"{good.low:.2f}", "-", f"{good.high:.2f}"]
    assert second[:6] == ["bad", "BLEU", f"{bad.value:.2f}", f"{bad.low:.2f}", "-", f"{bad.high:.2f}"]
    assert second[6] == f"{bad.value - good.value:+.2f}"
    assert second[7].rstrip("*") == f"{bad.p_value:.3f}"


@pytest.mark.parametrize(("p_value", "said"), [(0.049, "0.049*"), (0.05, "0.050")])
def test_a_star_says_that_a_difference_is_hardly_chance(p_value: float, said: str) -> None:
    of_it = made(output("good", GOOD), output("bad", BAD))
    first, second = of_it.systems
    scores = tuple(score.model_copy(update={"p_value": p_value}) for score in second.scores)
    changed = of_it.model_copy(update={"systems": (first, second.model_copy(update={"scores": scores}))})
    assert cells(changed, "TER")[1][-1] == said


def test_a_tie_is_shown_as_one_though_sacrebleu_finds_it_significant() -> None:
    of_it = made(output("good", GOOD), output("the same", GOOD))
    assert of_it.systems[1].scores[0].p_value == 1 / 1001
    assert cells(of_it, "BLEU")[1][-2:] == ["0.00", "-"]


def test_one_system_has_nothing_to_be_compared_with() -> None:
    assert shown(made(output("good", GOOD)))[1].split() == ["system", "metric", "score", "95", "%", "interval"]


def test_it_fits_80_columns_whatever_systems_are_called() -> None:
    lines = shown(made(output("x" * 70, GOOD), output("y" * 99, BAD)))
    assert max(map(len, lines)) <= 80
    assert "".join(lines).count("y") >= 99


def test_signatures_are_given_once_as_they_are_cited() -> None:
    of_it = made(output("good", GOOD), output("bad", BAD))
    assert [signature.split("|")[0] for signature in of_it.signatures] == ["BLEU", "chrF2", "TER"]
    assert of_it.signatures[0] == f"BLEU|{of_it.systems[1].scores[0].signature}"


MANY, MANY_GOOD = REFERENCE * 34, GOOD * 34


def apart(lines: list[str]) -> list[str]:
    return [line.replace(".", " .") for line in lines]


def test_few_lines_are_pointed_out() -> None:
    few = "99 lines are few: the scores are rough, and the intervals may reach beyond what is possible"
    assert made(output("good", GOOD * 33), reference=REFERENCE * 33).notes == (few,)
    assert made(output("good", MANY_GOOD), reference=MANY).notes == ()


def test_text_that_looks_tokenised_is_pointed_out() -> None:
    assert made(output("good", apart(MANY_GOOD)), reference=MANY).notes == (
        "this looks tokenised: good; if all text is, give --tokenised",
    )
    assert made(output("good", apart(MANY_GOOD)), reference=apart(MANY)).notes == (
        "this looks tokenised: good, ref.de; if all text is, give --tokenised",
    )


def test_text_that_does_not_look_tokenised_is_pointed_out_beside_some_that_does() -> None:
    tokenised = Reading(tokenised=True)
    assert made(output("good", MANY_GOOD), reference=MANY, reading=tokenised).notes == ()
    assert made(output("good", apart(MANY_GOOD)), reference=apart(MANY), reading=tokenised).notes == ()
    assert made(output("good", MANY_GOOD), reference=apart(MANY), reading=tokenised).notes == (
        "this does not look tokenised, but the rest does: good",
    )
