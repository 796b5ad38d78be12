"""What tests of the service share: two tiny models that run without torch, and one service of the built-in one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for house.py
sys.path.insert(0, str(Path(__file__).parents[1] / "inspection"))  # for browser.py
sys.path.insert(0, str(Path(__file__).parents[2] / "chaos"))  # for serving.py
from browser import browser as browser
from house import House, opened

from dragoman.bundle import Card, demo_folder, open_bundle, write_bundle
from dragoman.data.alignment import AlignmentHead

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"


def made(folder: Path, title: str) -> Path:
    """The golden model with an alignment head and an export. Its card, and so its hash, is another for each title."""
    from dragoman.decoding.proof import export_bundle

    golden = open_bundle(GOLDEN)
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read")
    search = {**golden.info.search, "stop": "count"}
    info = golden.info.model_copy(update={"search": search, "alignment_heads": (head,)})
    card: Card = golden.card.model_copy(update={"title": title})
    write_bundle(folder, info, golden.weights(), golden.vocab, card)
    export_bundle(folder, texts=["two red dogs.", "ten old houses."], keep=False)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It knows a few dozen phrases, such as: two red dogs."""
    return made(tmp_path_factory.mktemp("tiny") / "model", "the one")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights under another hash."""
    return made(tmp_path_factory.mktemp("other") / "model", "the other")


@pytest.fixture(scope="session")
def demo() -> Iterator[House]:
    """One engine process with the built-in model."""
    with opened({"demo": demo_folder()}) as house:
        yield house


@pytest.fixture(scope="session")
def small(tiny: Path) -> Iterator[House]:
    """One engine process with the tiny model, which can align."""
    with opened({"tiny": tiny}) as house:
        yield house


@pytest.fixture
def idle() -> Iterator[House]:
    """A service whose engines were never started: enough for what is refused before one is asked."""
    house = House({})
    with house.runner:
        yield house
