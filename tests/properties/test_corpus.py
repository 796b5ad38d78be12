"""What holds for any text whatever: lines come back as they were, and cleaning a second time changes nothing."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.corpus import Chunk
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
