import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman.data.corpus_formats import LONGEST_LINE, RawPairs, read_jsonl, read_parquet, read_text, read_tsv
from dragoman.io import streams

TOO_LONG = b"x" * (LONGEST_LINE + 5)


def pairs(pieces: list[RawPairs]) -> list[tuple[bytes, bytes]]:
    return [pair for piece in pieces for pair in zip(piece.source.to_pylist(), piece.target.to_pylist(), strict=True)]


def write(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


@pytest.mark.parametrize("block", [3, 10, 1 << 20])
def test_two_files_are_paired_line_by_line_whatever_the_blocks(tmp_path: Path, monkeypatch, block: int) -> None:
    monkeypatch.setattr(streams, "BLOCK", block)
    sides = ([b"a", b"", b"long enough for many blocks", b"d"], [b"A", b"B\r", b"", "\u2028".encode()])
    source, target = (write(tmp_path, name, b"\n".join(side) + b"\n") for name, side in zip("st", sides, strict=True))
    assert pairs(list(read_text(source, target))) == list(zip(*sides, strict=True))


@pytest.mark.parametrize("block", [3, 1 << 20])
@pytest.mark.parametrize(("left", "right"), [(7, 9), (9, 7), (1, 500)])
def test_files_of_different_length_are_refused_with_both_counts(
    tmp_path: Path, monkeypatch, block, left, right
) -> None:
    monkeypatch.setattr(streams, "BLOCK", block)
    source, target = write(tmp_path, "a.en", b"x\n" * left), write(tmp_path, "a.de", b"y\n" * right)
    with pytest.raises(ValueError, match=rf"a\.en has {left} lines but .*a\.de has {right}:"):
        list(read_text(source, target))


def test_a_missing_end_on_either_side_is_noted_with_the_last_pair(tmp_path: Path) -> None:
    ended, unended = write(tmp_path, "ended", b"a\nb\n"), write(tmp_path, "unended", b"a\nb")
    for source, target in ((ended, unended), (unended, ended), (unended, unended)):
        assert [piece.unterminated for piece in read_text(source, target)][-1]
    assert not any(piece.unterminated for piece in read_text(ended, write(tmp_path, "too", b"c\nd\n")))


def test_tsv_columns_are_counted_from_zero(tmp_path: Path) -> None:
    address = write(tmp_path, "a.tsv", b'id\t"eins"\tone\nid\t\xff\ttwo\n\n\r\nid\tdrei\tthree\r\n')
    expected = [(b"one", b'"eins"'), (b"two", b"\xff"), (b"", b""), (b"", b""), (b"three\r", b"drei")]
    assert pairs(list(read_tsv(address, "2", "1"))) == expected


def test_tsv_columns_are_named_by_the_first_line(tmp_path: Path) -> None:
    address = write(tmp_path, "a.tsv", b"\xef\xbb\xbfen\tscore\tde\r\none\t1\teins\r\n")
    assert pairs(list(read_tsv(address, "en", "de"))) == [(b"one", b"eins\r")]
    with pytest.raises(ValueError, match=r"no column 'fr' in the first line \('en', 'score', 'de'\)"):
        list(read_tsv(address, "en", "fr"))


def test_a_tsv_line_with_too_few_columns_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BLOCK", 8)
    address = write(tmp_path, "a.tsv", b"a\tb\tc\na\tb\tc\na\tb\na\n")
    with pytest.raises(ValueError, match=r"a\.tsv, line 3: the line has 2 tab-separated columns, but no column 2 "):
        list(read_tsv(address, "0", "2"))
    named = write(tmp_path, "b.tsv", b"en\tde\na\tb\na\n")
    with pytest.raises(ValueError, match=r"b\.tsv, line 3: the line has 1 tab-separated columns, but no column 1 "):
        list(read_tsv(named, "en", "de"))


def test_a_record_too_long_to_hold_is_too_long_on_both_sides(tmp_path: Path) -> None:
    tsv = write(tmp_path, "a.tsv", b"a\tb\n" + TOO_LONG + b"\tc\nd\te\n")
    jsonl = write(tmp_path, "a.jsonl", b'{"s":"a","t":"b"}\n{"s":"' + TOO_LONG + b'","t":"c"}\n{"s":"d","t":"e"}\n')
    for found in (pairs(list(read_tsv(tsv, "0", "1"))), pairs(list(read_jsonl(jsonl, "s", "t")))):
        assert (found[0], found[2]) == ((b"a", b"b"), (b"d", b"e"))
        assert [len(side) for side in found[1]] == [LONGEST_LINE + 1] * 2


def test_json_lines_give_their_keys_also_inner_ones(tmp_path: Path) -> None:
    lines = [{"t": {"en": "one", "de": "eins\n"}}, {"t": {"en": "", "de": "zwei"}, "more": [1]}]
    text = b"\xef\xbb\xbf" + "\n\n".join(json.dumps(line) for line in lines).encode()
    address = write(tmp_path, "a.jsonl", text)
    pieces = list(read_jsonl(address, "t.en", "t.de"))
    assert pairs(pieces) == [(b"one", b"eins\n"), (b"", b""), (b"", b"zwei")]
    assert pieces[-1].unterminated
    dotted = write(tmp_path, "b.jsonl", b'{"t.en": "a", "t": {"de": "b"}}\n')
    assert pairs(list(read_jsonl(dotted, "t.en", "t.de"))) == [(b"a", b"b")]


def test_what_is_broken_in_json_text_stays_broken_as_it_was(tmp_path: Path) -> None:
    lines = [rb'{"s":"a \ud800 b","t":"\ud83d\ude00"}', b'{"s":"\xff","t":"ok"}', b'{"s":"\xff \\ud800","t":"\\udc80"}']
    address = write(tmp_path, "a.jsonl", b"\n".join(lines) + b"\n")
    assert pairs(list(read_jsonl(address, "s", "t"))) == [
        (b"a \xed\xa0\x80 b", "😀".encode()),
        (b"\xff", b"ok"),
        (b"\xed\xb3\xbf \xed\xa0\x80", b"\x80"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"s": "a", "t": ', r"line 2: the line is not JSON \(.*\): write one object per line"),
        (b'{"s": "a", "u": "b"}', r"line 2: no key 't' \(the line has 's', 'u'\)"),
        (b'["a", "b"]', r"line 2: no key 's' \(the line has no keys\)"),
        (b'{"s": "a", "t": null}', r"line 2: the value of 't' is null"),
        (b"[" * 100_000, r"line 2: the line is not JSON"),
    ],
)
def test_a_json_line_that_cannot_be_used_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    address = write(tmp_path, "a.jsonl", b'{"s": "a", "t": "b"}\n' + line + b"\n")
    with pytest.raises(ValueError, match=rf"a\.jsonl, {message}"):
        list(read_jsonl(address, "s", "t"))


def parquet(folder: Path, **columns: pa.Array) -> str:
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=2)
    return str(folder / "a.parquet")


def test_parquet_gives_its_columns_whatever_kind_of_text_they_hold(tmp_path: Path) -> None:
    address = parquet(
        tmp_path,
        en=pa.array(["one", None, "three"]),
        de=pa.array(["eins", "zwei", "eins"]).dictionary_encode(),
        both=pa.array([{"fr": b"un"}, {"fr": b"\xff"}, {"fr": None}], pa.struct([("fr", pa.binary())])),
        score=pa.array([1, 2, 3]),
    )
    assert pairs(list(read_parquet(address, "en", "de"))) == [(b"one", b"eins"), (b"", b"zwei"), (b"three", b"eins")]
    assert pairs(list(read_parquet(address, "both.fr", "en")))[1] == (b"\xff", b"")
    for field, message in {
        "fr": r"no column 'fr' \(columns: 'en', 'de', 'both', 'score'\)",
        "both.es": r"no field 'es' in column 'both' \(fields: 'fr'\)",
        "en.x": r"no field 'x' in column 'en' \(fields: none\)",
        "score": "column 'score' has type int64",
    }.items():
        with pytest.raises(ValueError, match=message):
            list(read_parquet(address, field, "en"))


def test_a_parquet_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.parquet: not a valid Parquet file"):
        list(read_parquet(write(tmp_path, "a.parquet", b"en\tde\n" * 9), "en", "de"))
    with pytest.raises(ValueError, match="there is no such file"):
        list(read_parquet(str(tmp_path / "b.parquet"), "en", "de"))
