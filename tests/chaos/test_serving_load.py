"""The short forms of what is done to the service under traffic: engines killed, models changed, overload.

How fast it is must be measured on a machine at rest, by the long forms; here it is what must never happen. The tests of
what would happen without a protection may run beside others: a busy machine only makes it worse.
"""

from typing import Any

import pytest
import script_runner

SLOW_MS = 5000
"""Where the aim is a second: a machine that others use as well may be several times slower."""


def run(script: str, *arguments: str) -> dict[str, Any]:
    return script_runner.run(script, *arguments)[1]


@pytest.mark.load
def test_engines_are_killed_and_every_request_is_answered() -> None:
    values = run("engine_kills.py", "--seconds", "25", "--every", "4", "--rate", "10")
    assert values["kills"] >= 2
    assert (values["answered_share"], values["mixed_up"]) == (1.0, 0)


@pytest.mark.slow
def test_without_retries_killed_engines_would_cost_answers() -> None:
    values = run("engine_kills.py", "--seconds", "9", "--every", "4", "--rate", "20", "--without-retries")
    assert values["answered_share"] < 1.0


@pytest.mark.load
def test_reloads_and_a_handover_drop_no_request() -> None:
    values = run("reload_and_handover.py", "--seconds", "12", "--reloads", "2", "--rate", "10")
    assert [values[name] for name in ("dropped", "server_errors", "error", "nameless", "exit_code")] == [0] * 5
    assert values["models_seen"] == 2


@pytest.mark.slow
def test_without_a_successor_on_the_socket_requests_would_be_dropped() -> None:
    values = run("reload_and_handover.py", "--seconds", "2", "--reloads", "0", "--rate", "10", "--without-successor")
    assert values["dropped"] > 0


@pytest.mark.load
def test_under_overload_some_requests_are_answered_and_the_rest_get_retry_after() -> None:
    values = run("overload.py", "--seconds", "8")
    assert values["full_other"] == 0
    assert values["full_refused"] > 0
    assert values["full_p99_ms"] < SLOW_MS


@pytest.mark.load
def test_without_admission_control_requests_would_wait_ever_longer() -> None:
    # Eight times: a machine that others use as well may do twice as much a moment later.
    values = run("overload.py", "--seconds", "8", "--times", "8", "--without-refusing")
    assert values["full_refused"] == 0
    assert values["full_p99_ms"] > SLOW_MS


@pytest.mark.load
def test_texts_that_would_take_minutes_stop_nobody() -> None:
    values = run("exhaustion.py", "--seconds", "12", "--rate", "3", "--hostile", "4")
    assert values["engines_killed"] == 0
    assert values["hostile_answered"] + values["hostile_too_large"] >= 0.9 * values["hostile"]
    assert values["answered_share"] >= min(0.9, values["idle_answered_share"] - 0.1)
    assert values["p99_ms"] < max(SLOW_MS, 3 * values["idle_p99_ms"])


@pytest.mark.slow
def test_without_caps_such_texts_would_stop_the_service() -> None:
    values = run("exhaustion.py", "--seconds", "12", "--rate", "3", "--hostile", "4", "--without-caps")
    assert values["answered_share"] < 0.5
