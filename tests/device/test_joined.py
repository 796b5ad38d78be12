"""Two processes on two stand-in accelerators make the updates of one: DDP, FSDP2 and HSDP."""

from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(launch: Any, finish: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What one process found, and what each of two did, which for HSDP are on two pretend machines."""
    alone, both = (str(tmp_path_factory.mktemp(name)) for name in ("alone", "both"))
    found: list[dict[str, Any]] = finish([*launch("joined.py", alone), *launch("joined.py", both, processes=2)])
    return found


@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "hsdp", "recompute"])
def test_the_losses_are_those_of_one_process(found: list[dict[str, Any]], parallel: str) -> None:
    alone, first, second = (part[parallel] for part in found)
    assert first["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    assert second["losses"] == []  # only the first reports
    assert len(set(alone["losses"])) == len(alone["losses"])


@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "hsdp"])
def test_all_processes_keep_the_same_best_weights(found: list[dict[str, Any]], parallel: str) -> None:
    alone, first, second = (part[parallel] for part in found)
    assert first["weights"] == second["weights"] == pytest.approx(alone["weights"], rel=1e-5)


def test_each_process_has_a_device(found: list[dict[str, Any]]) -> None:
    assert [part["ddp"]["device"] for part in found] == ["standin:0", "standin:0", "standin:1"]
