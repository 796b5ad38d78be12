"""Two and four processes on stand-in accelerators make the updates of one: DDP, FSDP2 and HSDP."""

from typing import Any

import pytest

pytestmark = pytest.mark.slow

Found = dict[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def found(launch: Any, finish: Any, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each process of one, two and four found; for HSDP, two machines with one device each, then two with two."""
    found = {}
    for processes, local in ((1, 1), (2, 1), (4, 2)):
        folder = str(tmp_path_factory.mktemp("joined"))
        found[processes] = finish(launch("joined.py", folder, processes=processes, local=local))
    return found


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "hsdp", "recompute"])
def test_the_losses_are_those_of_one_process(found: Found, processes: int, parallel: str) -> None:
    (alone,) = found[1]
    losses = [part[parallel]["losses"] for part in found[processes]]
    assert losses[0] == pytest.approx(alone[parallel]["losses"], rel=1e-5)
    assert losses[1:] == [[]] * (processes - 1)  # only the first reports
    assert len(set(losses[0])) == len(losses[0])


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "hsdp"])
def test_all_processes_keep_the_same_best_weights(found: Found, processes: int, parallel: str) -> None:
    (alone,) = found[1]
    weights = {part[parallel]["weights"] for part in found[processes]}
    assert len(weights) == 1
    assert weights.pop() == pytest.approx(alone[parallel]["weights"], rel=1e-5)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_each_process_has_a_device(found: Found, processes: int) -> None:
    assert [part["ddp"]["device"] for part in found[processes]] == [f"standin:{rank}" for rank in range(processes)]
