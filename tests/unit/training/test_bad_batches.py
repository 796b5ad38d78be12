"""The short form of tests/chaos/bad_batches.py."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PLACE = Path(__file__).parents[2] / "chaos" / "bad_batches.py"
spec = importlib.util.spec_from_file_location("bad_batches", PLACE)
assert spec is not None
assert spec.loader is not None
chaos = importlib.util.module_from_spec(spec)
spec.loader.exec_module(chaos)


@pytest.mark.parametrize("way", chaos.WAYS)
def test_a_bad_batch_leaves_no_trace_and_is_named_and_the_run_goes_on(way: str, tmp_path: Path) -> None:
    assert chaos.run(way, 55, True, tmp_path) == {"untouched": True, "named": True, "went_on": True}


@pytest.mark.parametrize("way", chaos.WAYS)
def test_with_nobody_on_guard_it_would_do_harm(way: str, tmp_path: Path) -> None:
    assert chaos.run(way, 55, False, tmp_path)["untouched"] is False
