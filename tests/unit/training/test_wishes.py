"""What is asked of a run is neither lost nor heard twice."""

import os
import signal
import threading
from pathlib import Path

from dragoman.training.wishes import Agreed, Wishes, heard


def test_each_wish_to_save_counts_once(tmp_path: Path) -> None:
    wishes = Wishes(tmp_path / ".save")
    with heard(wishes):
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert wishes.new_saves() == 2
        assert wishes.new_saves() == 0
        assert not wishes.end


def test_sigterm_is_a_wish_to_save_and_end(tmp_path: Path) -> None:
    wishes = Wishes(tmp_path / ".save")
    with heard(wishes):
        os.kill(os.getpid(), signal.SIGTERM)
    assert wishes.end
    assert wishes.new_saves() == 1


def test_the_file_is_a_wish_and_is_removed(tmp_path: Path) -> None:
    wishes = Wishes(tmp_path / ".save")
    wishes.look()
    assert wishes.new_saves() == 0
    (tmp_path / ".save").touch()
    wishes.look()
    assert wishes.new_saves() == 1
    assert not (tmp_path / ".save").exists()


def test_beside_the_main_thread_signals_are_left_alone(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def beside() -> None:
        with heard(Wishes(tmp_path / ".save")):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert found == [before]


def test_what_one_wants_all_do() -> None:
    assert Agreed(pieces=2).after(1.0, 0.0, 0.0) == Agreed(save=True, end=False, pieces=2)
    assert Agreed(pieces=2).after(0.0, 2.0, 1.0) == Agreed(save=False, end=True, pieces=4)
    assert Agreed(save=True, end=True, pieces=2).after(0.0, 0.0, 0.0) == Agreed(pieces=2)
