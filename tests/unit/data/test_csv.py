import gzip
from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig, corpora_from_files, find_languages, read_chunks
from dragoman.data.corpus_formats import find_columns, read_csv, read_tsv
from dragoman.io import streams


def write(folder: Path, name: str, content: str | bytes) -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder / name)


def pairs(address: str, *fields: str) -> list[tuple[bytes, bytes]]:
    blocks = list(read_csv(address, *fields))
    return [pair for block in blocks for pair in zip(block.source.to_pylist(), block.target.to_pylist(), strict=True)]


EXPECTED = [(b"One, two; three", b"Eins"), (b'A "b" c', b"zwei Zeilen"), (b"x", b"")]


@pytest.mark.parametrize("block", [5, 1 << 20])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("header", ["", "source|target", "SRC|Trg", "en|de", "en-US|pt_BR", '"source"|"tgt"'])
def test_separator_and_header_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, separator: str, block: int
) -> None:
    monkeypatch.setattr(streams, "BLOCK", block)
    rows = ['"One, two; three"|Eins', '"A ""b"" c"|"zwei\r\n Zeilen"', "x|"]
    text = "\r\n".join([header] * bool(header) + rows).replace("|", separator) + "\r\n"
    assert pairs(write(tmp_path, "a.csv", text)) == EXPECTED
    assert pairs(write(tmp_path, "b.csv", "\ufeff" + text)) == EXPECTED


def test_the_header_says_which_columns_and_fields_override_it(tmp_path: Path) -> None:
    address = write(tmp_path, "a.csv", "id,target,source,note\n1,Hund,dog,n\n2,Haus,house,m\n")
    assert pairs(address) == [(b"dog", b"Hund"), (b"house", b"Haus")]
    assert pairs(address, "target", "note") == [(b"Hund", b"n"), (b"Haus", b"m")]
    assert pairs(address, "2", "0") == [(b"dog", b"1"), (b"house", b"2")]
    named = write(tmp_path, "b.csv", "English,German\ndog,Hund\n")
    assert pairs(named, "German", "English") == [(b"Hund", b"dog")]


def test_excel_can_name_the_separator(tmp_path: Path) -> None:
    assert pairs(write(tmp_path, "a.csv", "sep=|\nen|de\na, b|c; d\n")) == [(b"a, b", b"c; d")]


def test_bytes_that_are_not_utf8_are_kept_for_cleaning(tmp_path: Path) -> None:
    assert pairs(write(tmp_path, "a.csv", b"en,de\na\xff,b\n")) == [(b"a\xff", b"b")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("en,de\na,b\n\"c\nd\",e\nf, g,h\n", r"a\.csv, line 5: the row has 3 columns, but the first row has 2"),
        ("en,de\na,b\n\"c,d\ne,f\n", r"a\.csv, line 3: not valid CSV"),
        ("en,de\n\"a\"b,c\n", r"a\.csv, line 2: not valid CSV"),
        ("en,de\n\"" + "a,b\n" * 50_000, r"a\.csv, line 2: not valid CSV"),
        ("id,English,German\n1,dog,Hund\n", r"a\.csv: 3 columns.*'id', 'English', 'German'.*--fields SOURCE,TARGET"),
        ("en,de,fr\na,b,c\n", r"a\.csv: 3 columns.*'en', 'de', 'fr'"),
        ("dog\nhouse\n", r"a\.csv: the first row has one column"),
        ("en,de\na," + "b" * (1 << 21) + "\n", r"a\.csv, line 2: the line has more than"),
        ("", r"a\.csv: the file is empty"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pairs(write(tmp_path, "a.csv", text))


def test_fields_that_do_not_exist_are_refused_with_those_that_do(tmp_path: Path) -> None:
    address = write(tmp_path, "a.csv", "en,de,fr\na,b,c\n")
    assert pairs(address, "fr", "en") == [(b"c", b"a")]
    with pytest.raises(ValueError, match="no column 'es' in the first line"):
        pairs(address, "en", "es")
    with pytest.raises(ValueError, match=r"no column 3 \(from 0\)"):
        pairs(address, "0", "3")


def test_a_header_of_a_tsv_file_is_no_pair(tmp_path: Path) -> None:
    def read(text: str, *fields: str) -> list[bytes]:
        return [
            source for block in read_tsv(write(tmp_path, "a.tsv", text), *fields) for source in block.source.to_pylist()
        ]

    assert read("source\ttarget\na\tb\n") == [b"a"]
    assert read("id\tde\ten\n1\tb\ta\n") == [b"b"]
    assert read("a\tb\nc\td\n") == [b"a", b"c"]
    assert read("en\tde\na\tb\n", "1", "0") == [b"de", b"b"]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (["trg", "src"], (1, 0)), (["id", "Source ", "TARGET"], (1, 2)), (["fr", "x", "nl"], (0, 2)),
        (["en", "en"], None), (["en", "de", "fr"], None), (["the", "der"], None), (["source", "de"], None), ([], None),
    ],
)  # fmt: skip
def test_known_headers(header: list[str], columns: tuple[int, int] | None) -> None:
    assert find_columns(header) == columns


def test_languages_are_those_of_the_header(tmp_path: Path) -> None:
    def named(name: str, text: str, **fields: str) -> tuple[str, str] | None:
        return find_languages(CorpusConfig(source=write(tmp_path, name, text), **fields))

    assert named("a.csv", "en-GB;de\na;b\n") == ("en", "de")
    assert named("b.tsv", "id\tde\tnl\n1\ta\tb\n") == ("de", "nl")
    assert named("c.csv", "source,target\na,b\n") is None
    assert named("d.csv", "en,de,fr\na,b,c\n", source_field="fr", target_field="en") == ("fr", "en")
    assert named("e.jsonl", "{}\n", source_field="translation.en", target_field="translation.de") == ("en", "de")
    assert named("f.jsonl", "{}\n") is None


def test_files_of_pairs_follow_text_files_and_share_their_fields(tmp_path: Path) -> None:
    csv = write(tmp_path, "a.csv.gz", gzip.compress(b"en,de\na,b\n"))
    corpora = corpora_from_files("train", ["a.en"], ["a.de"], [1.0, 2.0, 3.0], [csv, "b.tmx"], "de,en")
    assert [(c.name, c.weight, c.file_format) for c in corpora] == [
        ("train", 1.0, "text"), ("train-2", 2.0, "csv"), ("train-3", 3.0, "tmx"),
    ]  # fmt: skip
    [chunk] = read_chunks(corpora[1], 10)
    assert (chunk.source.to_pylist(), chunk.target.to_pylist()) == ([b"b"], [b"a"])


@pytest.mark.parametrize(
    ("pairs", "fields", "weights", "message"),
    [
        (["a.en"], None, [], r"--pairs a\.en: the file extension names no format of pairs"),
        (["-"], None, [], r"--pairs -: the file extension"),
        (["a.csv"], "en", [], "--fields en: give the names of source and target"),
        (["a.csv"], "en,de,fr", [], "--fields en,de,fr: give"),
        (["a.csv"], "en,en", [], "the same field 'en'"),
        ([], "en,de", [], "--fields en,de selects fields of --pairs"),
        (["a.csv", "b.csv"], None, [1.0], "2 --source and --pairs but 1 --weight"),
    ],
)
def test_options_that_cannot_be_are_refused(
    pairs: list[str], fields: str | None, weights: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        corpora_from_files("train", (), (), weights, pairs, fields)
