import os

from dragoman.experiment.machine import is_fast_in_bfloat16, parse_meminfo, this_machine


def test_a_cpu_is_fast_in_bfloat16_if_it_says_so() -> None:
    assert is_fast_in_bfloat16("flags\t\t: fpu avx512f avx512_bf16 sse\n")
    assert is_fast_in_bfloat16("flags\t\t: fpu amx_bf16 amx_tile\n")
    assert not is_fast_in_bfloat16("flags\t\t: fpu avx2 avx512f amx_tile not_avx512_bf16\n")
    assert not is_fast_in_bfloat16("")


def test_free_memory_is_what_could_be_given_away() -> None:
    assert parse_meminfo("MemTotal:       3000 kB\nMemFree:         100 kB\nMemAvailable:    2000 kB\n") == 2000 * 1024
    assert parse_meminfo("") is None


def test_this_machine_has_the_cores_this_process_may_use() -> None:
    machine = this_machine()
    assert 1 <= machine.cores <= len(os.sched_getaffinity(0))
    assert machine.memory is None or 0 <= machine.memory < 1 << 50
