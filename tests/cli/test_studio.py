"""`dragoman studio` as installed: it prints an address for this machine alone, and ends with Ctrl-C."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

pytestmark = pytest.mark.slow

DRAGOMAN = (sys.executable, "-m", "dragoman", "studio", "--no-browser")
GOLDEN = Path(__file__).parents[1] / "golden"


def test_it_serves_the_named_models_to_those_who_know_the_token() -> None:
    command = [*DRAGOMAN, f"tiny={GOLDEN / 'v1'}", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        match = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)#token=([\w-]{32,})", address)
        assert match, address
        page, token = match.groups()
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{page}api/studio", timeout=60)
        with urlopen(Request(f"{page}api/studio", headers={"authorization": f"Bearer {token}"}), timeout=60) as answer:
            models = json.load(answer)["models"]
        assert [(model["name"], model["argument"]) for model in models] == [
            ("tiny", str(GOLDEN / "v1")),
            ("demo", "demo"),
        ]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert process.returncode in (0, 130, -signal.SIGINT)


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for arguments, words in (
            (["--port", port], "give another --port"),
            ([str(tmp_path)], "dragoman train"),
            (["demo", "demo"], "two models are called demo"),
        ):
            done = subprocess.run([*DRAGOMAN, *arguments], capture_output=True, text=True, check=False, timeout=120)
            assert (done.returncode, done.stdout) == (2, "")
            assert words in done.stderr
            assert done.stderr.count("\n") == 1
