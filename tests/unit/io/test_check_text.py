import gzip
import io
import zipfile

import pytest

from dragoman.io.streams import check_text, is_utf8

GERMAN = "".join(f"Größe Nummer {i} ist schön.\nEs regnet heute.\n" for i in range(50))


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.txt", GERMAN)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"x", mtime=0), r"looks like gzip, not UTF-8 text; rename the file to \.gz"),
        (zipped(), "looks like a zip archive"),
        (b"PAR1....", "looks like Parquet.*rename the file to .parquet, or give --format parquet"),
        (GERMAN.encode("utf-16"), "looks like UTF-16 text.*iconv -f UTF-16 -t UTF-8"),
        (GERMAN.encode("utf-16-le"), "looks like UTF-16LE text.*iconv -f UTF-16LE"),
        (GERMAN.encode("utf-16-be"), "looks like UTF-16BE text"),
        (GERMAN.encode("utf-32"), "looks like UTF-32 text"),
        (bytes(range(40)) * 3 + bytes(500), "looks like a binary file"),
        (GERMAN.encode("latin-1"), "50 of the first 100 lines are not UTF-8; if the file is Latin-1 or Windows-1252"),
        (
            ("東京は今日も雨です。\n" * 20).encode("euc-jp"),
            "20 of the first 20 lines are not UTF-8; determine the encoding",
        ),
    ],
)
def test_what_is_not_text_is_refused_by_its_likely_name(block: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^train.de: .*{message}"):
        check_text("train.de", block)


@pytest.mark.parametrize(
    "block",
    [
        GERMAN.encode(),
        b"\xef\xbb\xbf" + GERMAN.encode(),
        "東京は今日も雨です。\n".encode() * 20,
        b"caf\xe9\n" * 9 + b"A dog runs.\n" * 20,  # fewer than ten bad lines
        b"caf\xe9\n" * 40 + b"A dog runs.\n" * 1000,  # fewer than one in twenty
        b"caf\xe9\n" * 40 + GERMAN.encode(),  # most of what is not ASCII is UTF-8
        b"with a \x00 here\n" * 30,
        GERMAN.encode()[:1001],  # ends within a letter
    ],
)
def test_text_with_accidents_is_text(block: bytes) -> None:
    check_text("train.de", block)


def test_utf8_is_distinguished_from_other_bytes() -> None:
    assert is_utf8("schön".encode())
    assert not is_utf8("schön".encode("latin-1"))
    assert not is_utf8(b"\xed\xa0\x80")
