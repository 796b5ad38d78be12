import gzip
import io
import sys
from pathlib import Path

import fsspec
import pytest
import zstandard

from dragoman.io import streams
from dragoman.io.streams import is_same_file, read_blocks, uncompressed_suffix

TEXT = "".join(f"Satz Nummer {i}: schön.\n" for i in range(5000)).encode()


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".zst", zstandard.compress)])
def test_any_compression_gives_the_same_bytes_in_any_blocks(tmp_path: Path, monkeypatch, suffix, pack, block) -> None:
    monkeypatch.setattr(streams, "BLOCK", block)
    text = TEXT[:3000] if block < 10 else TEXT
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(pack(text))
    assert b"".join(read_blocks(str(path))) == text


def test_archives_made_of_several_parts_are_read_to_the_end(tmp_path: Path) -> None:
    for suffix, pack in ((".gz", gzip.compress), (".zst", zstandard.compress)):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(pack(b"one\n") + pack(b"two\n"))
        assert b"".join(read_blocks(str(path))) == b"one\ntwo\n"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fsspec_addresses_are_read(suffix: str) -> None:
    address = f"memory://corpus/a.de{suffix}"
    with fsspec.open(address, "wb") as file:
        file.write(gzip.compress(TEXT) if suffix else TEXT)
    assert b"".join(read_blocks(address)) == TEXT


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert b"".join(read_blocks("-")) == TEXT


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("harm", ["cut", "flip"])
def test_a_damaged_archive_is_named(tmp_path: Path, suffix: str, harm: str) -> None:
    packed = bytearray(
        gzip.compress(TEXT) if suffix == ".gz" else zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    )
    if harm == "cut":
        packed = packed[:-3]
    elif harm == "flip":
        packed[len(packed) // 2] ^= 16
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(packed)
    with pytest.raises(
        ValueError, match=rf"a\.de\{suffix}: the file cannot be read completely .*compress the file again"
    ):
        list(read_blocks(str(path)))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_plain_text_that_is_named_as_if_compressed_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(TEXT)
    message = rf"a\.de\{suffix}: the file is not compressed: remove \{suffix} from its name$"
    with pytest.raises(ValueError, match=message):
        list(read_blocks(str(path)))


@pytest.mark.parametrize("start", [b"\0" * 40, b"\x28\xb5 and no more\n"])
def test_what_is_neither_compressed_nor_text_is_not_called_text(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "a.de.gz"
    path.write_bytes(start)
    with pytest.raises(ValueError, match="compress the file again"):
        list(read_blocks(str(path)))


def test_a_name_that_only_ends_alike_is_not_suggested(tmp_path: Path) -> None:
    (tmp_path / "ten.en").write_bytes(TEXT)
    with pytest.raises(ValueError, match=r"nope\.en: there is no such file; check the path$"):
        list(read_blocks(str(tmp_path / "nope.en")))


def test_a_missing_file_is_named_and_its_likely_name_too(tmp_path: Path) -> None:
    (tmp_path / "train.en.gz").write_bytes(gzip.compress(TEXT))
    with pytest.raises(ValueError, match=r"train\.en: there is no such file; did you mean .*train\.en\.gz\?"):
        list(read_blocks(str(tmp_path / "train.en")))
    with pytest.raises(ValueError, match=r"nowhere/x: there is no such file; check the path$"):
        list(read_blocks(str(tmp_path / "nowhere" / "x")))
    with pytest.raises(ValueError, match=r"memory://nowhere/x: there is no such file; check the path$"):
        list(read_blocks("memory://nowhere/x"))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="this is a folder; give a file"):
        list(read_blocks(str(tmp_path)))


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ValueError, match=r"secret\.en: no permission to read"):
        list(read_blocks(str(tmp_path / "secret.en")))


def test_an_address_nothing_can_open_is_named() -> None:
    with pytest.raises(ValueError, match="carrier-pigeon://a: no fsspec package for this URL"):
        list(read_blocks("carrier-pigeon://a"))


NAMES = {"a.tsv.gz": ".tsv", "a.zst": "", "a.b.tsv": ".tsv", "in.gz/a": "", ".gz": "", "a.gz.zst": ".gz"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_loses_the_suffix_of_its_compression_only(name: str) -> None:
    assert uncompressed_suffix(name) == uncompressed_suffix(Path("folder.txt") / name) == NAMES[name]


def test_an_address_need_not_be_a_path() -> None:
    assert uncompressed_suffix("s3://bucket.eu/train.jsonl.zst") == ".jsonl"


def test_a_file_is_the_same_by_all_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("text")
    Path("b").write_text("text")
    Path("hard").hardlink_to("a")
    Path("soft").symlink_to("a")
    Path("folder").symlink_to(tmp_path)
    for name in ("a", "./a", tmp_path / "a", "hard", "soft", "folder/a"):
        assert is_same_file("a", name)
        assert not is_same_file("b", name)
    assert is_same_file("new", "./new")
    assert is_same_file("folder/new", "new")
    assert not is_same_file("-", "./-")
    assert not is_same_file("s3://bucket/a", "s3://bucket/b")
    assert not is_same_file("no\0name", "a")
