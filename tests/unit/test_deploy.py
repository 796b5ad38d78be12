"""The files in `deploy/` fit the service: its flags, limits, routes, user and time to stop.

No container and no systemd is started here: the files are read as their tools read them.
"""

import asyncio
import configparser
import inspect
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import typer
import yaml
from packaging.requirements import Requirement

from dragoman.cli.main import app as command
from dragoman.cli.serve import parse_limits
from dragoman.serving import http_server
from dragoman.serving.app import create_app
from dragoman.serving.config import Limits, ServiceConfig, is_loopback
from dragoman.serving.fork_server import wait_or_kill
from dragoman.serving.run import JsonLog, run_service
from dragoman.serving.service import Service
from dragoman.version import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONSTRAINTS = ROOT / "constraints.txt"
PLACES = ("docker", "systemd", "kubernetes")


@dataclass(frozen=True)
class Dockerfile:
    """Its instructions, in order, each with what it is given."""

    instructions: list[tuple[str, str]] = field(default_factory=list)

    @staticmethod
    def read(text: str) -> "Dockerfile":
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
        found = [line.partition(" ") for line in whole.splitlines() if line.strip()]
        return Dockerfile([(name, given.strip()) for name, _, given in found])

    def all(self, name: str) -> list[str]:
        return [given for one, given in self.instructions if one == name]

    def words(self, name: str) -> list[str]:
        """Of the last one of this name, which is the one that counts; in the form that no shell reads."""
        words: list[str] = json.loads(self.all(name)[-1].rpartition("CMD ")[2])
        return words


IMAGE = Dockerfile.read((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
DEPLOYMENT, SERVICE = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
POD: dict[str, Any] = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
PROBES = {kind: CONTAINER[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")}


def pins(text: str) -> dict[str, str]:
    """The versions of a file of pinned packages."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def unit(name: str) -> configparser.ConfigParser:
    """Strict: a key that stands twice is an error."""
    read = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string((DEPLOY / name).read_text(encoding="utf-8"))
    return read


def arguments(place: str) -> list[str]:
    """What `dragoman serve` is given there."""
    entry = IMAGE.words("ENTRYPOINT")
    words = {
        "docker": [*entry, "en-de=/models/en-de"],
        "systemd": shlex.split(unit("dragoman.service")["Service"]["ExecStart"]),
        "kubernetes": [*entry, *CONTAINER["args"]],
    }[place]
    assert (Path(words[0]).name, words[1]) == ("dragoman", "serve")
    return words[2:]


def understood(place: str) -> dict[str, Any]:
    """The same, as the command understands it; an unknown flag is an error."""
    group: Any = typer.main.get_command(command)
    parsed: dict[str, Any] = group.commands["serve"].make_context("serve", arguments(place)).params
    return parsed


def limits(place: str) -> Limits:
    return parse_limits(understood(place)["limit"] or [])


def seconds_to_stop(place: str) -> float:
    """From SIGTERM to the end, at the very most: draining, the last answers, and the engines' end."""
    given = limits(place)
    return given.drain_seconds + int(given.seconds) + 1 + inspect.signature(wait_or_kill).parameters["seconds"].default


def answer_of(path: str) -> int:
    """The application's, without engines."""
    app = create_app(Service.create(ServiceConfig({}), JsonLog()))

    async def request() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://pod") as client:
            return (await client.get(path)).status_code

    return asyncio.run(request())


@pytest.mark.parametrize("place", PLACES)
def test_the_command_knows_every_flag(place: str) -> None:
    parsed = understood(place)
    assert parsed["models"]


@pytest.mark.parametrize("place", PLACES)
def test_every_limit_that_is_set_exists(place: str) -> None:
    assert limits(place).drain_seconds >= 5


def test_a_flag_or_limit_that_does_not_exist_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTAINER, "args", ["en-de=/models/en-de", "--workers=2"])
    with pytest.raises(Exception, match="No such option: --workers"):
        understood("kubernetes")
    monkeypatch.setitem(CONTAINER, "args", ["en-de=/models/en-de", "--limit=drain=10"])
    with pytest.raises(ValueError, match="one of body_bytes"):
        limits("kubernetes")


@pytest.mark.parametrize("place", PLACES)
def test_a_service_that_others_can_reach_requires_keys(place: str) -> None:
    parsed = understood(place)
    host = (
        unit("dragoman.socket")["Socket"]["ListenStream"].rpartition(":")[0] if place == "systemd" else parsed["host"]
    )
    assert parsed["keys"] is not None
    assert is_loopback(host) == (place == "systemd")


@pytest.mark.parametrize("place", PLACES)
def test_models_and_keys_are_where_they_are_mounted(place: str) -> None:
    parsed = understood(place)
    (model,) = parsed["models"]
    if place == "systemd":
        name, _, source = unit("dragoman.service")["Service"]["LoadCredential"].partition(":")
        assert (str(parsed["keys"]), source) == (f"%d/{name}", "/etc/dragoman/keys.yaml")
        assert model.startswith("en-de=/srv/")  # which ProtectHome does not hide
        return
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    assert Path(model.partition("=")[2]).parent == Path("/models")
    assert parsed["keys"] == Path("/etc/dragoman/keys.yaml")
    assert {path: mount["readOnly"] for path, mount in mounts.items()} == {"/models": True, "/etc/dragoman": True}
    assert {mount["name"] for mount in mounts.values()} == {volume["name"] for volume in POD["volumes"]}


def test_there_is_time_enough_to_finish_after_sigterm() -> None:
    assert POD["terminationGracePeriodSeconds"] >= seconds_to_stop("kubernetes")
    assert int(unit("dragoman.service")["Service"]["TimeoutStopSec"]) >= seconds_to_stop("systemd")
    (timeout,) = re.findall(r"--stop-timeout (\d+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    assert int(timeout) >= seconds_to_stop("docker")


def test_a_pod_that_is_not_ready_is_noticed_while_it_still_listens() -> None:
    probe = PROBES["readiness"]
    noticed = probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    assert limits("kubernetes").drain_seconds >= noticed


@pytest.mark.parametrize(("kind", "status"), [("startup", 503), ("readiness", 503), ("liveness", 200)])
def test_every_probe_asks_a_route_that_answers_what_it_asks(kind: str, status: int) -> None:
    probe = PROBES[kind]["httpGet"]
    assert answer_of(probe["path"]) == status  # no engine is ready, and yet the process is alive
    assert probe["port"] == "http"
    assert answer_of("/health/nothing") == 404


def test_all_speak_of_the_same_port() -> None:
    (port,) = CONTAINER["ports"]
    assert port == {"name": "http", "containerPort": understood("kubernetes")["port"]}
    assert SERVICE["spec"]["ports"][0]["targetPort"] == "http"
    assert IMAGE.all("EXPOSE") == [str(port["containerPort"])]
    assert f", {port['containerPort']}, " in IMAGE.words("HEALTHCHECK")[-1]


def test_the_service_finds_its_pods() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert SERVICE["spec"]["selector"] == DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels


def test_nobody_is_root_and_nothing_is_written() -> None:
    user = IMAGE.all("USER")[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    last = [name for name, _ in IMAGE.instructions]
    assert not {"RUN", "COPY", "ADD"} & set(last[last.index("USER") :])
    pod, container = POD["securityContext"], CONTAINER["securityContext"]
    assert pod["runAsNonRoot"]
    assert f"{pod['runAsUser']}:{pod['runAsGroup']}" == user
    assert container["readOnlyRootFilesystem"]
    assert not container["allowPrivilegeEscalation"]
    assert container["capabilities"] == {"drop": ["ALL"]}
    service = unit("dragoman.service")["Service"]
    assert (service["DynamicUser"], service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("yes", "strict", "")


def test_the_image_holds_what_serving_needs_and_the_versions_that_were_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (install,) = IMAGE.all("RUN")
    assert "--require-hashes --requirement /build/requirements.txt" in install
    assert IMAGE.all("COPY")[0].split() == ["deploy/requirements.txt", "${WHEEL}", "/build/"]
    needed = set((DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines())
    assert {"*", "!deploy/requirements.txt", "!dist/*.whl"} <= needed
    pinned, tested = (pins(path.read_text(encoding="utf-8")) for path in (DEPLOY / "requirements.txt", CONSTRAINTS))
    extras = project["optional-dependencies"]
    wanted = {Requirement(text).name for text in [*project["dependencies"], *extras["serve"], *extras["detect"]]}
    assert wanted <= pinned.keys()
    assert "torch" not in pinned
    assert {name: tested.get(name, version) for name, version in pinned.items()} == pinned


def test_images_have_a_version_and_no_host() -> None:
    bases = [given.partition(" AS ")[0] for given in IMAGE.all("FROM")]
    assert [re.fullmatch(r"python:3\.\d+-slim", base) is not None for base in bases] == [True, True]
    assert len(set(bases)) == 1  # the interpreter of a virtual environment is not in it
    assert CONTAINER["image"] == f"dragoman:{__version__}"
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert set(re.findall(r"dragoman[:-](\d[\d.]*\d)", text)) == {__version__}


def test_the_units_belong_together_and_reload_by_the_signal_that_the_service_knows() -> None:
    service, listener = unit("dragoman.service"), unit("dragoman.socket")
    assert service["Unit"]["Requires"] == service["Install"]["Also"] == "dragoman.socket"
    assert service["Service"]["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert "add_signal_handler(signal.SIGHUP, " in Path(http_server.__file__).read_text(encoding="utf-8")
    assert listener["Socket"].get("Accept", "no") == "no"  # one socket for all, not a process for each connection
    assert int(service["Service"]["LimitNOFILE"]) > limits("systemd").connections + 100
    assert service["Service"]["KillMode"] == "mixed"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_its_units(tmp_path: Path) -> None:
    for name in ("dragoman.service", "dragoman.socket"):
        text = (DEPLOY / name).read_text(encoding="utf-8").replace("/opt/dragoman/bin/dragoman", "/bin/true")
        (tmp_path / name).write_text(text, encoding="utf-8")
    check = ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@contextmanager
def answering(status: int) -> Iterator[int]:
    """Yield the port of a server that answers every request with this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health/ready" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_says_what_the_service_says(status: int, code: int) -> None:
    python, *words, program = IMAGE.words("HEALTHCHECK")
    assert python == "python"
    with answering(status) as port:
        words += [program.replace("5000", str(port))]
        assert subprocess.run([sys.executable, *words], timeout=60, check=False).returncode == code


def test_the_address_of_a_passed_socket_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("0.0.0.0", 0)) as passed:
        monkeypatch.setattr(http_server, "FIRST_PASSED_SOCKET", passed.detach())
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        monkeypatch.setenv("LISTEN_FDS", "1")
        with pytest.raises(ValueError, match=r"0\.0\.0\.0 can be reached from other machines"):
            run_service(ServiceConfig({"none": Path("nowhere")}, host="127.0.0.1"), lambda *_: None)
