"""A process on the stand-in accelerator computes what it computes on the CPU."""

from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(launch: Any, finish: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = finish(launch("alone.py", str(tmp_path_factory.mktemp("alone"))))[0]
    return found


def test_auto_is_the_accelerator(found: dict[str, Any]) -> None:
    assert found["chosen"] == {"auto": "standin:0", "cpu": "cpu", "second": "standin:1"}


CASES = ["transformer", "r_drop", "microbatches", "recompute", "guided", "bahdanau", "luong", "convs2s"]


@pytest.mark.parametrize("case", CASES)
def test_the_losses_are_those_of_the_cpu(found: dict[str, Any], case: str) -> None:
    on_cpu, on_device = found["updates"][case]
    assert len(on_cpu) == (50 if case == "transformer" else 5)
    assert on_device == pytest.approx(on_cpu, rel=1e-6)
    assert len(set(on_device)) == len(on_device)


def test_another_process_makes_the_batches_of_an_accelerator(found: dict[str, Any]) -> None:
    (cpu_workers, on_cpu), (device_workers, on_device) = (found["prefetched"][device] for device in ("cpu", "standin"))
    assert (cpu_workers, device_workers) == (0, 1)
    assert on_device == pytest.approx(on_cpu, rel=1e-6)


def test_bfloat16_is_that_of_the_device(found: dict[str, Any]) -> None:
    assert found["half"]["dtypes"] == {"float32": ["torch.float32"], "bfloat16": ["torch.bfloat16"]}
    whole, half = found["half"]["losses"]["float32"], found["half"]["losses"]["bfloat16"]
    assert half == pytest.approx(whole, rel=2e-2)
    assert half != pytest.approx(whole, rel=1e-6)


def test_an_update_waits_once_and_a_batch_launches_few_kernels(found: dict[str, Any]) -> None:
    (waits, kernels), *others = found["launches"].values()
    assert waits == 1  # for the sum of the losses, once per update
    assert kernels <= 300
    assert others == [[waits, kernels]]  # however many tokens


def test_too_little_memory_ends_in_microbatches(found: dict[str, Any]) -> None:
    memory = found["memory"]
    for name, count in (("once", 2), ("twice", 4)):  # as often as memory runs out
        assert memory[name]["microbatches"] == count
        assert memory[name]["emptied"] >= count // 2
        assert memory[name]["losses"] == pytest.approx(memory["free"], rel=1e-5)
        assert memory[name]["end"]["peak_memory"] > 0


@pytest.mark.parametrize("work", ["search", "sampling", "scoring", "rescoring", "validation"])
def test_a_batch_of_decoding_without_memory_is_halved(found: dict[str, Any], work: str) -> None:
    part = found["memory_of_decoding"][work]
    assert part["emptied"] > 0  # memory ran out
    free = part["free"]
    assert part["tight"] == (free if isinstance(free[0], str) else pytest.approx(free, rel=1e-5, abs=1e-5))


def test_a_checkpoint_moves_between_devices(found: dict[str, Any]) -> None:
    checkpoints = found["checkpoints"]
    assert checkpoints["moved"] == pytest.approx(checkpoints["straight"], rel=1e-5)
    devices = [(event["device_then"], event["device"]) for event in checkpoints["resumed"]]
    assert devices == [("cpu", "standin (a stand-in for tests)"), ("standin (a stand-in for tests)", "cpu")]


@pytest.mark.parametrize("bundle", ["v1", "v1-recurrent", "v1-convolutional"])
def test_a_model_translates_scores_and_is_inspected_there(found: dict[str, Any], bundle: str) -> None:
    on_cpu, on_device = (found["use"][bundle][device] for device in ("cpu", "standin"))
    for name in ("translated", "sampled", "begun", "with terms", "aligned", "alternatives"):
        assert on_device[name] == on_cpu[name], name
    for name in ("scores", "trace"):
        assert on_device[name] == pytest.approx(on_cpu[name], rel=1e-5)


def test_a_parent_computes_on_the_device_that_was_chosen(found: dict[str, Any]) -> None:
    """Before the training it translates old text, and afterwards the test sets, to be compared with."""
    on_cpu, on_device = (found["finetuned"][device] for device in ("cpu", "standin"))
    assert on_cpu["kernels"] == 0
    assert on_device["kernels"] > 0
    assert len(on_cpu["places"]) >= 3
    assert set(on_cpu["places"]) == {"cpu"}
    assert on_device["places"] == ["standin"] * len(on_cpu["places"])
    assert on_device["rows"] == on_cpu["rows"]
    assert [row["test_set"] for row in on_cpu["rows"]] == ["dev", "kept"]
