"""The short forms of what is done to the service under traffic: engines killed, models changed, far too much asked.

How fast it is must be measured on a machine at rest, by the long forms; here it is what must never happen.
"""

from typing import Any

import pytest
import scripted

SLOW_MS = 5000
"""Where the aim is a second: this machine has other tests to run."""


def run(script: str, *arguments: str) -> dict[str, Any]:
    return scripted.run(script, *arguments)[1]


@pytest.mark.slow
def test_engines_are_killed_and_every_request_is_answered() -> None:
    values = run("engine_kills.py", "--seconds", "21", "--every", "4", "--rate", "10")
    assert values["kills"] >= 3
    assert (values["answered_share"], values["mixed_up"]) == (1.0, 0)


@pytest.mark.slow
def test_without_retries_killed_engines_would_cost_answers() -> None:
    values = run("engine_kills.py", "--seconds", "9", "--every", "4", "--rate", "20", "--without-retries")
    assert values["answered_share"] < 1.0


@pytest.mark.slow
def test_models_and_the_service_itself_change_and_nobody_notices() -> None:
    values = run("change_of_guard.py", "--seconds", "12", "--reloads", "2", "--rate", "10")
    assert [values[name] for name in ("dropped", "server_errors", "wrong", "nameless", "exit_code")] == [0] * 5
    assert values["models_seen"] == 2


@pytest.mark.slow
def test_without_an_heir_to_the_socket_requests_would_be_dropped() -> None:
    values = run("change_of_guard.py", "--seconds", "2", "--reloads", "0", "--rate", "10", "--without-heir")
    assert values["dropped"] > 0


@pytest.mark.slow
def test_of_far_too_many_requests_some_are_answered_and_the_rest_refused_with_a_time_to_come_again() -> None:
    values = run("overload.py", "--seconds", "8")
    assert values["full_other"] == 0
    assert values["full_refused"] > 0
    assert values["full_p99_ms"] < SLOW_MS


@pytest.mark.slow
def test_if_everybody_were_let_in_all_would_wait_ever_longer() -> None:
    # Eight times: what it can do is measured beside other tests, and may be twice that when its turn has come.
    values = run("overload.py", "--seconds", "8", "--times", "8", "--without-refusing")
    assert values["full_refused"] == 0
    assert values["full_p99_ms"] > SLOW_MS
