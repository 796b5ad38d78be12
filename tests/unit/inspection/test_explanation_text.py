"""The explanation in a terminal: what fits, what is plain, and what can be checked with a calculator."""

import io
import re
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from dragoman.inspection.explanation import Explanation, explain
from dragoman.inspection.explanation.terminal_text import ExplanationText, formula
from dragoman.inspection.explanation.worksheet import Row, Step, Table
from dragoman.inspection.inspector import Inspector

GOLDEN = Path(__file__).parents[2] / "golden"
TRANSFORMER, RECURRENT = Inspector.load(GOLDEN / "v1"), Inspector.load(GOLDEN / "v1-recurrent")
CONVOLUTIONAL = Inspector.load(GOLDEN / "v1-convolutional")


def printed(shown: Explanation, encoding: str = "utf-8", **options: Any) -> str:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding, errors="strict")
    Console(file=stream, highlight=False, soft_wrap=True, **options).print(ExplanationText(shown))
    stream.flush()
    return buffer.getvalue().decode(encoding)


SENTENCES = {
    "short": "two red dogs.",
    "one letter": "a",
    "long": "two red dogs and ten old houses, four green women at three tables.",
    "wide letters": "私はりんごを食べました 。",
    "right to left": "אכלתי תפוח אדום",
    "control characters": "two\x1b[31m red\u202e dogs",
    "joined": "naïve e\u0301te\u0301 👩\u200d👧",
}


@pytest.mark.parametrize("kind", ["encoder", "cross", "decoder"])
@pytest.mark.parametrize("name", SENTENCES)
def test_no_line_is_wider_than_80_columns_nor_holds_what_moves_the_cursor(name: str, kind: Any) -> None:
    target = None if kind == "encoder" else SENTENCES[name]
    text = printed(explain(TRANSFORMER, SENTENCES[name], target, kind=kind), width=80)
    assert [line for line in text.splitlines() if cell_len(line) > 80] == []
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", text)
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("inspector", [RECURRENT, CONVOLUTIONAL], ids=["recurrent", "convolutional"])
@pytest.mark.parametrize("name", SENTENCES)
def test_a_lesson_of_another_family_fits_too(name: str, inspector: Inspector) -> None:
    text = printed(explain(inspector, SENTENCES[name], SENTENCES["long"]), width=80)
    assert [line for line in text.splitlines() if cell_len(line) > 80] == []


@pytest.mark.parametrize("marks", [("", ""), ("explained", "hidden")])
@pytest.mark.parametrize("label", ["3 ▁Donaudampfschifffahrtsgesellschaft", "12 ドナウ汽船会社の船長の帽子", "0 a"])
def test_long_labels_make_room_for_wide_numbers(label: str, marks: tuple[Any, Any]) -> None:
    wide, narrow = Decimal("-1234.5678"), Decimal("0.1234")
    vector = Table(
        ("weight", "[0]", "[1]", "[2]", "[3]"), (Row(label, (narrow, wide, wide, wide, wide), mark=marks[0]),), of=1024
    )
    columns = ("s", "s - max", "exp", "weight", "model")
    weights = (Row(label, (wide, wide, wide, narrow, narrow), bar=share, mark=marks[1]) for share in (1.0, 0.5, 0.0001))
    step = Step("title", "why", "section", blocks=(vector, Table(columns, tuple(weights))))
    text = printed(replace(explain(TRANSFORMER, "a"), steps=(step,)))
    lines = text.split("why\n")[1].splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert text.count("-1234.5678") == 4 + 3 * 3
    assert text.count("█") > 1
    assert text.count(label[:4]) == 4


def test_colour_only_where_there_is_colour() -> None:
    shown = explain(TRANSFORMER, "two red dogs.")
    assert "\x1b" not in printed(shown)
    coloured = printed(shown, force_terminal=True, color_system="truecolor")
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == printed(shown)


def test_letters_that_a_stream_lacks_are_spelled_out() -> None:
    text = printed(explain(TRANSFORMER, "two red dogs."), encoding="ascii")
    assert "w_j = exp(s_j) / sum_j exp(s_j)" in text
    assert "Divided by sqrt d_k = sqrt 12 = 3.464102" in text
    assert "####" in text


def test_every_step_has_its_number_title_why_formula_and_section() -> None:
    shown = explain(TRANSFORMER, "two red dogs.")
    text = " ".join(printed(shown).split())
    for number, step in enumerate(shown.steps, 1):
        text_part = f"{number}. {step.title} {step.section} {step.why} {formula(step.formula)}"
        assert " ".join(text_part.split()) in text
    assert shown.caveats in text
    assert "most of them to 4 digits after the point" in text


def rows_of(text: str, title: str) -> list[list[str]]:
    """The lines of the first table of a step, split at blanks."""
    step = text.split(title)[1]
    block = step.split("model\n")[1].split("---")[0]
    return [line.replace(">", " ").split() for line in block.splitlines() if line.strip()]


def test_a_student_can_check_the_softmax_from_the_printed_lines_alone() -> None:
    """Columns: position, piece, s, exp(s), weight, the model's, and a bar as long as the weight."""
    text = printed(explain(TRANSFORMER, "two red dogs."))
    rows = rows_of(text, "Softmax: the scores become shares")
    assert len(rows) == len(TRANSFORMER.tokenize_source("two red dogs.").ids)
    (total, _, _) = re.findall(r"sum +(\S+) +(\S+) +(\S+)\n", text)[0]
    exps = [Decimal(row[3]) for row in rows]
    assert sum(exps) == Decimal(total)
    for row, exp in zip(rows, exps, strict=True):
        assert Decimal(row[2]).exp().quantize(exp, ROUND_HALF_UP) == exp
        assert (exp / Decimal(total)).quantize(Decimal("0.0001"), ROUND_HALF_UP) == Decimal(row[4])
        assert abs(Decimal(row[4]) - Decimal(row[5])) <= Decimal("0.0002")
        bar = row[6] if len(row) > 6 else ""
        assert bar.count("█") == round(float(row[5]) * 20)


def test_of_many_keys_the_heaviest_are_shown_and_the_others_make_up_the_sum() -> None:
    shown = explain(TRANSFORMER, SENTENCES["long"])
    text = printed(shown)
    rows = rows_of(text, "Softmax: the scores become shares")
    assert len(shown.keys.labels) > 20
    assert len(rows) <= 15
    kept = [int(row[0]) for row in rows[:-1]]
    assert kept == sorted(kept)
    assert shown.word.row in kept
    weights = shown.weights[shown.head]
    assert set(weights.argsort()[::-1][:12].tolist()) <= set(kept)
    others = rows[-1]
    assert others[:2] == [str(len(shown.keys.labels) - len(kept)), "others"]
    total = Decimal(re.findall(r"sum +(\S+) +(\S+) +(\S+)\n", text)[0][0])
    assert sum(Decimal(row[3]) for row in rows[:-1]) + Decimal(others[2]) == total


def test_the_position_that_asks_and_what_it_may_not_see_are_marked() -> None:
    shown = explain(TRANSFORMER, "two red dogs.", "zwei rote", kind="decoder", word="rote")
    mask = printed(shown).split("The mask: ")[1].split("Softmax")[0].splitlines()
    lines = [line[3:] for line in mask if re.match(r"   [ >x] \d", line)]
    row = shown.word.row
    assert [line[0] for line in lines] == [" "] * row + [">"] + ["x"] * (len(lines) - row - 1)
    assert all(line.endswith("-∞") for line in lines[row + 1 :])


@pytest.mark.parametrize(
    ("given", "expected"),
    [("10000^{2i/d_model}", "10000^(2i/d_model)"), ("s_{i-1}", "s_(i-1)"), ("W^Q_i + d_k", "W^Q_i + d_k")],
)
def test_a_formula_stays_on_its_line(given: str, expected: str) -> None:
    assert formula(given) == expected
