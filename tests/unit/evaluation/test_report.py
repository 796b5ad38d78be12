"""The report: JSON that holds everything, a table that fits."""

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from dragoman import __version__
from dragoman.bundle import open_bundle
from dragoman.evaluation.metric_options import DEFAULT_METRICS, MetricOptions
from dragoman.evaluation.metrics import compare
from dragoman.evaluation.report import EvaluationReport, ModelOptions, SystemOutput, evaluate_outputs, gather_outputs
from dragoman.evaluation.text_files import TextFile, read_text
from dragoman.translation.translator import Translator

REFERENCE = [
    "Der Hund läuft heute nach Hause.",
    "Eine Frau liest die Zeitung im Zug.",
    "Drei Kinder spielen im Garten.",
]
GOOD = ["Der Hund läuft heute nach Hause.", "Eine Frau liest eine Zeitung im Zug.", "Drei Kinder spielen im Garten."]
BAD = ["Hunde laufen nach Hause.", "Die Frau liest im Zug.", "Drei Kinder im Garten."]


def output(name: str, lines: list[str]) -> SystemOutput:
    return SystemOutput(name, "file", f"sha of {name}", lines)


def made(
    *systems: SystemOutput, options: MetricOptions | None = None, reference: list[str] | None = None
) -> EvaluationReport:
    references = [TextFile("ref.de", reference or REFERENCE, "sha of the reference")]
    source = TextFile("a.en", ["1", "2", "3"], "sha of the source")
    return evaluate_outputs(
        systems, source, references, DEFAULT_METRICS, options or MetricOptions(), "dragoman evaluate it"
    )


def shown(report: EvaluationReport) -> list[str]:
    sink = io.StringIO()
    Console(file=sink, width=80).print(report.table())
    return [line.rstrip() for line in sink.getvalue().splitlines()]


def cells(report: EvaluationReport, metric: str) -> list[list[str]]:
    return [line.split() for line in shown(report) if metric in line.split()]


def test_it_holds_all_that_repeating_it_takes() -> None:
    report = made(output("good", GOOD), output("bad", BAD))
    assert (report.command, report.dragoman) == ("dragoman evaluate it", __version__)
    assert report.source is not None
    assert report.source.model_dump() == {"file": "a.en", "lines": 3, "sha256": "sha of the source"}
    assert [text.model_dump() for text in report.references] == [
        {"file": "ref.de", "lines": 3, "sha256": "sha of the reference"}
    ]
    assert [(system.name, system.kind, system.sha256) for system in report.systems] == [
        ("good", "file", "sha of good"),
        ("bad", "file", "sha of bad"),
    ]
    assert [system.scores for system in report.systems] == compare([GOOD, BAD], [REFERENCE], ["bleu", "chrf", "ter"])


def test_json_gives_the_same_report_back() -> None:
    report = made(output("good", GOOD), output("bad", BAD))
    assert EvaluationReport.model_validate_json(report.model_dump_json()) == report


def test_the_table_has_a_row_for_each_score() -> None:
    report = made(output("good", GOOD), output("bad", BAD))
    good, bad = (system.scores[0] for system in report.systems)
    first, second = cells(report, "BLEU")
    assert first == ["good", "BLEU", f"{good.value:.2f}", f"{good.low:.2f}", "-", f"{good.high:.2f}"]
    assert second[:6] == ["bad", "BLEU", f"{bad.value:.2f}", f"{bad.low:.2f}", "-", f"{bad.high:.2f}"]
    assert second[6] == f"{bad.value - good.value:+.2f}"
    assert second[7].rstrip("*") == f"{bad.p_value:.3f}"


@pytest.mark.parametrize(("p_value", "cell"), [(0.049, "0.049*"), (0.05, "0.050")])
def test_a_star_says_that_a_difference_is_hardly_chance(p_value: float, cell: str) -> None:
    report = made(output("good", GOOD), output("bad", BAD))
    first, second = report.systems
    scores = tuple(score.model_copy(update={"p_value": p_value}) for score in second.scores)
    changed = report.model_copy(update={"systems": (first, second.model_copy(update={"scores": scores}))})
    assert cells(changed, "TER")[1][-1] == cell


def test_a_tie_is_shown_as_one_though_sacrebleu_finds_it_significant() -> None:
    report = made(output("good", GOOD), output("the same", GOOD))
    assert report.systems[1].scores[0].p_value == 1 / 1001
    assert cells(report, "BLEU")[1][-2:] == ["0.00", "-"]


def test_one_system_has_nothing_to_be_compared_with() -> None:
    assert shown(made(output("good", GOOD)))[1].split() == ["system", "metric", "score", "95", "%", "interval"]


def test_it_fits_80_columns_whatever_systems_are_called() -> None:
    lines = shown(made(output("x" * 70, GOOD), output("y" * 99, BAD)))
    assert max(map(len, lines)) <= 80
    assert "".join(lines).count("y") >= 99


def test_signatures_are_given_once_as_they_are_cited() -> None:
    report = made(output("good", GOOD), output("bad", BAD))
    assert [signature.split("|")[0] for signature in report.signatures] == ["BLEU", "chrF2", "TER"]
    assert report.signatures[0] == f"BLEU|{report.systems[1].scores[0].signature}"


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
    tokenised = MetricOptions(tokenised=True)
    assert made(output("good", MANY_GOOD), reference=MANY, options=tokenised).notes == ()
    assert made(output("good", apart(MANY_GOOD)), reference=apart(MANY), options=tokenised).notes == ()
    assert made(output("good", MANY_GOOD), reference=apart(MANY), options=tokenised).notes == (
        "this does not look tokenised, but the rest does: good",
    )


GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
SOURCE = ["two red dogs.", "ten old houses.", "", "two red dogs."]


def text(lines: list[str], file: str = "test") -> TextFile:
    return TextFile(file, lines, "")


def file(path: Path, *lines: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    address = file(tmp_path / "a.de", "eins ", "zwei")
    [output] = gather_outputs([address], None, [text(["1", "2"])])
    assert output == SystemOutput("a.de", "file", read_text(address).sha256, ["eins ", "zwei"])


def test_a_bundle_translates_the_source_and_keeps_its_order(tmp_path: Path) -> None:
    calls: list[tuple[object, ...]] = []
    [output] = gather_outputs([str(GOLDEN)], text(SOURCE), [text(SOURCE)], lambda *what: calls.append(what))
    assert output == SystemOutput(
        "v1", "bundle", open_bundle(GOLDEN).sha256, ["zwei rote Hunde.", "zehn alte Häuser.", "", "zwei rote Hunde."]
    )
    assert calls[-1][:3] == ("translate with v1", 2, 2)  # a sentence that comes twice is translated once


def test_bundles_and_files_stay_in_the_order_given(tmp_path: Path) -> None:
    addresses = [file(tmp_path / "b.de", *"abcd"), str(GOLDEN), file(tmp_path / "a.de", *"efgh")]
    outputs = gather_outputs(addresses, text(SOURCE), [text(SOURCE)])
    assert [(output.name, output.kind, output.lines[0]) for output in outputs] == [
        ("b.de", "file", "a"),
        ("v1", "bundle", "zwei rote Hunde."),
        ("a.de", "file", "e"),
    ]


def test_systems_that_end_alike_are_called_by_all_of_their_path(tmp_path: Path) -> None:
    addresses = [file(tmp_path / "x" / "a.de", "1"), file(tmp_path / "y" / "a.de", "2"), file(tmp_path / "b.de", "3")]
    assert [output.name for output in gather_outputs(addresses, None, [text(["0"])])] == [
        addresses[0],
        addresses[1],
        "b.de",
    ]


def test_errors_are_raised_before_anything_is_translated(tmp_path: Path) -> None:
    one, two = file(tmp_path / "one", "1"), file(tmp_path / "two", "1", "2")
    with pytest.raises(ValueError, match="one is given 2 times"):
        gather_outputs([one, one], None, [text(["0"])])
    with pytest.raises(ValueError, match="three: no such folder or file"):
        gather_outputs([one, str(tmp_path / "three")], None, [text(["0"])])
    with pytest.raises(ValueError, match=r"v1 is a model .* add --source"):
        gather_outputs([str(GOLDEN)], None, [text(["0"])])
    with pytest.raises(ValueError, match="two has 2 lines but test has 1"):
        gather_outputs([one, two], None, [text(["0"])])
    with pytest.raises(ValueError, match="source has 2 lines but test has 1"):
        gather_outputs([str(GOLDEN)], text(["0", "1"], "source"), [text(["0"])])
    with pytest.raises(ValueError, match="second has 2 lines but test has 1"):
        gather_outputs([one], None, [text(["0"]), text(["0", "1"], "second")])
    with pytest.raises(ValueError, match="manifest"):
        gather_outputs([str(tmp_path)], text(["0"]), [text(["0"])])


def test_all_models_together_are_the_last_system(tmp_path: Path) -> None:
    other = str(shutil.copytree(GOLDEN, tmp_path / "other"))
    theirs = file(tmp_path / "theirs.de", *"abcd")
    outputs = gather_outputs(
        [str(GOLDEN), theirs, other], text(SOURCE), [text(SOURCE)], options=ModelOptions(ensemble=True)
    )
    assert [(output.name, output.kind) for output in outputs] == [
        ("v1", "bundle"),
        ("theirs.de", "file"),
        ("other", "bundle"),
        ("ensemble", "bundle"),
    ]
    assert outputs[-1].lines == outputs[0].lines  # the same weights twice
    assert outputs[-1].sha256 not in {output.sha256 for output in outputs[:-1]}
    with pytest.raises(ValueError, match="two or more"):
        gather_outputs([str(GOLDEN), theirs], text(SOURCE), [text(SOURCE)], options=ModelOptions(ensemble=True))
    with pytest.raises(ValueError, match="different vocabularies"):
        gather_outputs(
            [str(GOLDEN), f"{GOLDEN}-recurrent"], text(SOURCE), [text(SOURCE)], options=ModelOptions(ensemble=True)
        )


def test_models_translate_as_the_options_say(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def collect(translator: Translator, *_: object) -> list[str]:
        seen.append((translator.options.beam_size, translator.options.num_best, type(translator.ranker).__name__))
        return list(SOURCE)

    monkeypatch.setattr(Translator, "translate", collect)
    for options in (ModelOptions(beam=3), ModelOptions(beam=3, mbr=5), ModelOptions(beam=6, mbr=5)):
        gather_outputs([str(GOLDEN)], text(SOURCE), [text(SOURCE)], options=options)
    assert seen == [(3, 1, "NoneType"), (5, 5, "ExpectedChrf"), (6, 5, "ExpectedChrf")]
    with pytest.raises(ValueError, match="opposite direction"):
        gather_outputs([str(GOLDEN)], text(SOURCE), [text(SOURCE)], options=ModelOptions(rerank=GOLDEN))
    with pytest.raises(ValueError, match="only one of them"):
        ModelOptions(mbr=4, rerank=GOLDEN)


def test_demo_is_the_built_in_model() -> None:
    [output] = gather_outputs(["demo"], text(["A dog."]), [text(["Ein Hund."])])
    assert (output.name, output.kind, output.sha256) == ("demo", "bundle", open_bundle("demo").sha256)
