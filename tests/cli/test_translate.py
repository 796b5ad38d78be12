"""`dragoman translate` as installed: what a user does with it, right and wrong."""

import contextlib
import gzip
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fork_server import DRAGOMAN, INSTALLED

from dragoman.bundle import Export, demo_folder, open_bundle, write_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads, store_export
from dragoman.export.ctranslate2 import weights_file

MODEL = str(Path(__file__).parents[1] / "golden" / "v1")
LINES = ["two red dogs.", "", "ten old houses.", "   ", "four green women."]
GERMAN = ["zwei rote Hunde.", "", "zehn alte Häuser.", "   ", "vier grüne Frauen."]


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


def test_several_models_translate_together(tmp_path: Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(MODEL, tmp_path / name)
    done = run("one", "other", "two red dogs.", "four green women.", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == as_bytes(["zwei rote Hunde.", "vier grüne Frauen."])
    for wrong, named in (
        (["one", f"{MODEL}-recurrent", "two red dogs."], "different vocabularies"),
        (["one", "other", "--engine", "ctranslate2", "two red dogs."], "ensemble"),
        (["one", "other", "--shards", "*.en", "--out", "out"], "several models"),
    ):
        done = run(*wrong, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, b"")
        assert named in done.stderr.decode()


def test_translations_are_chosen_by_their_risk_or_by_a_reverse_model(tmp_path: Path) -> None:
    golden = open_bundle(MODEL)
    info = golden.info.model_copy(update={"source_language": "de", "target_language": "en"})
    write_bundle(tmp_path / "de-en", info, golden.weights(), golden.vocab, golden.card)
    best = as_bytes(["zwei rote Hunde.", "zehn alte Häuser."])
    texts = ("two red dogs.", "ten old houses.")
    for options in (["--mbr", "4"], ["--rerank", str(tmp_path / "de-en"), "--beam", "3"]):
        done = run(MODEL, *texts, *options)
        assert (done.returncode, done.stderr, done.stdout) == (0, b"", best), options
    listed = run(MODEL, texts[0], "--mbr", "4", "--nbest", "3").stdout.decode().splitlines()
    scores = [float(line.split(" ||| ")[2]) for line in listed]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3
    assert 0 < scores[-1] < scores[0] <= 100
    drawn = run(MODEL, *texts, "--sample", "--temperature", "0.5", "--mbr", "4")
    assert (drawn.returncode, drawn.stdout.count(b"\n")) == (0, 2)
    for wrong in (
        ["--mbr", "4", "--rerank", str(tmp_path / "de-en")],
        ["--mbr", "2", "--nbest", "3"],
        ["--rerank", MODEL],
        ["--mbr", "4", "--prefix", "Zwei"],
    ):
        assert run(MODEL, texts[0], *wrong).returncode == 2, wrong


def test_a_text_longer_than_any_file_name_is_a_text_and_each_of_its_sentences_is_translated() -> None:
    done = run(MODEL, "two red dogs. " * 400)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"zwei rote Hunde. " * 400 + b"\n"


def test_without_splitting_a_few_long_lines_are_reported_and_not_all() -> None:
    done = run(MODEL, "--no-split", input=as_bytes(["two red dogs."] + ["two red dogs. " * 51] * 5))
    warnings = done.stderr.decode().splitlines()
    assert [line.partition(",")[0] for line in warnings] == [f"line {number} has 153 words" for number in (2, 3, 4)]
    assert warnings[-1].endswith("leave out --no-split; further long lines are not reported")
    assert done.stdout.count(b"\n") == 6


def cpu_seconds(text: str) -> float:
    """Return the CPU time of a translation, which hardly depends on what else the machine does."""
    before = os.times()
    assert run("demo", text, "--threads", "1").returncode == 0
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


@pytest.mark.slow
def test_a_thousand_letters_take_at_most_four_times_as_long_as_one() -> None:
    cpu_seconds("a")  # the files are read once
    assert cpu_seconds("a" * 1000) <= 4 * cpu_seconds("a")


def test_text_that_cannot_be_translated_is_kept_and_reported() -> None:
    endless = "ab" * 500
    done = run(MODEL, input=as_bytes(["two red dogs.", *[endless] * 5]))
    assert (done.returncode, done.stdout) == (0, as_bytes(["zwei rote Hunde.", *[endless] * 5]))
    warnings = done.stderr.decode().splitlines()
    assert [line.partition(" has")[0] for line in warnings] == ["line 2", "line 3", "line 4"]
    assert "repetition" in warnings[0]


def test_the_older_option_of_the_demo_model_is_refused_with_the_new_way(tmp_path: Path) -> None:
    done = run("--demo", "dates", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"dragoman translate demo" in done.stderr


@pytest.mark.parametrize(
    "given",
    [as_bytes(LINES), as_bytes(LINES)[:-1], as_bytes(LINES).replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + as_bytes(LINES)],
    ids=["plain", "no newline at the end", "lines as in Windows", "a byte order mark"],
)
def test_standard_input_gives_as_many_lines_in_the_same_order(given: bytes) -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = run(MODEL, input=given, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    expected = as_bytes(GERMAN).replace(b"\n", b"\r\n") if b"\r" in given else as_bytes(GERMAN)
    assert done.stdout == (expected if given.endswith(b"\n") else expected[:-1])


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
    """It ends as other filters do, by the code of SIGPIPE."""
    command = f"yes 'two red dogs.' | head -20000 | {DRAGOMAN} translate {MODEL} | head -1; echo ${{PIPESTATUS[2]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (b"zwei rote Hunde.\n141\n", b"")


def test_progress_with_time_left_is_shown_on_a_terminal_and_nowhere_else(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(as_bytes([f"two red {i} dogs." for i in range(300)]))
    command = [INSTALLED, "translate", exported, "--input", tmp_path / "a.en", "--output", tmp_path / "a.de"]
    ours, theirs = pty.openpty()
    wide = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=wide)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal says that the other side is gone
        while block := os.read(ours, 4096):
            shown += block
    os.close(ours)
    assert process.wait(30) == 0
    assert process.stdout is not None
    assert process.stdout.read() == b""
    process.stdout.close()
    assert re.search(r"translate .*300 of 300.* 0:00:0\d", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown.decode()))
    assert subprocess.run(command, capture_output=True, check=True, timeout=60).stderr == b""


def test_a_program_that_waits_for_each_answer_gets_it(exported: Path) -> None:
    process = subprocess.Popen(
        [DRAGOMAN, "translate", exported], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for text, german in zip(LINES, GERMAN, strict=True):
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode() == f"{german}\n"
    rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest, errors) == (0, b"", b"")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_a_kill_leave_no_half_a_file(
    sent: signal.Signals, code: int, exported: Path, tmp_path: Path
) -> None:
    """While it waits for its input, and while it translates."""
    for lines in (
        b"two red dogs.\n",
        b"".join(b"ten old %d houses.\n" % i for i in range(2_500)),
    ):
        command = [INSTALLED, "translate", exported, "--output", tmp_path / "a.de"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(lines)
        process.stdin.flush()
        while not list(tmp_path.iterdir()):  # it has begun to write
            assert process.poll() is None
            time.sleep(0.05)
        begin = time.monotonic()
        process.send_signal(sent)
        assert process.wait(30) == code
        assert time.monotonic() - begin < 5
        assert process.stderr.read().decode() == f"stopped; {tmp_path / 'a.de'} was not written\n"
        process.stderr.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        assert list(tmp_path.iterdir()) == []


def test_in_a_terminal_each_line_is_answered_at_once() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen([INSTALLED, "translate", MODEL], stdin=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    assert process.stdout is not None
    for text, german in (("two red dogs.", "zwei rote Hunde."), ("ten old houses.", "zehn alte Häuser.")):
        os.write(ours, f"{text}\n".encode())
        assert process.stdout.readline().decode() == f"{german}\n"
    os.write(ours, b"\x04")
    assert (process.wait(30), process.stdout.read()) == (0, b"")
    process.stdout.close()
    os.close(ours)


def test_bytes_that_are_no_text_on_standard_input_are_named_by_their_line() -> None:
    done = run(MODEL, input=b"two\nthree\nr\xe4d\n")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"standard input: line 3 is not UTF-8" in done.stderr


def without(modules: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in an installation that lacks these modules."""
    code = f"""
import sys
from importlib.machinery import PathFinder
lacking = {modules!r}
class Lacking(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in lacking else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Lacking
sys.argv = ["dragoman", "translate", *{arguments!r}]
from dragoman.cli.main import main
main()
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


TRAINING = ["torch", "pyarrow", "matplotlib", "sacrebleu", "fsspec", "zstandard"]


def test_a_model_that_stops_safely_runs_on_ctranslate2_with_one_warning(exported: Path, tmp_path: Path) -> None:
    bundle = open_bundle(exported)
    info = bundle.info.model_copy(update={"search": {**bundle.info.search, "stop": "safe"}})
    safe = write_bundle(tmp_path / "other", info, bundle.weights(), bundle.vocab, bundle.card)
    content = weights_file(safe)
    store_export(safe.folder, Export.unchecked(content), content)
    done = without(TRAINING, str(safe.folder), "two red dogs.", "ten old houses.")
    assert (done.returncode, done.stdout) == (0, "zwei rote Hunde.\nzehn alte Häuser.\n")
    assert done.stderr.count("stop: safe") == 1


def test_without_torch_it_says_what_to_install() -> None:
    done = without(TRAINING, MODEL, "two")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.endswith(": pip install 'dragoman[train]'\n")


def test_links_without_torch_say_what_needs_it(tmp_path: Path) -> None:
    by_norms = AlignmentHead(layer="decoder.layers.0.cross_attention", head=2, measure="norm")
    model = Path(shutil.copytree(demo_folder(), tmp_path / "model"))
    store_alignment_heads(model, (by_norms,))
    done = without(TRAINING, str(model), "A dog.", "--alignment")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: --alignment: CTranslate2 returns attention weights, but the stored heads use norms, "
        "and torch is not installed: pip install 'dragoman[train]'\n"
    )


def test_ctrl_c_before_anything_is_imported_is_no_accident() -> None:
    code = """
import sys
from importlib.machinery import PathFinder
class Interrupting(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "dragoman.cli.export":
            raise KeyboardInterrupt
        return super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Interrupting
from dragoman.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_export_runs_where_nothing_for_training_is_installed(exported: Path, tmp_path: Path) -> None:
    done = without(TRAINING, str(exported), "two red dogs. ten old houses.", "--alignment", "--nbest", "2")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("0 ||| zwei rote Hunde. zehn alte Häuser. ||| ")
    (tmp_path / "a.jsonl").write_text('{"text": "two red dogs."}\n')
    written = tmp_path / "b.jsonl.gz"
    done = without(TRAINING, str(exported), "--input", str(tmp_path / "a.jsonl"), "--output", str(written))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert gzip.decompress(written.read_bytes()) == b'{"text": "two red dogs.", "translation": "zwei rote Hunde."}\n'


def test_parquet_without_arrow_says_what_to_install(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    done = without(TRAINING, str(exported), "--input", str(tmp_path / "a.parquet"), "--output", str(tmp_path / "b"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the package pyarrow is missing: pip install 'dragoman[train]'\n"
