"""Spans are recorded only if the environment asks for them."""

import subprocess
import sys

import pytest

from dragoman.serving.request_spans import Tracing

OFF: list[dict[str, str]] = [
    {},
    {"OTEL_SERVICE_NAME": "shop"},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
]


def fail(event: str, **fields: object) -> None:
    raise AssertionError(event)


@pytest.mark.parametrize("environment", OFF)
def test_without_an_exporter_nothing_is_recorded(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Tracing.from_environment(fail) is None


def test_without_the_package_the_log_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    found: list[str] = []
    assert Tracing.from_environment(lambda event, **fields: found.append(f"{event}: {fields['reason']}")) is None
    assert "dragoman[otel]" in found[0]


def test_the_packages_are_not_loaded_for_nothing() -> None:
    program = "import sys, dragoman.serving.run; print('opentelemetry.sdk' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
