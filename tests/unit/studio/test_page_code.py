"""Pages are written in the folder studio of a checkout: elsewhere is little page code, and one function makes files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman

SOURCES = Path(dragoman.__file__).parent
MOST_LINES = 250
TAGS = (
    "a|article|aside|b|bdi|body|button|canvas|caption|code|col|dd|details|div|dl|dt|em|figcaption|figure|footer|form|h1|h2|"
    "h3|head|header|html|i|iframe|img|input|label|li|link|main|mark|meta|nav|noscript|ol|option|output|p|path|pre|progress|"
    "rect|script|section|select|small|span|strong|style|sub|summary|sup|svg|table|tbody|td|textarea|th|thead|title|tr|ul"
)
MARKUP = re.compile(rf"(?<!\?P)</?({TAGS})(\s[^<>]*)?(>|$)")
STYLE = re.compile(
    r"(^|[\s;{])(background|border|color|cursor|display|fill|float|font|grid|height|margin|opacity|overflow|padding|"
    r"position|stroke|transform|width|white-space)(-[a-z-]+)?\s*:[^;{}]+[;}]"
)
SCRIPT = re.compile(
    r"\b(document|window)\.[a-z]|addEventListener|\bfunction\s*\w*\s*\(|\)\s*=>|\b(const|let|var) \w+ ="
)


def count_page_code(folder: Path) -> dict[str, int]:
    """The lines of HTML, CSS and JavaScript by file: all of a page file, and those of the strings in a Python file."""
    counts = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith("studio/static/"):
            continue
        if path.suffix in {".html", ".css", ".js", ".mjs", ".svg"}:
            counts[name] = len(path.read_text(encoding="utf-8").splitlines())
        if path.suffix == ".py" and (lines := page_lines(path.read_text(encoding="utf-8"))):
            counts[name] = len(lines)
    return counts


def page_lines(code: str) -> set[int]:
    tree = ast.parse(code)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    lines = set[int]()
    for node in ast.walk(tree):
        if id(node) not in prose and isinstance(node, ast.JoinedStr | ast.Constant):
            text = "".join(texts(node))
            if any(pattern.search(text) for pattern in (MARKUP, STYLE, SCRIPT)):
                lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def texts(node: ast.JoinedStr | ast.Constant) -> Iterator[str]:
    """The parts of a string, with x in place of what it is filled with."""
    for part in node.values if isinstance(node, ast.JoinedStr) else [node]:
        yield part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "x"


def test_there_is_little_page_code_outside_of_the_studio() -> None:
    counts = count_page_code(SOURCES)
    assert "inspection/viewer_page.html" in counts
    assert "triage/report_page.py" in counts
    assert sum(counts.values()) <= MOST_LINES, counts


def test_one_function_writes_all_self_contained_files() -> None:
    whole = [path for path in SOURCES.rglob("*.*") if path.suffix in {".html", ".py"} and is_whole(path)]
    pages = {path.relative_to(SOURCES).as_posix() for path in whole}
    assert {name for name in pages if not name.startswith("studio/static/")} == {"inspection/viewer_page.html"}
    users = [path.name for path in SOURCES.rglob("*.py") if "viewer_page.html" in path.read_text(encoding="utf-8")]
    assert users == ["html_file.py"]


def is_whole(path: Path) -> bool:
    return "<!doctype html>" in path.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(
    "line",
    [
        'text = f"<p class={name}>{name}</p>"',
        'text = "<li>" + name',
        'style = "display: grid; gap: 1rem"',
        'script = "document.querySelector(name)"',
        'script = "rows.map((row) => row.cells)"',
    ],
)
def test_page_code_in_a_string_is_counted(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.py").write_text(f'"""Return a <p> element."""\nname = "</s>"\n{line}\n', encoding="utf-8")
    (tmp_path / "b.css").write_text("p {\n}\n", encoding="utf-8")
    assert count_page_code(tmp_path) == {"a.py": 1, "b.css": 2}
