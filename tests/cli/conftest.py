"""What tests of commands share: the golden model as it is used in production."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for short.py
from short import write

from dragoman.bundle.alignment_head import AlignmentHead

NUMBERS, NOUNS = ("two", "three", "four", "ten"), ("dogs", "houses", "tables", "women")
GOLDEN = Path(__file__).parents[1] / "golden" / "v1"


@pytest.fixture(scope="session", autouse=True)
def _forks(forks: None) -> None:
    """Let commands start in milliseconds."""


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden model with an alignment head and an export: it runs without torch."""
    from dragoman.bundle import open_bundle, write_bundle
    from dragoman.translation.export_check import export_bundle

    golden, folder = open_bundle(GOLDEN), tmp_path_factory.mktemp("exported") / "model"
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read")
    search = {**golden.info.search, "stop": "count"}
    info = golden.info.model_copy(update={"search": search, "alignment_heads": (head,)})
    write_bundle(folder, info, golden.weights(), golden.vocab, golden.card)
    export_bundle(folder, texts=[f"{number} old {noun}." for number in NUMBERS for noun in NOUNS], keep=False)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With all that a short training needs."""
    write(tmp_path)
    return tmp_path
