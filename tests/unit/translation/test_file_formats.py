"""Shard in, shard out: what is no text comes back as it was, and the same shard always gives the same bytes."""

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman.bulk.shard_worker import translate_file
from dragoman.io.durable import Sink
from dragoman.translation import parquet_files
from dragoman.translation.file_formats import FieldNames, RowCounts, refuse_unsupported

FIELDS = FieldNames("text", "out")


def upper(inputs: Iterable[tuple[object, str | None]]) -> Iterator[tuple[object, str | None]]:
    for key, text in inputs:
        yield key, text and text.upper()


def translated(shard: Path, fields: FieldNames = FIELDS) -> tuple[bytes, RowCounts]:
    path = shard.with_name("out")
    with path.open("wb") as file:
        counts = translate_file(shard, Sink(file), fields, upper)
    return path.read_bytes(), counts


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def table(rows: int = 5) -> pa.Table:
    texts = ["ein", None, "zwei", "", "drei"] * (rows // 5)
    kinds = pa.array(["x", "y", "x", None, "y"] * (rows // 5)).dictionary_encode()
    lists = pa.array([[1], [], None, [2, 3], [4]] * (rows // 5))
    return pa.table({"id": range(rows), "text": texts, "kind": kinds, "list": lists}).replace_schema_metadata(
        {"a": "b"}
    )


def test_lines_keep_their_ends_their_number_and_what_python_calls_line_breaks(tmp_path: Path) -> None:
    text = "\ufeffone\r\n\n two \n\u2028three\u0085x\n\x0cfour"
    out, counts = translated(put(tmp_path, "a.txt", text.encode()))
    assert out.decode() == "ONE\r\n\n TWO \n\u2028THREE\u0085X\n\x0cFOUR"
    assert counts == RowCounts(5, 0)


@pytest.mark.parametrize("name", ["a.txt", "a.en", "part-00001", "a.jsonl", "a.txt.gz", "a.jsonl.gz", "a.txt.zst"])
def test_an_empty_shard_gives_an_empty_one(tmp_path: Path, name: str) -> None:
    out, counts = translated(put(tmp_path, name, gzip.compress(b"") if name.endswith("gz") else b""))
    assert counts == RowCounts(0, 0)
    again, _ = translated(put(tmp_path, name, out))
    assert again == out


def test_a_packed_shard_is_packed_again_always_to_the_same_bytes(tmp_path: Path) -> None:
    plain = "".join(f"line {number}\n" for number in range(5000)).encode()
    out, counts = translated(put(tmp_path, "a.txt.gz", gzip.compress(plain, mtime=77)))
    assert gzip.decompress(out) == plain.upper()
    assert len(out) < len(plain) / 3
    assert translated(put(tmp_path, "b.txt.gz", gzip.compress(plain, 1, mtime=99)))[0] == out
    assert counts.rows == 5000
    shard = put(tmp_path, "a.zst", pa.compress(plain, "zstd", asbytes=True))
    out, _ = translated(shard)
    assert pa.CompressedInputStream(pa.BufferReader(out), "zstd").read() == plain.upper()
    assert translated(shard)[0] == out


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_packed_shard_that_is_cut_short_is_refused(tmp_path: Path, name: str) -> None:
    plain = "".join(f"line {number * 7919}\n" for number in range(5000)).encode()
    packed = gzip.compress(plain) if name.endswith("gz") else pa.compress(plain, "zstd", asbytes=True)
    with pytest.raises(ValueError, match=rf"{name}.*truncated"):
        translated(put(tmp_path, name, packed[:-200]))


def test_json_lines_keep_every_byte_of_what_is_not_ours(tmp_path: Path) -> None:
    lines = [
        '{"id":1.10,"text":"a\\u00e9\\n","n":[1e5, {"text": 2}]}\n',
        "  \n",
        '\t{"text" : null , "x":"\\ud83d\\ude00" }  \r\n',
        '{"big": 12345678901234567890123, "text": "b"}',
    ]
    out, counts = translated(put(tmp_path, "a.jsonl", "".join(lines).encode()))
    assert out.decode() == (
        '{"id":1.10,"text":"a\\u00e9\\n","n":[1e5, {"text": 2}], "out": "AÉ\\n"}\n'
        "  \n"
        '\t{"text" : null , "x":"\\ud83d\\ude00", "out": null}  \r\n'
        '{"big": 12345678901234567890123, "text": "b", "out": "B"}'
    )
    assert counts == RowCounts(3, 1)
    assert [json.loads(line)["out"] for line in out.decode().split("\n") if line.strip()] == ["AÉ\n", None, "B"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"text": 5}', r"line 3: the field 'text' is 5: "),
        ('{"text": ["a"]}', r"line 3: the field 'text' is \[\"a\"\]: "),
        ('{"texts": "a", "n": 1}', r"line 3: no field 'text' \(fields: 'texts', 'n'\): .*--field"),
        ('{"text": "a", "out": 1}', r"line 3: the field 'out' exists already: .*--into"),
        ('["a"]', r"line 3: .* is not a JSON object"),
        ('{"text": "a"', r"line 3: the line is not JSON"),
    ],
)
def test_a_row_that_is_wrong_is_named_with_its_shard(tmp_path: Path, line: str, error: str) -> None:
    shard = put(tmp_path, "a.jsonl", f'{{"text": "a"}}\n\n{line}\n'.encode())
    with pytest.raises(ValueError, match=rf"a\.jsonl, {error}"):
        translated(shard)


def test_a_line_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt: line 3 is not UTF-8"):
        translated(put(tmp_path, "a.txt", b"a\nb\n\xe4\nc\n"))
    with pytest.raises(ValueError, match=r"b\.txt: this looks like gzip"):
        translated(put(tmp_path, "b.txt", gzip.compress(b"a\n")))


def test_parquet_keeps_all_columns_and_their_types_and_adds_one(tmp_path: Path) -> None:
    before = table()
    pq.write_table(before, tmp_path / "a.parquet")
    out, counts = translated(tmp_path / "a.parquet")
    after = pq.read_table(io.BytesIO(out))
    assert after.column("out").to_pylist() == ["EIN", None, "ZWEI", "", "DREI"]
    assert after.drop_columns("out").equals(before)
    assert after.schema.metadata == before.schema.metadata == {b"a": b"b"}
    assert after.schema.field("out").type == pa.string()
    assert counts == RowCounts(5, 1)


def test_parquet_bytes_do_not_depend_on_how_the_shard_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP", 40)
    monkeypatch.setattr(parquet_files, "READ_ROWS", 13)
    found = set()
    for rows in (7, 40, 64, 1000):
        pq.write_table(table(105), tmp_path / "a.parquet", row_group_size=rows)
        out, counts = translated(tmp_path / "a.parquet")
        groups = pq.ParquetFile(io.BytesIO(out)).metadata
        assert [groups.row_group(place).num_rows for place in range(groups.num_row_groups)] == [40, 40, 25]
        assert pq.read_table(io.BytesIO(out)).drop_columns("out").equals(table(105))
        assert counts == RowCounts(105, 21)
        found.add(out)
    assert len(found) == 1


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_text_may_be_of_any_kind_of_text(tmp_path: Path, kind: pa.DataType) -> None:
    texts = pa.array(["ein", None, "zwei"]).cast(kind)
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    after = pq.read_table(io.BytesIO(translated(tmp_path / "a.parquet")[0]))
    assert after.column("out").to_pylist() == ["EIN", None, "ZWEI"]


def test_parquet_without_rows_or_with_nothing_but_nulls_is_translated_too(tmp_path: Path) -> None:
    pq.write_table(table()[:0], tmp_path / "a.parquet")
    assert pq.read_table(io.BytesIO(translated(tmp_path / "a.parquet")[0])).num_rows == 0
    pq.write_table(pa.table({"text": pa.nulls(3)}), tmp_path / "b.parquet")
    out, counts = translated(tmp_path / "b.parquet")
    assert pq.read_table(io.BytesIO(out)).column("out").to_pylist() == [None] * 3
    assert counts == RowCounts(3, 3)


def test_parquet_that_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: column 'id' holds int64, not text: .*--field"):
        translated(tmp_path / "a.parquet", FieldNames("id", "out"))
    with pytest.raises(ValueError, match=r"a\.parquet: no column 'word' \(columns: 'id', 'text'.*--field"):
        translated(tmp_path / "a.parquet", FieldNames("word", "out"))
    with pytest.raises(ValueError, match=r"a\.parquet: the column 'kind' exists already: .*--into"):
        translated(tmp_path / "a.parquet", FieldNames("text", "kind"))
    with pytest.raises(ValueError, match=r"b\.parquet: not a valid Parquet file"):
        translated(put(tmp_path, "b.parquet", b"PAR1 and no more"))
    broken = pa.array([b"a", b"b", b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": broken}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"c\.parquet, row 2 \(from 0\): not UTF-8"):
        translated(tmp_path / "c.parquet")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.json", "a.parquet.gz", "a.xz", "a.odt"])
def test_what_is_no_shard_is_refused_before_it_is_read(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: "):
        refuse_unsupported(Path(name))
