"""Test sets as they are read: every line, and nothing but a newline ends one."""

import gzip
import hashlib
from pathlib import Path

import pytest

from dragoman.evaluation.text_files import TextFile, TextFileInfo, read_text, require_same_length

CONTENT = "ei\rns\n\nzwei\u2028drei\x0c\r\n vier ".encode()
LINES = ["ei\rns", "", "zwei\u2028drei\x0c", " vier "]


def test_every_line_is_kept_as_it_is_but_for_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(CONTENT)
    text = read_text(str(tmp_path / "a.de"))
    assert text.lines == LINES
    assert text.info == TextFileInfo(file=str(tmp_path / "a.de"), lines=4, sha256=hashlib.sha256(CONTENT).hexdigest())


def test_a_last_newline_makes_no_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(CONTENT + b"\n")
    assert read_text(str(tmp_path / "a.de")).lines == LINES
    (tmp_path / "a.de").write_bytes(CONTENT + b"\n\n")
    assert read_text(str(tmp_path / "a.de")).lines == [*LINES, ""]


def test_packed_text_has_the_hash_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(CONTENT)
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(CONTENT))
    plain, packed = read_text(str(tmp_path / "a.de")), read_text(str(tmp_path / "a.de.gz"))
    assert (packed.lines, packed.sha256) == (plain.lines, plain.sha256)


def test_one_line_that_is_not_utf_8_is_refused_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(b"eins\nzw\xe4lf\n")
    with pytest.raises(ValueError, match=r"a\.de: line 2 is not UTF-8 \(at byte 3 of the line\): convert"):
        read_text(str(tmp_path / "a.de"))


def test_files_of_different_lengths_are_refused_with_both_counts() -> None:
    with pytest.raises(ValueError, match="a has 1 lines but b has 1,200"):
        require_same_length(TextFile("a", ["x"], ""), TextFile("b", ["x"] * 1200, ""))
