"""A process that has imported torch and all of dragoman, and runs each command that it receives in a fork of itself.

To import torch takes seconds, and most tests of a command milliseconds. A test that starts `DRAGOMAN`, or `PYTHON` with
a script, has a process, an environment and standard streams as from the installed command; only the imports have been
made before. Tests of the start itself, of process groups and of limits start the installed command, and so do the
guides (test_readme.py).
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

DRAGOMAN = Path(__file__).with_name("dragoman")
PYTHON = Path(__file__).with_name("python")
INSTALLED = Path(sys.executable).with_name("dragoman")
OTHERS = ("torch._dynamo", "matplotlib.backends.backend_agg", "pandas", "ctranslate2", "sacrebleu")
"""Modules that a command imports late."""
STARTUP = ("PYTHON", "LC_", "LANG", "OMP_", "MPL")
"""The beginnings of the names of variables that are read before main() or at an import."""


@contextmanager
def fork_server() -> Iterator[dict[str, str]]:
    """Start the server; yield the variables by which the commands find it."""
    import subprocess
    import tempfile

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}  # the server ends when its standard input ends
    with tempfile.TemporaryDirectory() as folder:
        variables = {"DRAGOMAN_FORKS": f"{folder}/socket", "DRAGOMAN_INSTALLED": str(INSTALLED.parent)}
        with subprocess.Popen([sys.executable, "-P", __file__, variables["DRAGOMAN_FORKS"]], **pipes) as server:
            assert server.stdout
            assert server.stdout.readline() == b"ready\n"
            yield variables


def import_all() -> None:
    """Import what commands import."""
    import pkgutil

    import dragoman

    names = [module.name for module in pkgutil.walk_packages(dragoman.__path__, "dragoman.")]
    for name in (*OTHERS, *names):
        if not name.endswith("__main__"):
            with suppress(ImportError):
                import_module(name)


def serve(listener: socket.socket) -> None:
    """Run a command for each connection, until standard input ends."""
    print("ready", flush=True)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            supervise(connection)
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def supervise(connection: socket.socket) -> None:
    """Run the command of a connection, and answer with its process and its exit code. Kill it if the client is gone."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().readline())
    if startup(request["environment"]) != startup(dict(os.environ)):
        connection.sendall(b"0\n")
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        connection.close()
        run(request, streams)
    for stream in streams:
        os.close(stream)
    with suppress(OSError):
        connection.sendall(f"{pid}\n".encode())
    ended = os.pidfd_open(pid)
    if ended not in select.select([connection, ended], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        connection.sendall(f"{code}\n".encode())
    os._exit(0)


def startup(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that cannot be changed after the start."""
    return {name: value for name, value in environment.items() if name.startswith(STARTUP)}


def run(request: dict[str, Any], streams: list[int]) -> None:
    """Run the command or the script in this process, and exit."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for name, mode, buffering in (("stdin", "r", -1), ("stdout", "w", -1), ("stderr", "w", 1)):
        before = getattr(sys, f"__{name}__")
        coding = {"encoding": before.encoding, "errors": before.errors}
        stream = open(before.fileno(), mode, buffering, **coding, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    name, *arguments = request["command"]
    code: object = 0
    try:
        if Path(name).name == PYTHON.name:
            sys.argv = arguments
            sys.path.insert(0, str(Path(arguments[0]).parent))
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            sys.argv = [str(INSTALLED), *arguments]
            import_module("dragoman.__main__").main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    # As Python ends, but without deleting all objects: that would copy the memory of the server.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    import_all()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        serve(listener)
