import os

import pytest

from dragoman.io import processes
from dragoman.io.processes import num_cores


def test_a_process_counts_the_cores_that_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 6}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(processes, "cpu_quota", lambda: None)
    assert num_cores() == 3


@pytest.mark.parametrize(("there", "counted"), [(8, 8), (None, 1)])
def test_where_the_system_does_not_say_all_of_them_count(
    there: int | None, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: there)
    monkeypatch.setattr(processes, "cpu_quota", lambda: None)
    assert num_cores() == counted
