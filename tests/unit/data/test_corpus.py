import io
import pickle
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from dragoman.data import corpus
from dragoman.data.corpus import Chunk, CorpusConfig, check_corpora, read_chunks
from dragoman.io import streams


def written(folder: Path, source: list[bytes], target: list[bytes]) -> CorpusConfig:
    for name, lines in (("a.en", source), ("a.de", target)):
        (folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
    return CorpusConfig(source=str(folder / "a.en"), target=str(folder / "a.de"))


def lengths(chunks: list[Chunk]) -> list[int]:
    return [len(chunk) for chunk in chunks]


def test_chunks_are_of_the_chosen_size_and_know_their_place(tmp_path: Path) -> None:
    source, target = [b"s%d" % i for i in range(23)], [b"target %d" % i for i in range(23)]
    chunks = list(read_chunks(written(tmp_path, source, target), 5))
    assert lengths(chunks) == [5, 5, 5, 5, 3]
    assert [(chunk.index, chunk.first_line) for chunk in chunks] == [(i, 5 * i) for i in range(5)]
    assert [line for chunk in chunks for line in chunk.source.to_pylist()] == source
    assert [line for chunk in chunks for line in chunk.target.to_pylist()] == target


def test_a_chunk_closes_with_the_pair_that_takes_it_past_its_bytes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(corpus, "CHUNK_BYTES", 100)
    text = [b"x" * n for n in (10, 60, 90, 1, 300, 2, 3)]
    config = written(tmp_path, text, [b"y" * 20] * 7)
    for block in (7, 64, 1 << 20):
        monkeypatch.setattr(streams, "BLOCK", block)
        assert lengths(list(read_chunks(config, 50))) == [2, 1, 2, 2]
        assert lengths(list(read_chunks(config, 1))) == [1] * 7


@pytest.mark.parametrize("block", [11, 33, 44, 50, 1 << 20])
def test_bytes_are_counted_over_the_blocks_a_chunk_is_made_of(tmp_path: Path, monkeypatch, block: int) -> None:
    monkeypatch.setattr(corpus, "CHUNK_BYTES", 100)
    monkeypatch.setattr(streams, "BLOCK", block)
    assert lengths(list(read_chunks(written(tmp_path, [b"x" * 10] * 13, [b"y" * 20] * 13), 50))) == [4, 4, 4, 1]


def test_a_chunk_carries_no_bytes_of_its_neighbours(tmp_path: Path) -> None:
    chunks = list(read_chunks(written(tmp_path, [b"x" * 1000] * 50, [b"y" * 10] * 50), 10))
    assert len(pickle.dumps(chunks[2])) < 10 * 1010 + 3000
    assert pickle.loads(pickle.dumps(chunks[2])).source.to_pylist() == [b"x" * 1000] * 10


def test_only_the_last_chunk_can_lack_its_end(tmp_path: Path) -> None:
    config = written(tmp_path, [b"a"] * 6, [b"b"] * 6)
    (tmp_path / "a.de").write_bytes(b"b\n" * 5 + b"b")
    assert [chunk.unterminated for chunk in read_chunks(config, 2)] == [False, False, True]
    assert [chunk.unterminated for chunk in read_chunks(config, 4)] == [False, True]


def test_standard_input_carries_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\nc\td\n")))
    [chunk] = read_chunks(CorpusConfig(source="-", format="tsv", source_field=1, target_field=0), 10)
    assert (chunk.source.to_pylist(), chunk.target.to_pylist()) == ([b"b", b"d"], [b"a", b"c"])


@pytest.mark.parametrize(
    ("fields", "file_format", "names"),
    [
        ({"source": "a.tsv", "target": "b.tsv"}, "text", None),
        ({"source": "a.en.gz", "target": "a.de"}, "text", None),
        ({"source": "a.tsv.gz"}, "tsv", ("0", "1")),
        ({"source": "s3://bucket/a.jsonl.zst"}, "jsonl", ("source", "target")),
        ({"source": "a.parquet", "target_field": "de"}, "parquet", ("source", "de")),
        ({"source": "a.txt", "format": "tsv", "source_field": 3}, "tsv", ("3", "1")),
    ],
)
def test_the_format_is_known_by_the_suffix(
    fields: dict[str, object], file_format: str, names: tuple[str, str] | None
) -> None:
    config = CorpusConfig(**fields)
    assert config.file_format == file_format
    assert names is None or config.fields == names


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "a.en"}, r"a\.en: a text corpus needs a target"),
        ({"source": "a.tsv", "target": "b", "format": "tsv"}, "a tsv file contains source and target: remove target b"),
        ({"source": "a", "target": "a"}, "a: source and target are the same file"),
        ({"source": "a", "target": "./a"}, "a: source and target are the same file"),
        ({"source": "a", "target": "b", "source_field": 0}, "text has no fields"),
        ({"source": "a.tsv", "source_field": 1}, "source and target are the same field '1'"),
        ({"source": "-"}, "needs a target"),
        ({"source": "-", "target": "b"}, "standard input must contain source and target"),
        ({"source": "-", "format": "parquet"}, "standard input must contain source and target"),
        ({"source": "a.tsv", "weight": 0}, "weight"),
        ({"source": "a.tsv", "wieght": 1}, "wieght"),
    ],
)
def test_a_corpus_that_cannot_be_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CorpusConfig(**fields)


def test_corpora_used_together_have_names_and_sides_of_their_own() -> None:
    one = CorpusConfig(name="one", source="1.en", target="1.de")
    check_corpora(
        [one, CorpusConfig(name="two", source="2.en", target="2.de"), CorpusConfig(name="three", source="3.tsv")]
    )
    with pytest.raises(ValueError, match="2 corpora are named 'one'"):
        check_corpora([one, CorpusConfig(name="one", source="2.tsv")])
    with pytest.raises(ValueError, match=r"1\.en is the source of 'one' and the target of 'two': swap"):
        check_corpora([one, CorpusConfig(name="two", source="1.de", target="1.en")])
