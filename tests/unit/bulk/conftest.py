"""A model small enough to be loaded in every test, exported for CTranslate2, and shards to translate with it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.bulk.shard_manifest import BulkSettings
from dragoman.bulk.shard_worker import choose_settings
from dragoman.bundle import Export, open_bundle, write_bundle
from dragoman.bundle.writing import store_export
from dragoman.export.ctranslate2 import weights_file
from dragoman.translation.translate_request import TranslateRequest

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"


def exported(folder: Path, beam: int = 3) -> Path:
    """The golden model, searching as both engines can, with its export."""
    golden = open_bundle(GOLDEN)
    search = {**golden.info.search, "stop": "count", "beam_size": beam}
    info = golden.info.model_copy(update={"search": search})
    bundle = write_bundle(folder, info, golden.weights(), golden.vocab, golden.card)
    content = weights_file(bundle)
    store_export(folder, Export.unchecked(content), content)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("model") / "toy")


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but it searches otherwise."""
    return exported(tmp_path_factory.mktemp("model") / "other", beam=2)


@pytest.fixture(scope="session")
def german_settings() -> Callable[[Path], BulkSettings]:
    """Return the settings of a run of a model that writes the field "german"."""

    def settings(model: Path) -> BulkSettings:
        request = TranslateRequest(model, shards="*", out=Path("out"), into="german")
        return choose_settings(open_bundle(model), request, lambda text: None)

    return settings
