"""The shape of the house itself: small files, small functions, one direction, nothing left lying about."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
FOLDERS = [".ci", "bench", "deploy", "docs", "recipes", "scripts", "src", "tests"]
WRITTEN = sorted(
    path
    for path in [*ROOT.glob("*.*"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]
    if path.is_file() and "__pycache__" not in path.parts
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def cycle_through(graph: grimp.ImportGraph, module: str) -> tuple[str, ...] | None:
    for imported in graph.find_modules_directly_imported_by(module):
        chain = graph.find_shortest_chain(importer=imported, imported=module)
        if imported == module or chain is not None:
            return (module, *(chain or ()))
    return None


def test_no_import_goes_round_in_a_circle() -> None:
    graph = grimp.build_graph("dragoman", cache_dir=None)
    assert {f"dragoman.{room}" for room in ("attention", "models", "decoding")} <= graph.modules
    assert [cycle for module in sorted(graph.modules) if (cycle := cycle_through(graph, module))] == []


def test_a_circle_would_be_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]:
        graph.add_import(importer=importer, imported=imported)
    assert cycle_through(graph, "a") == ("a", "b", "c", "a")
    assert cycle_through(graph, "d") is None


def test_no_source_file_is_longer_than_400_lines() -> None:
    assert {name(path): lines(path) for path in SOURCE if lines(path) > 400} == {}


def test_source_files_are_short_in_the_median() -> None:
    rooms = [path for path in SOURCE if path.name != "__init__.py"]
    assert median(lines(path) for path in rooms) <= 150


def test_no_function_is_longer_than_60_lines() -> None:
    length = {
        f"{name(path)}::{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in SOURCE
        for node in functions(path)
    }
    assert {where: count for where, count in length.items() if count > 60} == {}


def test_every_module_is_named_by_what_it_holds() -> None:
    assert [name(path) for path in SOURCE if path.stem in {"utils", "helpers", "common", "constants", "misc"}] == []


def test_every_source_file_opens_by_saying_what_it_is_for() -> None:
    silent = [name(path) for path in SOURCE if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert silent == []


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("a path of one machine", r"(?<![\w.])/(?:work|root|home|Users)/"),
        ("a note of something left undone", r"\b(?:TO[D]O|FIX[M]E|XX[X])\b"),
        ("the address of a package registry", r"py[p]i\.org|python[h]osted|download\.py[t]orch"),
    ],
)
def test_nothing_written_here_holds(what: str, pattern: str) -> None:
    assert len(WRITTEN) > len(SOURCE)
    found = [
        f"{name(path)}:{number}"
        for path in WRITTEN
        if path.suffix not in {".png", ".gz", ".safetensors", ".model", ".trace"}
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if re.search(pattern, line)
    ]
    assert found == [], f"{what}: {found}"


def test_the_constraints_hold_what_the_installer_needs() -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    assert tuple(map(int, pins["pip"].split("."))) >= (25, 3), "scripts/install uses --build-constraint"
    assert {name: version for name, version in pins.items() if "+" in version} == {}, "a build of one machine"
