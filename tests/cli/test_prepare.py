"""`dragoman prepare` and `peek` as installed: what a user does with them, right and wrong."""

import gzip
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import DRAGOMAN, INSTALLED

CHAOS = Path(__file__).parents[1] / "chaos" / "prepare_kills.py"
LINES = [
    f"the {a} {b} {c} number {i}" for i, (a, b, c) in enumerate([("old", "man", "walks"), ("new", "dog", "runs")] * 60)
]
GERMAN = [line.replace("the", "der").replace("number", "nummer") for line in LINES]


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [INSTALLED if options else DRAGOMAN, *arguments]  # with limits or an environment of its own
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


def pair(folder: Path) -> list[str]:
    (folder / "a.en").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (folder / "a.de").write_text("\n".join(GERMAN) + "\n", encoding="utf-8")
    return ["prepare", "--source", str(folder / "a.en"), "--target", str(folder / "a.de"), "--out", str(folder / "out")]


def test_two_files_are_enough(tmp_path: Path) -> None:
    done = run(*pair(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "120 pairs read; no problems found" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "learn the vocabulary" in done.stderr


def test_peek_shows_text_pieces_and_ids_of_any_batch(tmp_path: Path) -> None:
    run(*pair(tmp_path))
    done = run("peek", str(tmp_path / "out"), "3", "--tokens", "100", "--rows", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("batch 3: number 3 of ")
    shown = done.stdout.splitlines()
    line = int(shown[3].removeprefix("line "))
    assert shown[4] == f"  source  {LINES[line - 1]}"
    assert shown[5].endswith("</s>")
    assert shown[6].endswith(" 2")
    assert shown[7] == f"  target  {GERMAN[line - 1]}"


def test_verify_checks_every_file_and_changes_none(tmp_path: Path) -> None:
    arguments = pair(tmp_path)
    run(*arguments)
    done = run("prepare", "--verify", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "3 files, none damaged" in done.stdout
    shard = tmp_path / "out" / "train-00000.arrow"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 4
    shard.write_bytes(content)
    done = run("prepare", "--verify", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "train-00000.arrow: the content of the file has changed" in done.stderr
    assert shard.read_bytes() == content
    assert run(*arguments).returncode == 0
    assert run("prepare", "--verify", str(tmp_path / "out")).returncode == 0


def test_verify_prepares_nothing(tmp_path: Path) -> None:
    done = run(*pair(tmp_path), "--verify", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "leave out --source" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_terminal_that_lacks_letters_shows_the_rest(tmp_path: Path) -> None:
    run(*pair(tmp_path))
    plain = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    done = run("peek", str(tmp_path / "out"), env=plain)
    assert done.returncode == 0, done.stderr
    assert "?the" in done.stdout


Mistake = Callable[[Path], list[str]]


def with_file(side: str, content: bytes) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        arguments = pair(folder)
        (folder / side).write_bytes(content)
        return arguments

    return mistake


def instead(old: str, new: str) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        arguments = pair(folder)
        (folder / "folder").mkdir()
        return [argument.replace(old, new) for argument in arguments]

    return mistake


def one_file(name: str, content: str) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        (folder / name).write_text(content, encoding="utf-8")
        return ["prepare", "--source", str(folder / name), "--out", str(folder / "out")]

    return mistake


def plus(*more: str) -> Mistake:
    return lambda folder: [*pair(folder), *more]


def out_is_a_file(folder: Path) -> list[str]:
    (folder / "out").write_text("")
    return pair(folder)


def twice_with_other_settings(folder: Path) -> list[str]:
    arguments = pair(folder)
    assert run(*arguments).returncode == 0
    return [*arguments, "--keep-text"]


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "another number of lines": (with_file("a.de", b"eins\nzwei\n"), "120 lines"),
    "a missing file": (instead("a.en", "b.en"), "b.en"),
    "a folder for a file": (instead("a.en", "folder"), "folder"),
    "an empty file": (with_file("a.en", b""), "empty"),
    "a binary file": (with_file("a.en", bytes(range(256)) * 50), "a.en"),
    "UTF-16": (with_file("a.en", "\n".join(LINES).encode("utf-16")), "UTF-16"),
    "Latin-1": (with_file("a.de", "größer als übel\n".encode("latin-1") * 120), "a.de"),
    "a damaged gzip": (with_file("a.en", gzip.compress("\n".join(LINES).encode())[:200]), "gz"),
    "the same file twice": (instead("a.de", "a.en"), "same file"),
    "a source without its target": (lambda f: pair(f)[:3] + pair(f)[5:], "target"),
    "more sources than targets": (plus("--source", "c.en"), "2 --source but 1 --target"),
    "a vocabulary too large for the text": (plus("--vocabulary", "30000"), "30,000"),
    "out is a file": (out_is_a_file, "is a file"),
    "other settings for the same folder": (twice_with_other_settings, "other settings"),
    "a TSV line without its second column": (one_file("a.tsv", "one\teins\ntwo\n"), "line 2"),
    "bad JSON": (one_file("a.jsonl", '{"source": "a", "target": "b"}\n{"source": \n'), "line 2"),
    "a key that is not there": (one_file("a.jsonl", '{"en": "a", "de": "b"}\n'), "source"),
    "nothing but copies of held-out pairs": (
        lambda f: [*pair(f), "--held-out-source", str(f / "a.en"), "--held-out-target", str(f / "a.de")],
        "a.en",
    ),
    "peek into a folder that is not prepared": (lambda f: ["peek", str(f)], "not a complete prepared folder"),
    "peek into a folder that is not there": (lambda f: ["peek", str(f / "nowhere")], "no such folder"),
    "a weight of nothing": (plus("--weight", "0"), "--weight 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, tmp_path: Path) -> None:
    mistake, named = MISTAKES[name]
    done = run(*mistake(tmp_path))
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2, done.stderr
    assert len(said) == 1, done.stderr
    assert named in said[0]
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_one_clear_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    def small_files() -> None:
        """No file may pass 2 kB: the nearest thing to a full disk that needs no disk of its own."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    arguments = pair(tmp_path)
    done = run(*arguments, preexec_fn=small_files)
    assert done.returncode == 2, done.stderr
    assert [line.startswith("error: ") for line in done.stderr.splitlines()] == [
        False,
        True,
    ]  # "read train" and the error
    assert "the same command again" in done.stderr
    assert "Traceback" not in done.stderr
    assert run(*arguments).returncode == 0


def test_killed_at_random_moments_it_ends_with_the_same_bytes() -> None:
    command = [sys.executable, str(CHAOS), "--kills", "5", "--pairs", "4000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert '"equal": 1' in done.stdout, done.stdout + done.stderr
