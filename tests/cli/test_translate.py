"""`dragoman translate` as installed: what a user does with it, right and wrong."""

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.bundle import open_bundle
from dragoman.bundle.writing import store_alignment_heads, write_bundle
from dragoman.data import hashed
from dragoman.data.alignment import AlignmentHead
from dragoman.data.moses import read_moses

DRAGOMAN = Path(sys.executable).with_name("dragoman")
MODEL = str(Path(__file__).parents[1] / "golden" / "v1")
LINES = ["two red dogs.", "", "ten old\u2028houses.", "   ", "four green women."]
GERMAN = ["zwei rote Hunde.", "", "zehn alte Häuser.", "", "vier grüne Frauen."]


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    plain: dict[str, object] = {"stdin": subprocess.DEVNULL} | options
    if "input" in options:
        del plain["stdin"]
    return subprocess.run([DRAGOMAN, "translate", *arguments], capture_output=True, check=False, timeout=60, **plain)  # type: ignore[call-overload, no-any-return]


def as_bytes(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_each_text_gives_a_line() -> None:
    done = run(MODEL, "two red dogs.", "ten old houses.\nfour green women.", "--beam", "2", "--threads", "1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == as_bytes(["zwei rote Hunde.", "zehn alte Häuser.", "vier grüne Frauen."])


def test_a_text_longer_than_any_file_name_is_a_text() -> None:
    done = run(MODEL, "two red dogs. " * 400)
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1), done.stderr
    assert done.stdout.endswith(b"zwei rote Hunde.\n")
    assert done.stderr == b"line 1 has 1,200 words: text may be lost in it; put each sentence on a line\n"


def test_a_few_long_lines_are_told_of_and_not_all() -> None:
    done = run(MODEL, input=as_bytes(["two red dogs."] + ["two red dogs. " * 51] * 5))
    told = done.stderr.decode().splitlines()
    assert [line.partition(":")[0] for line in told] == [f"line {number} has 153 words" for number in (2, 3, 4)]
    assert told[-1].endswith("; further ones are not told")
    assert done.stdout.count(b"\n") == 6


def test_with_the_demo_model_only_the_folder_of_a_model_is_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "dates").mkdir()
    done = run("--demo", "", "dates", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    empty, dates = done.stdout.decode().splitlines()
    assert (empty, bool(dates)) == ("", True)
    refused = run("--demo", MODEL, "dates", cwd=tmp_path)
    assert refused.returncode == 2
    assert b"--demo has a model of its own" in refused.stderr


@pytest.mark.parametrize(
    "given",
    [as_bytes(LINES), as_bytes(LINES)[:-1], as_bytes(LINES).replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + as_bytes(LINES)],
    ids=["plain", "no newline at the end", "lines as in Windows", "a byte order mark"],
)
def test_standard_input_gives_as_many_lines_in_the_same_order(given: bytes) -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = run(MODEL, input=given, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == as_bytes(GERMAN)


def test_a_run_and_its_files(tmp_path: Path) -> None:
    shutil.copytree(MODEL, tmp_path / "run" / "bundle")
    (tmp_path / "a.en").write_bytes(as_bytes(LINES))
    done = run(str(tmp_path / "run"), "--input", str(tmp_path / "a.en"), "--output", str(tmp_path / "a.de"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "a.de").read_bytes() == as_bytes(GERMAN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "run"]


def test_nothing_in_gives_nothing_out(tmp_path: Path) -> None:
    done = run(MODEL, input=b"")
    assert (done.returncode, done.stdout) == (0, b"")
    (tmp_path / "empty").touch()
    done = run(MODEL, "--input", str(tmp_path / "empty"), "--output", str(tmp_path / "out"))
    assert (done.returncode, (tmp_path / "out").read_bytes()) == (0, b"")


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"yes 'two red dogs.' | head -20000 | {DRAGOMAN} translate {MODEL} | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (b"zwei rote Hunde.\n", b"")


def test_in_a_terminal_each_line_is_answered_at_once() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen([DRAGOMAN, "translate", MODEL], stdin=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    assert process.stdout is not None
    for text, german in (("two red dogs.", "zwei rote Hunde."), ("ten old houses.", "zehn alte Häuser.")):
        os.write(ours, f"{text}\n".encode())
        assert process.stdout.readline().decode() == f"{german}\n"
    os.write(ours, b"\x04")
    assert (process.wait(30), process.stdout.read()) == (0, b"")
    process.stdout.close()
    os.close(ours)


def aligned(*arguments: str) -> tuple[list[str], list[str], str]:
    """The translations, their links, and what was said."""
    done = run(*arguments, "--alignment", input=as_bytes(LINES))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    assert lines.pop() == ""
    texts, links = zip(*(line.split(" ||| ") for line in lines), strict=True)
    return list(texts), list(links), done.stderr.decode()


def test_an_alignment_follows_each_translation(tmp_path: Path) -> None:
    model = shutil.copytree(MODEL, tmp_path / "model")
    texts, links, said = aligned(str(model))
    assert texts == GERMAN
    assert (links[1], links[3]) == ("", "")
    for english, german, found in zip(LINES, GERMAN, read_moses(links), strict=True):
        assert {target for _, target in found} == set(range(len(german.split())))
        assert {source for source, _ in found} <= set(range(len(english.split())))
    assert "its links are by a guess" in said
    head = AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read", measure="norm")
    store_alignment_heads(model, (head,))
    others, stored, said = aligned(str(model))
    assert (others, said) == (GERMAN, "")
    assert stored != links
    align = [str(DRAGOMAN), "align", str(model), "--source", "a.en", "--target", "a.de"]
    (tmp_path / "a.en").write_bytes(as_bytes(LINES))
    (tmp_path / "a.de").write_bytes(as_bytes(GERMAN))
    done = subprocess.run(align, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert done.stdout == as_bytes(stored)


def test_a_long_text_is_aligned_to_its_end() -> None:
    done = run(MODEL, "two red dogs. " * 40, "--alignment")
    text, links = done.stdout.decode().removesuffix("\n").split(" ||| ")
    found = next(read_moses([links]))
    assert {target for _, target in found} == set(range(len(text.split())))
    assert max(source for source, _ in found) >= 3 * 38


Mistake = Callable[[Path], list[str]]


def with_input(content: bytes) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        (folder / "a.en").write_bytes(content)
        return [MODEL, "--input", str(folder / "a.en"), "--output", str(folder / "a.de")]

    return mistake


def prepared(folder: Path) -> list[str]:
    (folder / "manifest.json").write_bytes(hashed.render({"format_version": 1, "corpora": []}))
    return [str(folder), "text"]


def damaged(folder: Path) -> list[str]:
    shutil.copytree(MODEL, folder / "model")
    with (folder / "model" / "model.safetensors").open("ab") as file:
        file.write(b"x")
    return [str(folder / "model"), "text"]


def onto_itself(folder: Path) -> list[str]:
    with_input(b"two\n")(folder)
    return [MODEL, "--input", str(folder / "a.en"), "--output", str(folder / "a.en")]


def a_file_for_a_text(folder: Path) -> list[str]:
    with_input(b"two\n")(folder)
    return [MODEL, str(folder / "a.en")]


def without_attention(folder: Path) -> list[str]:
    from dragoman.models.build import build
    from dragoman.models.config import RecurrentConfig
    from dragoman.models.weights import weights_of

    golden = open_bundle(Path(MODEL))
    config = RecurrentConfig(context="first", source_vocabulary=300, target_vocabulary=300, d_model=8, d_embedding=6)
    info = golden.info.model_copy(update={"model": config})
    write_bundle(folder / "blind", info, weights_of(build(config)), golden.vocab, golden.card)
    return [str(folder / "blind"), "two", "--alignment", "--output", str(folder / "a.de")]


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "an alignment by a model without attention": (without_attention, "this model cannot align"),
    "no model at all": (lambda _: [], "give its folder, as in: dragoman translate run/ 'A text.'; or try --demo"),
    "a text and no model": (lambda _: ["A text."], "A text.: there is no such folder; the model comes first"),
    "a folder that is not there": (lambda f: [str(f / "nowhere"), "text"], "there is no such folder"),
    "a folder without a model": (lambda f: [str(f), "text"], "the folder that dragoman train has made"),
    "a prepared folder": (prepared, "this is a prepared folder, not a model"),
    "a damaged model": (damaged, "model.safetensors: the file has 76537 bytes instead of 76536"),
    "a file for a model": (lambda f: [__file__, "text"], "this is a file, not a model's folder"),
    "a file for a text": (a_file_for_a_text, "to translate its lines, give --input"),
    "a demo and a model": (lambda _: ["--demo", MODEL, "text"], "--demo has a model of its own: leave out"),
    "a text and an input": (lambda _: [MODEL, "text", "--input", __file__], "a text or --input, not both"),
    "an input that is not there": (lambda f: [MODEL, "--input", str(f / "a.en")], "a.en: there is no such file"),
    "an output in no folder": (
        lambda f: [MODEL, "text", "--output", str(f / "b" / "a.de")],
        "in a folder that is there",
    ),
    "an output that is no file": (lambda f: [MODEL, "text", "--output", "/dev/null"], "give the name of a file"),
    "an output that is the input": (onto_itself, "is the input: give another name"),
    "a line that is not UTF-8": (with_input(b"two\nr\xe4d\ndogs\n"), "a.en: line 2 is not UTF-8"),
    "UTF-16": (with_input("two red dogs.\n".encode("utf-16")), "this looks like UTF-16 text"),
    "half a character": (lambda _: [MODEL, os.fsdecode(b"two \xff")], "half of a character"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, tmp_path: Path) -> None:
    mistake, named = MISTAKES[name]
    done = run(*mistake(tmp_path))
    assert (done.returncode, done.stdout) == (2, b""), done.stderr.decode()
    assert done.stderr.decode().startswith("error: ")
    assert done.stderr.count(b"\n") == 1
    assert named in done.stderr.decode()
    assert not (tmp_path / "a.de").exists()


def test_bytes_that_are_no_text_on_standard_input_are_named_by_their_line() -> None:
    done = run(MODEL, input=b"two\nthree\nr\xe4d\n")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"standard input: line 3 is not UTF-8" in done.stderr


def test_without_torch_it_says_what_to_install() -> None:
    code = f"""
import sys
sys.modules["torch"] = None
sys.argv = ["dragoman", "translate", {MODEL!r}, "two"]
from dragoman.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: this needs torch: pip install 'dragoman[train]'\n")
