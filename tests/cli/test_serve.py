"""`dragoman serve` as installed: its mistakes in one line, where it listens, and how it stops. And `dragoman key`."""

import contextlib
import json
import shutil
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from dragoman.bundle import demo_folder, open_bundle
from dragoman.client import Client, ServiceError
from dragoman.serving.keys import read_keys

DRAGOMAN = Path(sys.executable).with_name("dragoman")
GOLDEN = str(Path(__file__).parents[1] / "golden" / "v1")
PATIENCE_S = 300

Mistake = Callable[[Path], list[str]]


def given(*arguments: str) -> Mistake:
    return lambda _: [*arguments, "--port", "0"]


def damaged(folder: Path) -> list[str]:
    (folder / "model").mkdir()
    (folder / "model" / "manifest.json").write_text("{}")
    return [str(folder / "model"), "--port", "0"]


def twice(folder: Path) -> list[str]:
    return [GOLDEN, str(folder / "v1"), "--port", "0"]


def empty_keys(folder: Path) -> list[str]:
    (folder / "keys.yaml").touch()
    return ["demo", "--keys", str(folder / "keys.yaml")]


def settings(content: str) -> Mistake:
    def write(folder: Path) -> list[str]:
        (folder / "service.yaml").write_text(content)
        return ["--config", str(folder / "service.yaml")]

    return write


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no model": (given(), "no model: give the folder of a model, or `demo`"),
    "two of the same name": (twice, "two models are called v1: "),
    "the demo by its old option": (given("--demo"), "--demo was replaced: "),
    "two of a given name": (given(f"a={GOLDEN}", "a=b"), "two models are called a: "),
    "a folder that is not there": (lambda f: [str(f / "nowhere")], "nowhere: there is no such folder"),
    "a damaged model": (damaged, "manifest.json: "),
    "a model without an export": (given(GOLDEN), "the ctranslate2 engine cannot be used"),
    "a limit that is none": (
        given("demo", "--limit", "charcters=5"),
        "--limit charcters=5: ",
    ),
    "a glossary without a name": (given("demo", "--glossary", "terms.tsv"), "--glossary terms.tsv: give NAME=FILE"),
    "a glossary that is not there": (given("demo", "--glossary", "it=absent.tsv"), "absent.tsv: there is no such file"),
    "two glossaries of a name": (
        given("demo", "--glossary", "a=b", "--glossary", "a=c"),
        "two glossaries are called a",
    ),
    "a limit without a value": (given("demo", "--limit", "texts"), "--limit texts: give NAME=VALUE"),
    "a limit of nothing": (given("demo", "--limit", "texts=0"), "--limit texts=0: Input should be greater than"),
    "a limit in words": (given("demo", "--limit", "wait=long"), "--limit wait=long: Input should be a valid number"),
    "a host without keys": (
        given("demo", "--host", "0.0.0.0"),
        "0.0.0.0 can be reached from other machines, so keys are required",
    ),
    "any origin": (given("demo", "--allow-origin", "*"), "--allow-origin * is invalid"),
    "no such file of keys": (lambda f: ["demo", "--keys", str(f / "keys.yaml")], "keys.yaml: "),
    "a file without keys": (empty_keys, "keys.yaml: no keys"),
    "a file of settings that is not there": (given("--config", "none.yaml"), "--config none.yaml: No such file"),
    "a setting that is none": (
        settings("model: demo"),
        "service.yaml: unknown setting model: give one of allow-origin",
    ),
    "a list of settings": (settings("- demo"), "service.yaml: give settings as `name: value`"),
    "settings that are no YAML": (settings("models: [demo"), "service.yaml: while parsing"),
    "a setting with a mistake": (
        settings("models: demo\nlimit: {texts: 0}"),
        "--limit texts=0: Input should be greater than",
    ),
    "an unknown way to compute": (
        given("demo", "--compute", "int4"),
        "--compute int4: give float32, int16, int8 or float16",
    ),
}


def served(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [DRAGOMAN, "serve", *arguments]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


@pytest.mark.parametrize("name", MISTAKES)
def test_an_error_is_one_line_with_exit_code_2(name: str, tmp_path: Path) -> None:
    mistake, named = MISTAKES[name]
    done = served(*mistake(tmp_path))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert named in done.stderr


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = served("demo", "--port", str(port))
    assert (done.returncode, done.stdout) == (2, "")
    wrong = f"error: cannot listen on 127.0.0.1:{port} (Address already in use)"
    assert done.stderr == f"{wrong}: give another --port or --host\n"


class Service:
    """A service process that has printed its address."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stderr is not None
        self.out: IO[str] = process.stdout
        self.err: IO[str] = process.stderr
        self.url = self.out.readline().strip()

    def get(self, path: str) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def stop(self, number: signal.Signals) -> tuple[int, list[str]]:
        """Return its exit code and its log."""
        self.process.send_signal(number)
        _, stderr = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, stderr.splitlines()


@contextlib.contextmanager
def running(*arguments: str, start: tuple[str, ...] = (), passed: tuple[int, ...] = ()) -> Iterator[Service]:
    command = [*start, str(DRAGOMAN), "serve", "--engines", "1", "--limit", "drain_seconds=0", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=passed, **pipes) as process:
        try:
            yield Service(process)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_its_address_serves_and_stops_on_a_signal(number: signal.Signals, exported: Path) -> None:
    with running("demo", f"phrases={exported}", "--port", "0") as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert service.get("health") == {"status": "ok"}
        names = [model["name"] for model in service.get("v1/models")["models"]]
        assert names == ["demo", "phrases"]
        code, log = service.stop(number)
    assert code == 0
    events = [json.loads(line) for line in log]
    assert [event["event"] for event in events] == ["started", "request", "stopping", "stopped"]  # health is not logged
    demo, phrases = (open_bundle(folder).model_sha256 for folder in (demo_folder(), exported))
    assert events[0]["models"] == {"demo": demo, "phrases": phrases}
    assert service.url == f"http://{events[0]['host']}:{events[0]['port']}/"
    assert service.out.closed


def test_settings_come_from_a_file_and_options_win(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("station\tHalt\n")
    file = tmp_path / "service.yaml"
    file.write_text(
        f"models: {{phrases: {exported}}}\nport: 1\nallow-origin: https://a.example\n"
        f"limit: {{characters: 500, texts: 3}}\nglossary: {{it: {tmp_path / 'terms.tsv'}}}\n"
    )
    with running("--config", str(file), "--port", "0") as service:
        assert [model["name"] for model in service.get("v1/models")["models"]] == ["phrases"]
        texts = service.get("openapi.json")["components"]["schemas"]["ServiceRequest"]["properties"]["texts"]["anyOf"]
        assert [(shape.get("maxLength"), shape.get("maxItems")) for shape in texts] == [(None, 3), (500, None)]


def test_a_passed_socket_is_served(exported: Path) -> None:
    """As systemd does it, and a service that hands over to its successor."""
    start = ("bash", "-c", 'exec 3<&"$1"; shift; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"', "bash")
    with socket.create_server(("127.0.0.1", 0)) as where:
        number, port = where.fileno(), where.getsockname()[1]
        with running(str(exported), "--port", "1", start=(*start, str(number)), passed=(number,)) as service:
            assert service.url == f"http://127.0.0.1:{port}/"
            assert service.get("v1/models")["models"][0]["name"] == "model"
            assert service.stop(signal.SIGTERM)[0] == 0


def test_sighup_reloads_the_models_and_keeps_the_old_ones_if_that_fails(exported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "a"))
    with running(str(folder), "--port", "0") as service:
        assert json.loads(service.err.readline())["event"] == "started"
        service.process.send_signal(signal.SIGHUP)
        reloaded = json.loads(service.err.readline())
        assert (reloaded["event"], list(reloaded["models"])) == ("reloaded", ["a"])
        (folder / "config.json").unlink()
        service.process.send_signal(signal.SIGHUP)
        failed = json.loads(service.err.readline())
        assert (failed["event"], failed["level"]) == ("reload failed", "error")
        assert "config.json" in failed["reason"]
        assert service.get("health/ready") == {"status": "ok"}
        assert service.stop(signal.SIGTERM)[0] == 0


def test_sighup_reads_the_glossaries_again(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tFrauen\n", encoding="utf-8")
    with running(str(exported), "--port", "0", "--glossary", f"zoo={path}") as service, Client(service.url) as client:
        assert json.loads(service.err.readline())["event"] == "started"
        assert "Frauen" in client.translate("two red dogs.", glossary="zoo").text
        path.write_text("dog\tHäuser\n", encoding="utf-8")
        service.process.send_signal(signal.SIGHUP)
        events = [json.loads(service.err.readline())["event"] for _ in range(2)]
        assert events == ["request", "reloaded"]
        assert "Häuser" in client.translate("two red dogs.", glossary="zoo").text
        path.write_text("dog\n", encoding="utf-8")
        service.process.send_signal(signal.SIGHUP)
        service.err.readline()
        assert json.loads(service.err.readline())["event"] == "reload failed"
        assert "Häuser" in client.translate("two red dogs.", glossary="zoo").text


def test_a_revoked_key_is_refused_although_a_glossary_cannot_be_read(exported: Path, tmp_path: Path) -> None:
    terms, keys = tmp_path / "terms.tsv", tmp_path / "keys.yaml"
    terms.write_text("dog\tFrauen\n", encoding="utf-8")
    revoked, kept = (key(name, "--keys", str(keys)).stdout.strip() for name in ("revoked", "kept"))
    options = (str(exported), "--port", "0", "--glossary", f"zoo={terms}", "--keys", str(keys))
    with running(*options) as service, Client(service.url, revoked) as gone, Client(service.url, kept) as client:
        assert json.loads(service.err.readline())["event"] == "started"
        assert gone.translate("two red dogs.").text
        service.err.readline()
        terms.write_text("dog\n", encoding="utf-8")
        keys.write_text(yaml.safe_dump(yaml.safe_load(keys.read_text())[1:]))
        service.process.send_signal(signal.SIGHUP)
        while json.loads(service.err.readline())["event"] != "reload failed":
            pass
        with pytest.raises(ServiceError) as refused:
            gone.translate("two red dogs.")
        assert refused.value.status == 401
        assert "Frauen" in client.translate("two red dogs.", glossary="zoo").text


def test_sighup_follows_a_link_to_another_release(exported: Path, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(exported)
    with running(str(link), "--port", "0") as service:
        assert json.loads(service.err.readline())["event"] == "started"
        link.unlink()
        link.symlink_to(demo_folder())
        service.process.send_signal(signal.SIGHUP)
        changed, reloaded = (json.loads(service.err.readline()) for _ in range(2))
        before, after = (open_bundle(folder).model_sha256 for folder in (exported, demo_folder()))
        assert (changed["event"], changed["before"], changed["after"]) == ("model changed", before, after)
        assert reloaded["models"] == {"current": after}


def key(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [DRAGOMAN, "key", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_a_key_is_printed_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    done = key("shop", "--keys", str(file), "--requests-per-minute", "600", "--characters-per-day", "9")
    assert (done.returncode, done.stderr) == (0, "")
    made = done.stdout.strip()
    assert done.stdout == f"{made}\n"
    assert made.startswith("dgm_")
    assert made not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (entry,) = yaml.safe_load(file.read_text())
    assert (entry["name"], entry["requests_per_minute"], entry["characters_per_day"]) == ("shop", 600, 9)
    assert key("other", "--keys", str(file)).stdout.strip() != made
    assert [one.name for one in read_keys(file)] == ["shop", "other"]


def test_a_key_that_cannot_be_created_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = str(tmp_path / "keys.yaml")
    assert key("shop", "--keys", file).returncode == 0
    for arguments, named in (
        (("shop", "--keys", file), "already a key named shop"),
        (("a shop", "--keys", file), "'a shop': "),
        (("shop", "--keys", str(tmp_path / "none" / "keys.yaml")), "keys.yaml"),
    ):
        done = key(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
        assert named in done.stderr
        assert done.stderr.count("\n") == 1
