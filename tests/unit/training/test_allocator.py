import ctypes
import subprocess
import sys

import pytest

from dragoman.training.allocator import keep_freed_memory, release_free_memory


class Allocator:
    """A C library that remembers what its allocator was told."""

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.told: list[tuple[int, int]] = []

    def mallopt(self, name: int, value: int) -> int:
        self.told.append((name, value))
        return self.answer


def test_every_wish_is_told_even_if_the_first_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in (1, 0):
        library = Allocator(answer)
        monkeypatch.setattr(ctypes, "CDLL", lambda _, library=library: library)
        assert keep_freed_memory() is bool(answer)
        # as malloc.h numbers them: M_MMAP_MAX -4, M_TRIM_THRESHOLD -1, M_TOP_PAD -2
        assert [name for name, _ in library.told] == [-4, -1, -2]


def test_where_nobody_listens_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert keep_freed_memory() is False
    monkeypatch.setattr(sys, "platform", "win32")
    assert keep_freed_memory() is False
    assert release_free_memory() is False


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_what_lies_free_goes_back_to_the_system() -> None:
    """Holes between blocks that stay: in another process, whose memory is all its own."""
    code = """
import ctypes, resource
from pathlib import Path
from dragoman.training.allocator import release_free_memory, keep_freed_memory
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
assert keep_freed_memory()
blocks = [bytearray(1 << 20) for _ in range(200)]
kept = blocks[::2]
del blocks
before = resident()
assert release_free_memory()
print(before - resident())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 50 << 20
