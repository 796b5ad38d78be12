"""One process holds the lock at a time, and one that dies releases it."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dragoman.io.lock import is_locked, locked

HOLD = """
import sys, time
from pathlib import Path
from dragoman.io.lock import locked
with locked(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_by_one_and_its_file_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    assert not path.exists()
    with locked(path, "busy"):
        assert is_locked(path)
        with pytest.raises(ValueError, match="somebody else"), locked(path, "somebody else"):
            pass
        assert path.exists()
    assert not path.exists()
    with locked(path, "busy"):
        pass


def test_a_file_that_is_removed_and_made_again_meanwhile_keeps_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, "busy"):
        path.unlink()
        with locked(path, "busy"):
            assert is_locked(path)


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder, holder.stdout:
        assert holder.stdout.readline() == "held\n"
        assert is_locked(path)
        os.kill(holder.pid, signal.SIGKILL)
    assert path.exists()
    assert not is_locked(path)
    with locked(path, "busy"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked there")
def test_a_check_in_another_process_keeps_nobody_out(tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "lock"
    path.touch()
    with path.open("r+") as checked:
        fcntl.flock(checked, fcntl.LOCK_SH)  # as is_locked does, for an instant
        assert not is_locked(path)
        threading.Timer(0.03, lambda: fcntl.flock(checked, fcntl.LOCK_UN)).start()
        with locked(path, "busy"):
            assert is_locked(path)
