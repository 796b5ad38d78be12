import pytest

from dragoman.data.corpus_formats import LONGEST_LINE, is_stub, split_lines


def read(*blocks: bytes) -> list[bytes]:
    return [line for lines in split_lines(blocks) for line in lines.text.to_pylist()]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_only_a_newline_ends_a_line(size: int) -> None:
    lines = [b"a\r", b"", b"b\x0b\x0cc", "d\u2028e\u2029f\x85g".encode(), b"\x1c\x1d\x1e", b"\xff\x00", b"", b"end"]
    text = b"".join(line + b"\n" for line in lines)
    assert read(*(text[i : i + size] for i in range(0, len(text), size))) == lines


@pytest.mark.parametrize(
    ("text", "lines", "unterminated"), [(b"a\nb", [b"a", b"b"], True), (b"a\nb\n", [b"a", b"b"], False)]
)
def test_a_last_line_without_its_end_is_a_line_and_is_noted(
    text: bytes, lines: list[bytes], unterminated: bool
) -> None:
    pieces = list(split_lines([text]))
    assert [line for piece in pieces for line in piece.text.to_pylist()] == lines
    assert [piece.unterminated for piece in pieces][-1] is unterminated
    assert not any(piece.unterminated for piece in pieces[:-1])


@pytest.mark.parametrize("length", [LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE + 17])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_too_long_to_hold_becomes_a_stub(length: int, end: bytes) -> None:
    text = b"before\n" + b"x" * length + end + (b"after\n" if end else b"")
    blocks = [text[i : i + 300_000] for i in range(0, len(text), 300_000)]
    lines = [
        (line.as_py(), is_stub(piece.text)[i].as_py())
        for piece in split_lines(blocks)
        for i, line in enumerate(piece.text)
    ]
    kept = min(length, LONGEST_LINE + 1)
    assert lines[:2] == [(b"before", False), (b"x" * kept, length > LONGEST_LINE)]
    assert lines[2:] == ([(b"after", False)] if end else [])


def test_no_block_no_line() -> None:
    assert read() == []
    assert read(b"\n") == [b""]
