"""The choice of a device on a machine without an accelerator, and the calls that every device shares."""

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ctranslate2
import pytest
import torch

from dragoman.bundle import open_bundle
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.device import (
    autocast,
    autocast_dtype,
    check_device,
    choose_ctranslate2_device,
    choose_device,
    choose_kind,
    copy_to_device,
    copy_to_host,
    count_devices,
    cpu,
    describe_device,
    has_fused_adam,
    is_lost_peer,
    is_out_of_memory,
    keep_random_state,
    peak_memory,
    process_backend,
    why_not_ctranslate2,
)
from dragoman.io.processes import num_cores
from dragoman.serving.config import ServiceConfig

SOURCE = Path(__file__).parents[2] / "src" / "dragoman"
NAMES = re.compile(r"(?<![a-z])(cpu|cuda|mps|xpu|gloo|nccl)(?![a-z])")


def device_names(path: Path) -> list[str]:
    """Return the strings of a source file, other than docstrings, that name a device or a backend."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [
        f"{path.name}:{node.lineno}: {node.value}"
        for node in strings
        if node not in bare and NAMES.search(node.value) and " " not in node.value
    ]


def test_only_one_file_names_devices_and_backends() -> None:
    found = {path: names for path in SOURCE.rglob("*.py") if (names := device_names(path))}
    found.pop(SOURCE / "io" / "cgroup.py", None)  # `cpu` is also what the kernel calls its limit of processor time
    assert list(found) == [SOURCE / "device.py"], found


def test_a_search_for_accelerators_and_backends_finds_one_file() -> None:
    """In code, comments, messages and help; the pages of the studio are built elsewhere."""
    names = re.compile(r"(?<![a-z])(cuda|rocm|nccl|gloo|mps|xpu)(?![a-z])", re.IGNORECASE)
    files = [path for path in SOURCE.rglob("*") if path.suffix in (".py", ".yaml", ".json", ".toml")]
    found = [path.relative_to(SOURCE).as_posix() for path in files if names.search(path.read_text(encoding="utf-8"))]
    assert found == ["device.py"]


def test_a_device_named_elsewhere_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text('"""The cpu."""\nx.to("cuda:0")\ny = f"cpu:{name}"\nz = "cpuinfo"\n')
    assert device_names(path) == ["file.py:2: cuda:0", "file.py:3: cpu:"]


@pytest.fixture
def no_accelerator() -> None:
    if torch.accelerator.current_accelerator(check_available=True) is not None:
        pytest.skip("this machine has an accelerator")


@pytest.mark.usefixtures("no_accelerator")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_torch_is_imported_takes_effect_afterwards(name: str, tmp_path: Path) -> None:
    """The stand-in for torch gets the signal at a moment in which the real one would abort the process."""
    (tmp_path / "torch.py").write_text(
        f"import os, signal\nos.kill(os.getpid(), signal.{name})\nprint('imported', flush=True)\n", encoding="utf-8"
    )
    code = f"""
import signal, sys
sys.path.insert(0, {str(tmp_path)!r})
signal.signal(signal.{name}, lambda *_: sys.exit(7))
from dragoman.device import load_torch
load_torch()
print("went on")
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (7, "imported\n"), process.stderr


def test_auto_is_the_cpu_where_there_is_nothing_else() -> None:
    assert choose_device() == choose_device("auto") == choose_device("cpu") == cpu()
    assert choose_kind() == "cpu"
    assert count_devices("auto") == count_devices("cpu") == 0


@pytest.mark.usefixtures("no_accelerator")
@pytest.mark.parametrize("name", ["cuda", "cuda:3", "mps", "xpu"])
def test_an_accelerator_that_is_not_there_is_one_clear_line(name: str) -> None:
    for choose in (choose_device, choose_kind, count_devices):
        with pytest.raises(
            ValueError, match=rf"device {name} is not available: torch .* finds no accelerator"
        ) as error:
            choose(name)
        assert "\n" not in str(error.value)


def test_a_build_for_an_accelerator_that_is_not_there_means_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA wheel on a machine without a GPU names CUDA, unless torch is asked for a device that can be used."""

    def built_for(check_available: bool = False) -> torch.device | None:
        return None if check_available else torch.device("cuda")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", built_for)
    assert choose_device("auto") == cpu()
    assert count_devices("auto") == 0
    with pytest.raises(ValueError, match=r"device cuda is not available: torch .* finds no accelerator"):
        choose_device("cuda")


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Three CUDA devices, for torch and CTranslate2; the list has the numbers that were made current."""
    current: list[int] = []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 3)
    monkeypatch.setattr(torch.accelerator, "set_device_index", current.append)
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 3)
    for name in ("LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return current


def test_a_process_takes_the_accelerator_with_its_number(
    three_gpus: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_device() == torch.device("cuda:0")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert choose_device("cpu") == cpu()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda:2")
    assert three_gpus == [0, 1, 2, 2]
    assert [count_devices(name) for name in ("auto", "cuda", "cuda:1", "cpu")] == [3, 3, 1, 0]


def test_an_accelerator_that_a_process_cannot_have_is_named(
    three_gpus: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="no device cuda:3: this machine has 3; give cuda:0 to cuda:2"):
        choose_device("cuda:3")
    with pytest.raises(ValueError, match=r"device mps is not available: .* finds only cuda devices"):
        choose_device("mps")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="cuda:1 is a single device for several processes: leave out :1"):
        choose_device("cuda:1")
    monkeypatch.setenv("LOCAL_RANK", "3")
    with pytest.raises(ValueError, match="no device cuda:3: this machine has 3; start at most 3 processes"):
        choose_device("cuda")
    assert three_gpus == []


@pytest.mark.usefixtures("three_gpus")
def test_ctranslate2_computes_on_all_gpus_or_on_the_one_that_is_named() -> None:
    assert choose_ctranslate2_device("auto") == choose_ctranslate2_device("cuda") == ("cuda", [0, 1, 2])
    assert choose_ctranslate2_device("cuda:2") == ("cuda", [2])
    assert choose_ctranslate2_device("cpu").is_cpu
    with pytest.raises(ValueError, match="finds 3 CUDA devices; give cuda:0 to cuda:2"):
        choose_ctranslate2_device("cuda:3")


@pytest.mark.usefixtures("three_gpus")
def test_the_compute_types_are_those_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"cpu": {"float32", "int8", "int16"}, "cuda": {"float32", "float16", "int8"}}
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda device, _: types[device])
    bundle = open_bundle("demo")
    for device, compute, others in (("cuda", "int16", "float32, int8, float16"), ("cpu", "float16", "int16, int8")):
        with pytest.raises(ValueError, match=f"{compute} is not supported .* this {device} device: use .*{others}"):
            CTranslate2Engine.load(bundle, compute=compute, device=device)  # type: ignore[arg-type]


@pytest.mark.usefixtures("three_gpus")
def test_on_gpus_one_process_serves_all_of_them() -> None:
    config = ServiceConfig({"demo": Path("demo")}, device="auto")
    assert config.num_engines == 1
    assert replace(config, engines=2).num_engines == 2
    assert replace(config, device="cpu").num_engines == num_cores()


@pytest.mark.parametrize("name", ["", "GPU", "cuda:", "cuda:x", "cuda 1", "cuda:1:2"])
def test_what_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a device: give one of auto, cpu, cuda"):
        check_device(name, "--device")


def test_autocast_is_that_of_the_device() -> None:
    assert autocast_dtype(cpu()) is None
    with autocast(cpu()):
        assert autocast_dtype(cpu()) is torch.bfloat16
        assert (torch.ones(2, 3) @ torch.ones(3, 5)).dtype is torch.bfloat16
        with autocast(cpu(), enabled=False):
            assert autocast_dtype(cpu()) is None


def test_the_cpu_needs_no_copies_and_one_backend() -> None:
    tensor = torch.arange(3.0, requires_grad=True)
    assert copy_to_device(tensor, cpu()) is tensor
    copy = copy_to_host(tensor)
    assert copy.data_ptr() != tensor.data_ptr()
    assert not copy.requires_grad
    assert process_backend(cpu()) == "gloo"
    assert describe_device(cpu()) == "cpu"
    assert peak_memory(cpu()) is None
    assert has_fused_adam(cpu())


def test_random_numbers_within_the_block_change_nothing_outside() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with keep_random_state(cpu()):
        torch.rand(5)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5555"), True),
        (torch.distributed.DistBackendError("NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited"), True),
        (RuntimeError("NCCL communicator was aborted on rank 1."), True),
        (torch.distributed.DistBackendError("[1] is setting up NCCL communicator: Connection reset by peer"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("a file named gloo"), False),
    ],
)
def test_a_lost_process_is_recognised_by_the_error_of_a_collective(error: Exception, is_lost: bool) -> None:
    assert is_lost_peer(error) is is_lost


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"), False),
    ],
)
def test_lack_of_memory_is_recognised_by_the_error(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


def test_ctranslate2_computes_on_cpus_and_cuda_only() -> None:
    assert why_not_ctranslate2("auto") is why_not_ctranslate2("cpu") is why_not_ctranslate2("cuda:1") is None
    assert why_not_ctranslate2("mps") == "CTranslate2 does not run on mps devices"
    assert choose_ctranslate2_device("cpu") == ("cpu", [0])
    assert {"float32", "int8"} <= choose_ctranslate2_device("cpu").supported()


@pytest.mark.usefixtures("no_accelerator")
def test_ctranslate2_without_a_gpu() -> None:
    assert choose_ctranslate2_device("auto").is_cpu
    with pytest.raises(ValueError, match="device cuda is not available: CTranslate2 finds 0 CUDA devices; give cpu"):
        choose_ctranslate2_device("cuda")
