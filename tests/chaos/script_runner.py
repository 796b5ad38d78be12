"""A script of this folder, as the tests of its short form run it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(script: str, *arguments: str, seconds: float = 580.0) -> tuple[int, dict[str, Any]]:
    """Its exit code, and the values of its last line."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])["values"]
