"""A model small enough to be loaded in every test, exported for CTranslate2, and shards to translate with it."""

from pathlib import Path

import pytest

from dragoman.bundle import Export, open_bundle, write_bundle
from dragoman.bundle.writing import store_export
from dragoman.export.ctranslate2 import weights_file

GOLDEN = Path(__file__).parents[3] / "golden" / "v1"


def exported(folder: Path, beam: int = 3) -> Path:
    """The golden model, searching as both engines can, with its export."""
    golden = open_bundle(GOLDEN)
    search = {**golden.info.search, "stop": "count", "beam_size": beam}
    info = golden.info.model_copy(update={"search": search})
    bundle = write_bundle(folder, info, golden.weights(), golden.vocab, golden.card)
    content = weights_file(bundle)
    store_export(folder, Export.untried(content), content)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("model") / "toy")


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but it searches otherwise."""
    return exported(tmp_path_factory.mktemp("model") / "other", beam=2)
