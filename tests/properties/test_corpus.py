"""What holds for any text whatever: lines come back as they were, and cleaning a second time changes nothing."""

import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.chunk_ranges import find_ranges, load_range, save_ranges
from dragoman.data.corpus import Chunk, CorpusConfig, read_chunks
from dragoman.data.corpus_formats import split_lines
from dragoman.data.pair_cleaning import LengthProfile, clean_pairs
from dragoman.text.cleaning import CleanConfig

LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"\r")), min_size=1, max_size=12)
TROUBLE = st.text(
    st.sampled_from("aB .,\t\r\x00\x85\x92\xado\u0308ö\u200b\u200d\u200e\u2028\u202e\ufeff\ufffd▁漢\u212bשก&@-<>/s\\")
    | st.characters(),
    max_size=12,
)
SIDE = TROUBLE.map(lambda text: text.encode(errors="surrogatepass")) | st.binary(max_size=8)


@settings(max_examples=300, deadline=None)
@given(lines=LINES, cuts=st.lists(st.integers(0, 150), max_size=6), ended=st.booleans())
def test_lines_come_back_whatever_blocks_they_come_in(lines: list[bytes], cuts: list[int], ended: bool) -> None:
    text = b"\n".join(lines) + (b"\n" if ended else b"")
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    blocks = [text[start:end] for start, end in pairwise(edges)]
    read = [line for piece in split_lines(blocks) for line in piece.text.to_pylist()]
    expected = text.split(b"\n")
    assert read == (expected[:-1] if expected[-1] == b"" else expected)


@settings(max_examples=300, deadline=None)
@given(pairs=st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=8))
def test_what_was_cleaned_is_clean(pairs: list[tuple[bytes, bytes]]) -> None:
    source, target = (pa.array(side, pa.large_binary()) for side in zip(*pairs, strict=True))
    once = clean_pairs(Chunk(0, 0, source, target), CleanConfig(), LengthProfile())
    assert once.report.pairs == len(pairs) == once.report.stayed + once.report.dropped
    again = Chunk(0, 0, once.source.cast(pa.large_binary()), once.target.cast(pa.large_binary()))
    twice = clean_pairs(again, CleanConfig(), LengthProfile())
    assert (twice.report.dropped, twice.report.fixed) == (0, 0)
    assert twice.source.equals(once.source)
    assert twice.target.equals(once.target)


@settings(max_examples=100, deadline=None)
@given(pairs=st.lists(st.tuples(SIDE, SIDE), min_size=2, max_size=8), cut=st.integers(0, 8))
def test_a_corpus_is_cleaned_the_same_in_any_chunks(pairs: list[tuple[bytes, bytes]], cut: int) -> None:
    source, target = (pa.array(side, pa.large_binary()) for side in zip(*pairs, strict=True))
    cut = min(cut, len(pairs) - 1)
    whole = clean_pairs(Chunk(0, 0, source, target), CleanConfig(), LengthProfile())
    parts = [
        clean_pairs(Chunk(0, first, source[first:end], target[first:end]), CleanConfig(), LengthProfile())
        for first, end in ((0, cut), (cut, len(pairs)))
    ]
    assert parts[0].report + parts[1].report == whole.report
    assert [line for part in parts for line in part.line.tolist()] == whole.line.tolist()
    assert pa.concat_arrays([part.source for part in parts]).equals(whole.source)


@settings(max_examples=200, deadline=None)
@given(
    pairs=st.lists(st.tuples(*[st.text("ab\r\u2028ü ", max_size=30)] * 2), min_size=1, max_size=30),
    ended=st.tuples(st.booleans(), st.booleans()),
    lines_per_chunk=st.integers(1, 9),
    chunk_bytes=st.integers(1, 200),
    block=st.integers(5, 60),
)
def test_chunks_read_by_byte_ranges_are_those_of_a_whole_reading(
    pairs: list[tuple[str, str]], ended: tuple[bool, bool], lines_per_chunk: int, chunk_bytes: int, block: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.data.corpus.CHUNK_BYTES", chunk_bytes)
        for module in ("dragoman.io.streams", "dragoman.data.chunk_ranges"):
            patch.setattr(f"{module}.BLOCK", block)
        folder = Path(name)
        for side, file in enumerate(("a", "b")):  # a letter, since a file of empty lines that ends without is shorter
            text = "\n".join([*(pair[side] for pair in pairs), "z"]) + ("\n" if ended[side] else "")
            (folder / file).write_bytes(text.encode())
        corpus = CorpusConfig(source=str(folder / "a"), target=str(folder / "b"))
        save_ranges(folder, corpus, list(find_ranges(corpus.source, str(corpus.target), lines_per_chunk)))
        whole = list(read_chunks(corpus, lines_per_chunk))
        for chunk in whole:
            found = load_range(folder, chunk.index)
            assert found is not None
            assert (found.first_line, found.unterminated) == (chunk.first_line, chunk.unterminated)
            assert found.source.equals(chunk.source)
            assert found.target.equals(chunk.target)
        assert sum(map(len, whole)) == len(pairs) + 1
