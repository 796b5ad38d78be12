"""A shard is finished if input, output and manifest are what they were, and not otherwise."""

import re
from pathlib import Path

import pytest

from dragoman.bulk.shard_manifest import BulkSettings, ShardManifest, check_shard, load_manifest, manifest_path
from dragoman.io import hashed_json
from dragoman.io.durable import FileInfo, hash_file, write_durably

SETTINGS = BulkSettings(
    model="ab" * 32,
    dragoman="1.2.3",
    engine="ctranslate2",
    engine_version="4.8.4",
    compute="float32",
    search={"beam_size": 3},
    split=True,
    protect=False,
    column="text",
    into="translation",
)


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """A finished one: in/a.txt, with its translation in out/."""
    for name, text in (("in", b"ten old houses\n"), ("out", b"zehn alte Haeuser\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_bytes(text)
    files = {
        side: FileInfo(file="a.txt", sha256=hash_file(path), num_bytes=path.stat().st_size)
        for side, path in (("input", tmp_path / "in" / "a.txt"), ("output", tmp_path / "out" / "a.txt"))
    }
    ShardManifest(**files, rows=1, nulls=0, sentences=1, settings=SETTINGS).save(tmp_path / "out")
    return tmp_path / "in" / "a.txt"


def out(shard: Path) -> Path:
    return shard.parents[1] / "out"


def test_a_finished_shard_is_known_by_its_manifest(shard: Path) -> None:
    found = check_shard(shard, out(shard))
    assert found.wrong is None
    assert found.manifest == load_manifest(out(shard) / "a.txt")
    assert found.manifest is not None
    assert (found.manifest.rows, found.manifest.settings) == (1, SETTINGS)


def test_a_shard_without_a_manifest_was_never_finished(shard: Path) -> None:
    manifest_path(out(shard) / "a.txt").unlink()
    assert check_shard(shard, out(shard)) == (None, None)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("what", "error"),
    [("a.txt", "has changed: .*sha256 differs"), ("a.txt.manifest.json", "manifest is damaged")],
)
@pytest.mark.parametrize("place", [0, 7, -1])
def test_a_flipped_bit_in_translation_or_manifest_makes_it_unfinished(
    shard: Path, what: str, error: str, place: int
) -> None:
    flip(out(shard) / what, place)
    found = check_shard(shard, out(shard))
    assert found.manifest is None
    assert found.wrong is not None
    assert re.search(error, found.wrong)


def test_a_translation_that_is_gone_or_cut_short_makes_it_unfinished(shard: Path) -> None:
    with (out(shard) / "a.txt").open("r+b") as file:
        file.truncate(5)
    assert "5 bytes instead of 18" in (check_shard(shard, out(shard)).wrong or "")
    (out(shard) / "a.txt").unlink()
    assert "missing" in (check_shard(shard, out(shard)).wrong or "")


def test_an_input_that_has_changed_makes_it_unfinished(shard: Path) -> None:
    flip(shard, 3)
    assert check_shard(shard, out(shard)) == (None, "the shard has changed since it was translated")


def test_the_manifest_of_another_shard_is_not_believed(shard: Path) -> None:
    manifest_path(out(shard) / "a.txt").rename(manifest_path(out(shard) / "b.txt"))
    (out(shard) / "a.txt").rename(out(shard) / "b.txt")
    found = check_shard(shard.rename(shard.with_name("b.txt")), out(shard))
    assert found == (None, "the manifest belongs to another shard")


def test_a_manifest_of_another_kind_or_a_later_format_is_reported(shard: Path) -> None:
    path = manifest_path(out(shard) / "a.txt")
    for body, error in (
        ({"format_version": 1, "kind": "bundle"}, "not the manifest of a tr"),
        ({"format_version": 2}, "format version 2"),
    ):
        content = hashed_json.render(body)
        write_durably(path, lambda sink, content=content: sink.write(content))
        with pytest.raises(ValueError, match=error):
            load_manifest(out(shard) / "a.txt")


def test_differences_have_both_values() -> None:
    other = SETTINGS.model_copy(update={"model": "cd" * 32, "search": {"beam_size": 5, "stop": "count"}})
    assert set(SETTINGS.differences(other)) == {
        "model cdcdcdcdcdcd there and abababababab here",
        "beam_size 5 there and 3 here",
        "stop count there and None here",
    }
    assert SETTINGS.differences(SETTINGS) == []
