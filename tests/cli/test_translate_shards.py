"""`dragoman translate --shards` as installed: what it says, how it ends, and what it leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fork_server import DRAGOMAN, INSTALLED


def command(*arguments: object) -> list[str]:
    return [str(DRAGOMAN), "translate", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def shards(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        rows = [{"id": place, "text": "two red dogs. ten old houses."} for place in range(3)]
        (tmp_path / "in" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "in" / "*.jsonl")


def test_shards_come_out_under_their_names_and_the_second_time_nothing_is_done(
    exported: Path, shards: str, tmp_path: Path
) -> None:
    arguments = (exported, "--shards", shards, "--out", tmp_path / "out", "--workers", "1")
    first = run(*arguments)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("2 shards finished, 6 rows; 12 sentences in ")
    row = json.loads((tmp_path / "out" / "a.jsonl").read_text().partition("\n")[0])
    assert row == {
        "id": 0,
        "text": "two red dogs. ten old houses.",
        "translation": "zwei rote Hunde. zehn alte Häuser.",
    }
    second = run(*arguments)
    assert (second.returncode, second.stdout) == (0, "2 shards finished, 6 rows; 2 of them were finished before\n")


def test_a_wrong_row_ends_the_command_with_2_when_the_others_are_finished(
    exported: Path, shards: str, tmp_path: Path
) -> None:
    (tmp_path / "in" / "a.jsonl").write_text('{"text": false}\n')
    done = run(exported, "--shards", shards, "--out", tmp_path / "out", "--workers", "1")
    assert done.returncode == 2
    assert done.stdout.startswith("1 shard finished, 3 rows")
    assert "a.jsonl, line 1: the field 'text' is false: write a string or null" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("index", ["2/2", "one"])
def test_an_index_that_makes_no_sense_is_refused(exported: Path, shards: str, tmp_path: Path, index: str) -> None:
    done = run(exported, "--shards", shards, "--out", tmp_path / "out", "--shard-index", index)
    assert done.returncode == 2
    assert f"--shard-index {index}" in done.stderr.replace("'", "")
    assert not (tmp_path / "out").exists()


def test_ctrl_c_leaves_nothing_unfinished_and_the_same_command_goes_on(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("".join(f"two red dogs {number}.\n" for number in range(40_000)))
    arguments = command(exported, "--shards", tmp_path / "in" / "*", "--out", tmp_path / "out", "--workers", "1")
    process = subprocess.Popen(
        [INSTALLED, *arguments[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    begin = time.monotonic()
    while not list((tmp_path / "out").glob(".a.txt.*")) and time.monotonic() - begin < 90:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.endswith("stopped; the same command resumes with the unfinished files\n")
    assert "Traceback" not in errors
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"bulk.json"}


def test_neither_torch_nor_arrow_is_imported_for_lines(exported: Path, shards: str, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from dragoman.bulk.bulk_run import run_bulk\n"
        "from dragoman.bulk.shard_worker import BulkJob, ShardWorker, choose_settings\n"
        "from dragoman.bundle import open_bundle\nfrom dragoman.translation.translate_request import TranslateRequest\n"
        "model, shard, out = map(Path, sys.argv[1:])\n"
        "request = TranslateRequest(model, shards=str(shard), out=out, into='german')\n"
        "job = BulkJob(model, out, choose_settings(open_bundle(model), request, print), 1)\n"
        "print(ShardWorker(job)(shard).rows, {'torch', 'pyarrow', 'ray', 'zstandard', 'fsspec'} & set(sys.modules))"
    )
    shard = Path(shards).with_name("a.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", program, str(exported), str(shard), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "3 set()\n", done.stderr
