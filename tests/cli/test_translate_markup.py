"""`dragoman translate` as installed, on documents: only their text changes."""

import gzip
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

MODEL = str(Path(__file__).parents[1] / "golden" / "v1")
PAGE = """<!DOCTYPE html>
<title>two red dogs.</title>
<p class="x">ten <b id="a">old houses</b>.</p>\r
<pre>two red dogs.</pre>
"""
GERMAN = PAGE.replace("<title>two red dogs.", "<title>zwei rote Hunde.").replace("ten", "zehn")
GERMAN = GERMAN.replace("old houses", "alte Häuser")


def run(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [str(DRAGOMAN), "translate", MODEL, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, input=(text or "").encode(), check=False, timeout=300)


def test_a_page_keeps_its_markup(tmp_path: Path) -> None:
    (tmp_path / "in.html").write_bytes(PAGE.encode())
    done = run("--input", tmp_path / "in.html", "--output", tmp_path / "out.html.gz")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert gzip.decompress((tmp_path / "out.html.gz").read_bytes()).decode() == GERMAN
    piped = run("--format", "html", text=PAGE)
    assert piped.stdout.decode() == GERMAN


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BODY = "<w:p><w:r><w:t>two </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>red</w:t></w:r><w:r><w:t> dogs.</w:t></w:r></w:p>"


def test_a_word_document_keeps_its_formatting(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.docx", "w") as archive:
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{WORD}">{BODY}</w:document>')
    done = run("--input", tmp_path / "in.docx", "--output", tmp_path / "out.docx")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    with zipfile.ZipFile(tmp_path / "out.docx") as archive:
        text = archive.read("word/document.xml").decode()
    assert "<w:rPr><w:b/></w:rPr>" in text
    assert re.sub(r"<[^>]*>", "", text) == "zwei rote Hunde."


def test_a_word_document_needs_files(tmp_path: Path) -> None:
    (tmp_path / "in.docx").write_bytes(b"no zip")
    for arguments in (
        ("--input", tmp_path / "in.docx"),
        ("--format", "docx", "a"),
        ("--input", tmp_path / "in.docx", "--output", tmp_path / "out.docx"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"error: ")


def test_an_error_names_file_and_line_and_leaves_no_output(tmp_path: Path) -> None:
    (tmp_path / "in.xml").write_text("<a>\n<b>two</a>", encoding="utf-8")
    done = run("--input", tmp_path / "in.xml", "--output", tmp_path / "out.xml")
    assert done.returncode == 2
    assert b"in.xml, line 2, column" in done.stderr
    assert not (tmp_path / "out.xml").exists()


@pytest.mark.parametrize("options", [["--nbest", "2"], ["--alignment"], ["--no-split"], ["--field", "a"]])
def test_options_for_lines_are_refused(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "in.html").write_bytes(PAGE.encode())
    done = run("--input", tmp_path / "in.html", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert options[0].encode() in done.stderr


def test_shards_are_no_documents(tmp_path: Path) -> None:
    (tmp_path / "in.html").write_bytes(PAGE.encode())
    done = run("--shards", tmp_path / "*.html", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert b"--input" in done.stderr
