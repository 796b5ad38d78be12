"""The source tree: no import cycles, meaningful module names, nothing that belongs to one machine."""

import ast
import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
FOLDERS = [".ci", "bench", "deploy", "docs", "scripts", "src", "tests"]
WRITTEN = sorted(
    path
    for path in [*ROOT.glob("*.*"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]
    if path.is_file() and path.name != ".git" and "__pycache__" not in path.parts  # .git is a file in a worktree
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def import_graph() -> grimp.ImportGraph:
    """Return every import, those inside functions too, but for one: a trace shows itself through what shows traces."""
    graph = grimp.build_graph("dragoman", cache_dir=None)
    for module in ("display", "view"):
        graph.remove_import(importer="dragoman.inspection.trace", imported=f"dragoman.inspection.{module}")
    return graph


def cycle_through(graph: grimp.ImportGraph, module: str) -> tuple[str, ...] | None:
    for imported in graph.find_modules_directly_imported_by(module):
        chain = graph.find_shortest_chain(importer=imported, imported=module)
        if imported == module or chain is not None:
            return (module, *(chain or ()))
    return None


def test_no_import_goes_round_in_a_circle() -> None:
    graph = import_graph()
    assert {f"dragoman.{package}" for package in ("attention", "models", "decoding")} <= graph.modules
    assert [cycle for module in sorted(graph.modules) if (cycle := cycle_through(graph, module))] == []


def test_a_circle_would_be_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]:
        graph.add_import(importer=importer, imported=imported)
    assert cycle_through(graph, "a") == ("a", "b", "c", "a")
    assert cycle_through(graph, "d") is None


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


SHARED_FILE_NAMES = {"__init__.py", "config.py"}
"""File names that mean the same in every package. A file in cli has the name of its command."""

FORBIDDEN = r"asked|said|told|wish|wishes|crew|door|spoken|ears|mend|mended|knock|borne|newcomer|heard|unheard|whoever"
"""Words of an earlier dialect: docs/design.md has the field's words for them."""

QUOTED = ["`asked.json` before", "fails as told"]
"""Example sentences, former names and a verdict of the lab that may contain them."""


def duplicates(names: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names with two or more places."""
    places: dict[str, list[str]] = {}
    for each, place in names:
        places.setdefault(each, []).append(place)
    return {each: where for each, where in places.items() if len(where) > 1}


def test_no_two_public_classes_share_a_name() -> None:
    classes = [
        (node.name, name(path))
        for path in SOURCE
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(classes) > 100
    assert duplicates(classes) == {}


def test_file_names_repeat_only_where_they_mean_the_same() -> None:
    own = [path for path in SOURCE if path.parent.name != "cli"]
    files = [(path.name, name(path)) for path in own if path.name not in SHARED_FILE_NAMES]
    assert duplicates(files) == {}


def test_the_words_of_the_old_dialect_are_gone() -> None:
    plain = re.compile(rf"(?<![a-z])(?:{FORBIDDEN})(?![a-z])", re.IGNORECASE)
    camel = re.compile(rf"(?<![A-Za-z])[A-Za-z]*(?:{'|'.join(word.title() for word in FORBIDDEN.split('|'))})(?![a-z])")
    folders = {"src", "docs", "scripts", ".ci", "bench", "deploy"}
    files = [path for path in WRITTEN if path.relative_to(ROOT).parts[0] in folders or path.parent == ROOT]
    found = [
        f"{name(path)}:{number}: {line.strip()[:80]}"
        for path in files
        if path.suffix not in {".png", ".safetensors", ".model"}
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if (plain.search(line) or camel.search(line)) and not any(quote in line for quote in QUOTED)
    ]
    assert found == []
