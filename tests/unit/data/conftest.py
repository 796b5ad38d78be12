"""Real text for whatever should be tried on more than made-up lines."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of corpora in $DRAGOMAN_DATA, or else shared/data beside the project."""
    folder = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
    if not (folder / "multi30k").is_dir():
        pytest.skip(f"no corpora in {folder}: set DRAGOMAN_DATA")
    return folder
