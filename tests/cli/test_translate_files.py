"""`dragoman translate` from file to file: text, JSON lines and Parquet, packed or not; what is not translated stays."""

import gzip
import json
import os
import subprocess
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fork_server import DRAGOMAN, INSTALLED

TEXTS = ["two red dogs.", "", "ten old houses. four green women.", " - two red\t tables.", "two red dogs."]
GERMAN = ["zwei rote Hunde.", "", "zehn alte Häuser. vier grüne Frauen.", " - zwei rote\t tische.", "zwei rote Hunde."]


def run(model: Path, *arguments: object, given: bytes | None = None) -> str:
    """What it wrote; standard error is empty."""
    command = [str(DRAGOMAN), "translate", str(model), *map(str, arguments)]
    done = subprocess.run(command, input=given or b"", capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def german(exported: Path) -> list[str]:
    """Each text on its own: what comes of it in a file must be the same."""
    found = run(exported, *TEXTS).split("\n")
    assert found.pop() == ""
    assert found[:3] == GERMAN[:3]
    assert found[3].startswith(" - zwei")
    return found


def pack_weights(name: str, data: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(data)
    return pa.compress(data, "zstd", asbytes=True) if name.endswith(".zst") else data


def unpack_weights(path: Path) -> bytes:
    if path.suffix == ".zst":
        with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
            return bytes(stream.read())
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.mark.parametrize(
    ("name", "output"), [("a.txt", "b.de"), ("a.en.gz", "b.gz"), ("a.en", "b.zst"), ("a.zst", "b.txt.gz")]
)
def test_text_goes_from_file_to_file_however_they_are_packed(
    name: str, output: str, exported: Path, german: list[str], tmp_path: Path
) -> None:
    lines = "".join(f"{text}\n" for text in TEXTS).encode()
    (tmp_path / name).write_bytes(pack_weights(name, lines))
    assert run(exported, "--input", tmp_path / name, "--output", tmp_path / output) == ""
    assert unpack_weights(tmp_path / output).decode() == "".join(f"{text}\n" for text in german)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, output])


@pytest.mark.parametrize("end", ["", "\r\n"])
def test_lines_end_as_they_did(end: str, exported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(f"two red dogs.\r\nten old houses.{end}".encode())
    expected = f"zwei rote Hunde.\r\nzehn alte Häuser.{end}"
    run(exported, "--input", tmp_path / "a.en", "--output", tmp_path / "a.de")
    assert (tmp_path / "a.de").read_bytes().decode() == expected
    assert run(exported, "--input", "-", "--output", "-", given=(tmp_path / "a.en").read_bytes()) == expected
    rows = f'{{"text": "two red dogs."}}\r\n{{"text": "ten old houses."}}{end}'.encode()
    written = run(exported, "--format", "jsonl", given=rows)
    assert written.split("\r\n")[0] == '{"text": "two red dogs.", "translation": "zwei rote Hunde."}'
    assert written.endswith(f"}}{end}")


def test_what_is_no_file_is_read_and_written_as_it_comes(exported: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.en")
    os.mkfifo(tmp_path / "out.de")
    command = [INSTALLED, "translate", exported, "--input", tmp_path / "in.en", "--output", tmp_path / "out.de"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    lines = b"two red dogs.\nten old houses.\n"
    threading.Thread(target=(tmp_path / "in.en").write_bytes, args=(lines,), daemon=True).start()
    assert (tmp_path / "out.de").read_bytes().decode() == "zwei rote Hunde.\nzehn alte Häuser.\n"
    assert process.communicate(timeout=30) == (None, b"")
    assert process.returncode == 0
    assert run(exported, "two red dogs.", "--output", "/dev/null") == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.en", "out.de"]


def test_a_standard_output_that_is_added_to_keeps_what_is_there(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("before\n")
    command = [DRAGOMAN, "translate", exported, "two red dogs.", "--output", "/dev/stdout"]
    with (tmp_path / "a.de").open("ab") as added:
        subprocess.run(command, stdout=added, check=True, timeout=60)
    assert (tmp_path / "a.de").read_text() == "before\nzwei rote Hunde.\n"


def test_a_text_that_begins_with_a_dash_is_given_after_two(exported: Path) -> None:
    assert run(exported, "--", "- two red dogs.") == "- zwei rote Hunde.\n"
    refused = subprocess.run([DRAGOMAN, "translate", exported, "- two red dogs."], capture_output=True, check=False)
    assert refused.returncode == 2
    assert b"-- '- two red dogs.'" in refused.stderr


def test_a_json_object_comes_back_to_the_last_digit_with_its_translation_behind(
    exported: Path, german: list[str], tmp_path: Path
) -> None:
    odd = [
        '{"text": "two red dogs.", "price": 1.50, "huge": 12345678901234567890, "e": 1E5, "é": "\\u00e9"}',
        '  {"nested": {"text": [1,  2]},"text":"ten old houses. four green women."}  ',
        "",
        '{"a": null, "text": null}',
        '{"text": " - two red\\t tables.", "twice": 1, "twice": 2}',
    ]
    expected = [
        f'{odd[0][:-1]}, "translation": "{german[0]}"}}',
        f'{odd[1].rstrip()[:-1]}, "translation": "{german[2]}"}}  ',
        "",
        '{"a": null, "text": null, "translation": null}',
        f'{odd[4][:-1]}, "translation": {json.dumps(german[3], ensure_ascii=False)}}}',
    ]
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in odd), encoding="utf-8")
    run(exported, "--input", tmp_path / "a.jsonl", "--output", tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected)
    piped = run(exported, "--format", "jsonl", given=(tmp_path / "a.jsonl").read_bytes())
    assert piped == "".join(f"{line}\n" for line in expected)


def test_fields_have_the_names_that_are_given(exported: Path) -> None:
    given = b'{"text": 7, "question": "two red dogs.", "translation": true}\n'
    found = run(exported, "--format", "jsonl", "--field", "question", "--into", "frage", given=given)
    assert found == '{"text": 7, "question": "two red dogs.", "translation": true, "frage": "zwei rote Hunde."}\n'


def test_a_text_of_several_lines_keeps_them_in_json(exported: Path) -> None:
    given = json.dumps({"text": "two red dogs.\r\n\r\n* ten old houses.\n"}).encode()
    (found,) = map(json.loads, run(exported, "--format", "jsonl", given=given).splitlines())
    assert found["translation"] == "zwei rote Hunde.\r\n\r\n* zehn alte Häuser.\n"


def test_a_column_of_parquet_becomes_another_and_all_others_stay(
    exported: Path, german: list[str], tmp_path: Path
) -> None:
    table = pa.table(
        {
            "id": pa.array(range(6), pa.int16()),
            "english": pa.array([*TEXTS, None], pa.large_string()),
            "tags": pa.array([["a"], [], None, ["b", "c"], [], []]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    run(
        *(exported, "--input", tmp_path / "a.parquet", "--output", tmp_path / "b.parquet"),
        *("--field", "english", "--into", "german"),
    )
    found = pq.read_table(tmp_path / "b.parquet")
    assert found.drop(["german"]) == table
    assert found["german"].to_pylist() == [*german, None]


def test_what_is_written_beside_a_translation_has_a_place_in_json_and_parquet(exported: Path, tmp_path: Path) -> None:
    beside = ["--nbest", "2", "--alignment"]
    given = b'{"text": "two red dogs."}\n'
    (found,) = map(json.loads, run(exported, "--format", "jsonl", *beside, given=given).splitlines())
    best, other = found["translation"]
    assert list(best) == ["text", "score", "alignment"]
    assert best["text"] == "zwei rote Hunde."
    assert 0 > best["score"] > other["score"]
    pq.write_table(pa.table({"text": ["two red dogs.", None]}), tmp_path / "a.parquet")
    run(exported, "--input", tmp_path / "a.parquet", "--output", tmp_path / "b.parquet", *beside)
    assert pq.read_table(tmp_path / "b.parquet")["translation"].to_pylist() == [[best, other], None]
    (scored,) = map(json.loads, run(exported, "--format", "jsonl", "--scores", given=given).splitlines())
    assert scored["translation"] == {"text": best["text"], "score": best["score"]}


def test_a_file_of_many_lines_keeps_their_order_and_number(exported: Path, tmp_path: Path) -> None:
    """More than one window, with lines that are the same and lines that are empty."""
    numbers, nouns = ["two", "three", "four", "ten"], ["dogs", "houses", "tables", "women"]
    texts = [f"{numbers[i % 4]} red {nouns[i * i % 7 % 4]}." if i % 5 else "" for i in range(3_000)]
    alone = dict(zip(sorted(set(texts)), run(exported, *sorted(set(texts))).split("\n"), strict=False))
    (tmp_path / "a").write_text("".join(f"{text}\n" for text in texts))
    run(exported, "--input", tmp_path / "a", "--output", tmp_path / "b")
    *found, last = (tmp_path / "b").read_bytes().decode().split("\n")
    assert last == ""
    assert found == [alone[text] for text in texts]
