"""Chunks by byte ranges; that they equal a whole reading is in tests/properties/test_corpus.py."""

import gzip
from pathlib import Path

import pytest

from dragoman.data.chunk_ranges import find_ranges, has_ranges, load_range, save_ranges
from dragoman.data.corpus import CorpusConfig
from dragoman.text.cleaning import LONGEST_LINE


def write(folder: Path, source: bytes, target: bytes) -> CorpusConfig:
    (folder / "a").write_bytes(source)
    (folder / "b").write_bytes(target)
    return CorpusConfig(source=str(folder / "a"), target=str(folder / "b"))


def test_only_two_plain_files_have_byte_ranges(tmp_path: Path) -> None:
    assert has_ranges(write(tmp_path, b"x\n", b"y\n"))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"y\n"))
    assert not has_ranges(CorpusConfig(source=str(tmp_path / "a"), target=str(tmp_path / "c.gz")))
    assert not has_ranges(CorpusConfig(source="memory://a", target=str(tmp_path / "b")))
    assert not has_ranges(CorpusConfig(source=str(tmp_path / "c.tsv")))
    assert not has_ranges(CorpusConfig(source=str(tmp_path / "a"), target=str(tmp_path / "b"), links="l"))


def test_files_of_different_lengths_are_refused_with_both_numbers(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"1\n2\n3\n", b"1\n2\n3\n4\n5")
    with pytest.raises(ValueError, match=r"a has 3 lines but .*b has 5"):
        list(find_ranges(corpus.source, str(corpus.target), 2))


def test_a_long_line_is_cut_as_in_a_whole_reading(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"x" * (3 * LONGEST_LINE) + b"\nsecond\n", b"y\nz\n")
    save_ranges(tmp_path, corpus, list(find_ranges(corpus.source, str(corpus.target), 5)))
    chunk = load_range(tmp_path, 0)
    assert chunk is not None
    assert [len(line) for line in chunk.source.to_pylist()] == [LONGEST_LINE + 1, 6]


def test_a_file_that_changes_after_its_lines_were_counted_is_an_error(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"one\ntwo\nthree\n", b"1\n2\n3\n")
    save_ranges(tmp_path, corpus, list(find_ranges(corpus.source, str(corpus.target), 2)))
    (tmp_path / "a").write_bytes(b"one and two\nthree\n")
    with pytest.raises(ValueError, match="a: the file has changed since its lines were counted"):
        load_range(tmp_path, 0)
