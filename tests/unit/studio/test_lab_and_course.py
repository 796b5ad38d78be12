"""What Lab and Lesson show is what is stored: the results in docs/lab, and the chapters in docs/course."""

import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from urllib.parse import parse_qs

import pytest
from fastapi.testclient import TestClient

from dragoman.lab.run_experiment import experiment_names, read_result
from dragoman.studio.lab_and_course import (
    Chapter,
    CodeBlock,
    FigureBlock,
    LabExperiment,
    OpenBlock,
    QuizBlock,
    Text,
    load_course,
    load_lab,
)
from dragoman.studio.studio_app import create_app

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
from studio_lab_and_course import read_chapter  # noqa: E402

CHAPTERS = sorted((ROOT / "docs" / "course").glob("??-*.md"))
HOST = "127.0.0.1:5100"


def plain(text: Text) -> str:
    return "".join(span.text for span in text)


def chapter(number: int) -> Chapter:
    return load_course().chapters[number - 1]


def test_reading_them_needs_no_torch() -> None:
    code = """
import sys
from dragoman.studio.lab_and_course import load_course, load_lab
assert load_lab().experiments and load_course().chapters
assert not {"torch", "matplotlib", "markdown_it"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_they_need_the_token_and_are_what_is_stored() -> None:
    client = TestClient(create_app({}, "token", frozenset({HOST})), f"http://{HOST}")  # type: ignore[arg-type]
    for path, stored in (("/api/lab", load_lab()), ("/api/course", load_course())):
        assert client.get(path).status_code == 401
        answer = client.get(path, headers={"authorization": "Bearer token"})
        assert type(stored).model_validate_json(answer.content) == stored


@pytest.mark.parametrize("shown", load_lab().experiments, ids=lambda shown: shown.name)
def test_the_numbers_of_an_experiment_are_those_of_its_result(shown: LabExperiment) -> None:
    file = ROOT / "docs" / "lab" / f"{shown.name}.json"
    if not file.exists():
        assert (shown.verdict, shown.panels, shown.intervals, shown.lesson) == (None, (), {}, ())
        return
    result = read_result(file)
    assert (shown.verdict, shown.intervals, shown.criteria) == (result.verdict, result.intervals, result.criteria)
    assert len(shown.outcomes) == len(shown.criteria)
    verdicts = {(True,): "holds", (False,): "fails as told"}
    assert verdicts.get(tuple(set(shown.outcomes)), "depends") == shown.verdict
    for index, panel in enumerate(shown.panels):
        of_seeds = [seed.measurement.panels[index] for seed in result.seeds]
        for line in panel.lines:
            columns = list(zip(*(one.lines[line.name] for one in of_seeds), strict=True))
            assert line.mean == pytest.approx([fmean(column) for column in columns], rel=1e-5)
            assert line.low == pytest.approx([min(column) for column in columns], rel=1e-5)
            assert line.high == pytest.approx([max(column) for column in columns], rel=1e-5)


def test_all_experiments_are_there() -> None:
    assert [one.name for one in load_lab().experiments] == experiment_names()


@pytest.mark.parametrize("file", CHAPTERS, ids=lambda file: file.stem)
def test_a_chapter_has_all_of_its_file(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    shown = chapter(int(file.stem[:2]))
    assert text.startswith(f"# {shown.title}\n")
    codes = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert [(one.language, one.code) for one in shown.blocks if isinstance(one, CodeBlock)] == codes
    answers = re.findall(r"<summary>Answer</summary>([A-E])\.", text)
    quizzes = [one for one in shown.blocks if isinstance(one, QuizBlock)]
    assert ["ABCDE"[one.answer] for one in quizzes] == answers
    assert len(quizzes) >= 2
    assert all(len(one.choices) == 4 and plain(one.reason) for one in quizzes)
    figures = [one.experiment for one in shown.blocks if isinstance(one, FigureBlock)]
    assert figures == re.findall(r"^!\[.*\]\(\.\./lab/(.+)\.svg\)$", text, re.MULTILINE)
    assert set(figures) <= set(experiment_names())


@pytest.mark.parametrize("file", CHAPTERS, ids=lambda file: file.stem)
def test_every_word_of_a_chapter_s_text_is_shown(file: Path) -> None:
    shown = "".join(block.model_dump_json() for block in chapter(int(file.stem[:2])).blocks)
    text = re.sub(
        r"^```.*?^```$|<!--.*?-->|^!\[[^\n]*\)$", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.M
    )
    if "studio.png" not in file.read_text(encoding="utf-8"):  # its caption is left out with it
        words = re.findall(r"[a-zA-ZäöüÄÖÜß]{4,}", re.sub(r"\]\([^)]*\)|<[^>]*>", " ", text.partition("\n")[2]))
        assert len(words) > 150
        assert {word for word in words if word not in shown} <= {"Answer"}


def test_a_sentence_to_open_is_one_of_its_chapter_and_its_view_exists() -> None:
    views = re.search(r"VIEWS = \[(.+)\]", (ROOT / "studio" / "src" / "lib" / "state.ts").read_text(encoding="utf-8"))
    assert views
    count = 0
    for file, shown in zip(CHAPTERS, load_course().chapters, strict=True):
        text = re.sub(r"<!--.*?-->", "", file.read_text(encoding="utf-8"))
        for block in shown.blocks:
            if isinstance(block, OpenBlock):
                fields = {name: values[0] for name, values in parse_qs(block.link, strict_parsing=True).items()}
                assert f'"{fields["view"]}"' in views[1]
                if "text" in fields:
                    sentence = fields["text"].removesuffix(" .").replace("thirsty", "{word}")
                    assert sentence in text, (file.name, sentence)
                    count += 1
    assert count >= 8


def test_the_links_of_a_chapter_lead_to_views_or_nowhere() -> None:
    shown = read_chapter(
        "# 1. A\n\n[One](02-recurrence.md), [two](../lab.md#salience), [three](../reference/presets.md) and *four*.\n",
        "Why?",
    )
    (block,) = shown.blocks
    assert block.kind == "paragraph"
    assert [(span.text, span.link, span.style) for span in block.text] == [
        ("One", "view=lesson&chapter=2", "plain"),
        (", ", None, "plain"),
        ("two", "view=lab&experiment=salience", "plain"),
        (", three and ", None, "plain"),
        ("four", None, "em"),
        (".", None, "plain"),
    ]


@pytest.mark.parametrize(
    "markdown",
    [
        "<script>alert(1)</script>",
        "A <b>word</b>.",
        "1. one\n2. two",
        "**Why?** A: one. C: two.\n\n<details><summary>Answer</summary>A. So.</details>",
        "**Why?** A: one. B: two.\n\n<details><summary>Answer</summary>D. So.</details>",
        "**Why?** A: one. B: two.\n\nAn answer.",
        "```java\ncode\n```",
    ],
)
def test_what_the_studio_cannot_show_is_an_error(markdown: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_chapter(f"# 1. A\n\n{markdown}\n", "Why?")
