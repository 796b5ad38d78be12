"""The docs speak of what exists: the files, names, defaults and counts they give are those of the code."""

import ast
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from dragoman.data.augment import AugmentConfig
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.models import cost
from dragoman.models.config import FAMILIES, ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.models.presets import PRESETS, preset
from dragoman.recipes.catalog import library_path
from dragoman.recipes.recipe import load_recipe
from dragoman.training.config import (
    GuardConfig,
    GuidedAlignmentConfig,
    LossConfig,
    OptimizerConfig,
    ScheduleConfig,
    SnapshotConfig,
    StopConfig,
    TrainingConfig,
)

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dragoman"
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
CONFIGS: list[type[BaseModel]] = [
    TransformerConfig,
    RecurrentConfig,
    ConvolutionalConfig,
    SearchOptions,
    LengthLimit,
    Penalty,
    LossConfig,
    OptimizerConfig,
    ScheduleConfig,
    StopConfig,
    SnapshotConfig,
    GuardConfig,
    AugmentConfig,
    GuidedAlignmentConfig,
    TrainingConfig,
]

REFERENCE = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
DEFAULT = re.compile(r"`(\w+)\.(\w+)` = `([^`]*)`")
COUNT = re.compile(r"^\| `([\w.-]+)` \|(?: (\d*) ?\|)? (\d+\.\d\d) \|", re.MULTILINE)


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def names(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """What a file defines, members of classes by their dotted name."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                found |= names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found |= {prefix + target.id for target in targets if isinstance(target, ast.Name)}
    return found


def exists(path: str, name: str) -> bool:
    file = PACKAGE / path
    return file.is_file() and name in names(ast.parse(file.read_text(encoding="utf-8")).body)


def defaults() -> dict[tuple[str, str], str]:
    """Every option with its default, as the docs write it."""
    return {
        (config.__name__, name): str(field.get_default())
        for config in CONFIGS
        for name, field in config.model_fields.items()
        if not field.is_required()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_name_that_is_pointed_at_exists(page: Path) -> None:
    references = REFERENCE.findall(page.read_text(encoding="utf-8"))
    assert [f"{path}::{name}" for path, name in references if not exists(path, name)] == []


def test_a_name_that_does_not_exist_would_be_found() -> None:
    assert exists("decoding/penalty.py", "Penalty.divisor")
    assert not exists("decoding/penalty.py", "Penalty.quotient")
    assert not exists("decoding/penalties.py", "Penalty")
    assert len(REFERENCE.findall(read("paper.md"))) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_default_that_is_named_is_the_real_one(page: Path) -> None:
    said = {(owner, name): value for owner, name, value in DEFAULT.findall(page.read_text(encoding="utf-8"))}
    real = defaults()
    assert said == {option: real.get(option) for option in said}


def test_the_page_on_the_paper_lists_every_option_that_can_depart_from_it() -> None:
    said = {(owner, name) for owner, name, _ in DEFAULT.findall(read("paper.md"))}
    structure = {("TransformerConfig", "family"), ("SearchOptions", "penalty"), ("SearchOptions", "max_length")}
    structure |= {("TrainingConfig", part) for part in ("batch", "loss", "optimizer", "schedule", "stop", "guard")}
    structure |= {("TrainingConfig", part) for part in ("snapshots", "checkpoints", "validate_every", "log_every")}
    structure |= {("TrainingConfig", part) for part in ("augment", "guided_alignment")}
    structure.add(("TrainingConfig", "loader_workers"))
    assert {
        option for option in defaults() if option[0] not in {"RecurrentConfig", "ConvolutionalConfig"}
    } - structure - said == set()


def test_the_reference_lists_every_option() -> None:
    said = {(owner, name) for owner, name, _ in DEFAULT.findall(read("reference/models.md"))}
    models = {option for option in defaults() if option[0] in {config.__name__ for config in FAMILIES.values()}}
    assert said == models


@pytest.mark.parametrize("page", ["paper.md", "reference/presets.md"])
def test_parameters_printed_and_counted_are_the_real_ones(page: str) -> None:
    rows = COUNT.findall(read(page))
    assert len(rows) == {"paper.md": 11, "reference/presets.md": len(PRESETS)}[page]
    for name, printed, counted in rows:
        assert counted == f"{cost.parameters(preset(name)) / 1e6:.2f}", name
        row = PRESETS[name].printed
        assert printed == (str(row.parameters) if row and row.parameters else ""), name


def test_the_training_of_the_inspection_guide_is_the_dates_recipe_looked_at_every_30_updates() -> None:
    command = read("guides/inspect.md").partition("dragoman train dates/recipe.yaml")[2].partition("dragoman evolve")[0]
    changes = re.findall(r"--set (\S+)", command)
    training = load_recipe(library_path("dates"), changes).training
    assert (training.validate_every, training.stop.updates, training.schedule.warmup) == (30, 300, 60)


def test_every_picture_has_a_caption_below() -> None:
    pages = [ROOT / "README.md", *PAGES]
    pictures = [
        (page, line) for page in pages for line in page.read_text(encoding="utf-8").split("\n\n") if line[:2] == "!["
    ]
    assert len(pictures) > 6
    for page, picture in pictures:
        below = page.read_text(encoding="utf-8").partition(f"{picture}\n\n")[2].partition("\n\n")[0]
        assert re.fullmatch(r"\*[^*].*[^*]\*", below, re.DOTALL), f"{page.name}: {picture}"


def test_the_readme_leads_to_every_guide() -> None:
    linked = set(re.findall(r"\(docs/guides/([\w-]+)\.md\)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert linked == {page.stem for page in (DOCS / "guides").glob("*.md")}


def test_only_the_roadmap_speaks_of_what_is_missing() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(page for page in PAGES if page.stem != "roadmap")]
    promise = re.compile(r"\b(?:planned|not here yet|not supported yet|coming soon)\b|\| not yet \|", re.IGNORECASE)
    assert [page.name for page in pages if promise.search(page.read_text(encoding="utf-8"))] == []


def test_every_script_that_a_page_runs_exists() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
    scripts = {
        script
        for page in pages
        for script in re.findall(r"(?:bench|tests|scripts)/[\w/]+\.py", page.read_text(encoding="utf-8"))
    }
    assert len(scripts) > 30
    assert sorted(script for script in scripts if not (ROOT / script).is_file()) == []


def test_every_file_that_the_design_page_names_exists_and_is_short() -> None:
    page = read("design.md")
    files = [file for file in re.findall(r"`([a-z_]\w*(?:/\w+)*\.py)`", page) if file != "test_structure.py"]
    assert len(files) > 50
    assert [file for file in files if not (PACKAGE / file).is_file()] == []
    for title, most in (("`translate`", 12), ("`train`", 16), ("request", 12)):
        listed = page.partition(f"## The life of a {title}\n")[2].partition("\n## ")[0]
        steps = re.findall(r"^\d+\. `([\w/]+\.py)`", listed, re.MULTILINE)
        assert 5 < len(steps) <= most
        assert all(len((PACKAGE / step).read_text(encoding="utf-8").splitlines()) <= 500 for step in steps)
