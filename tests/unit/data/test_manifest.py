"""A damaged prepared folder is never opened silently: each kind of damage is found and named, with its fix."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.batches import Reader
from dragoman.data.manifest import CELLS, MANIFEST, Manifest, Prepared, PreparedCorpus
from dragoman.data.order import BatchConfig
from dragoman.data.shards import Shard, ShardInfo, write_shard
from dragoman.text.ragged import Ragged
from dragoman.text.vocab import Vocab, VocabConfig, train_vocab

FIX = "run dragoman prepare again"
SHARDS = ["news-0.arrow", "news-1.arrow", "talks-0.arrow"]
FILES = [MANIFEST, "vocab.model", CELLS, *SHARDS]


def shard(folder: Path, file: str, seed: int) -> ShardInfo:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 12, (2, 50 + seed))
    sides = [
        Ragged(random.integers(4, 300, n.sum()).astype(np.uint16), np.append(0, np.cumsum(n)).astype(np.int64))
        for n in lengths
    ]
    return write_shard(folder / file, sides[0], sides[1], None, np.arange(50 + seed))


def prepare(folder: Path, seed: int) -> Manifest:
    folder.mkdir()
    vocab = train_vocab(["ein Hund", "zwei Katzen"], [f"word {chr(97 + seed)}"], VocabConfig(size=278))
    shards = [shard(folder, file, seed + i) for i, file in enumerate(SHARDS)]
    manifest = Manifest(
        corpora=(
            PreparedCorpus(name="news", num_pairs=101 + 2 * seed, shards=tuple(shards[:2])),
            PreparedCorpus(name="talks", weight=0.5, num_pairs=52 + seed, shards=(shards[2],)),
        ),
        vocabulary=vocab.save(folder),
        settings={"lines_per_chunk": 1000, "clean": {"empty": "drop"}, "name": "größe"},
        counts={"read": 200},
    )
    manifest.save(folder)
    return manifest


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "prepared"
    prepare(folder, seed=1)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "copy"))


def refused(folder: Path, file: str) -> str:
    with pytest.raises(ValueError, match=f"{file}: .*{FIX}") as error:
        Prepared.open(folder)
    assert str(error.value).startswith(str(folder / file))
    return str(error.value)


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_a_prepared_folder_opens_and_gives_its_parts(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    prepared = Prepared.open(folder)
    assert [corpus.name for corpus in prepared.manifest.corpora] == ["news", "talks"]
    assert prepared.manifest.settings["name"] == "größe"
    (_, second), (third, *_) = (corpus.shards for corpus in prepared.manifest.corpora)
    assert [Shard(folder / info.file).num_pairs for info in (second, third)] == [52, 53]
    assert Vocab.load(folder).joint


def test_the_same_folder_has_the_same_bytes(tmp_path: Path, folder: Path) -> None:
    prepare(tmp_path / "again", seed=1)
    for file in FILES:
        assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes()


def test_single_bit_flips_are_all_found_and_named(folder: Path) -> None:
    """Twenty in each file, so that small files are not spared."""
    random = np.random.default_rng(3)
    for file in FILES:
        for bit in random.integers(0, 8 * (folder / file).stat().st_size, 20).tolist():
            flip(folder / file, bit)
            refused(folder, file)
            flip(folder / file, bit)
    Prepared.open(folder)


def test_every_seventh_bit_flipped_in_a_small_manifest_is_found(tmp_path: Path) -> None:
    Manifest(corpora=(), vocabulary=(), counts={"read": 7}).save(tmp_path)
    for bit in range(0, 8 * (tmp_path / MANIFEST).stat().st_size, 7):
        flip(tmp_path / MANIFEST, bit)
        refused(tmp_path, MANIFEST)
        flip(tmp_path / MANIFEST, bit)
    Prepared.open(tmp_path)


def test_without_verification_a_flip_in_a_shard_goes_unseen(folder: Path) -> None:
    """That the tests above can fail at all."""
    flip(folder / SHARDS[0], 8 * 2000)
    assert Prepared.open(folder, verify=False).folder == folder
    refused(folder, SHARDS[0])


@pytest.mark.parametrize("file", ["vocab.model", CELLS])
def test_a_flip_in_what_every_use_reads_is_found_even_without_verification(folder: Path, file: str) -> None:
    flip(folder / file, 8 * 300)
    with pytest.raises(ValueError, match=f"{file}: .*{FIX}"):
        Prepared.open(folder, verify=False)


@pytest.mark.parametrize("file", SHARDS)
def test_a_flip_in_a_shard_is_found_when_the_shard_is_first_read_and_the_shard_set_aside(
    folder: Path, file: str
) -> None:
    """Other shards are read as ever; the next start finds the damaged one missing."""
    flip(folder / file, 8 * 2000)
    reader = Reader.of(Prepared.open(folder, verify=False), BatchConfig(tokens=100), seed=5)
    num_read = 0
    for index in range(reader.plan.num_batches):
        ref = reader.plan.at(index)
        if reader.corpora[ref.corpus].shards[ref.shard].file == file:
            with pytest.raises(ValueError, match=f"{file}: .*{FIX}") as error:
                reader(index)
            if not num_read:
                assert f"{file}.damaged" in str(error.value)
        else:
            num_read += len(reader(index).lines)
    assert num_read > 50
    assert (folder / f"{file}.damaged").exists()
    with pytest.raises(ValueError, match=f"{file}: the file is missing"):
        Prepared.open(folder, verify=False)


def write_format_1(folder: Path, manifest: Manifest) -> None:
    """Write the manifest as version 0.1 did: with the cells as lists, and without a table of them."""
    body = manifest.model_dump(mode="json", exclude={"cells"}) | {"format_version": 1}
    (folder / CELLS).unlink()
    (folder / MANIFEST).write_text(json.dumps({"manifest": body}))
    resealed(folder)


def test_a_folder_of_format_1_opens_and_gives_the_same_batches(folder: Path, tmp_path: Path) -> None:
    manifest = prepare(tmp_path / "old", seed=1)
    write_format_1(tmp_path / "old", manifest)
    readers = [Reader.of(Prepared.open(each), BatchConfig(tokens=70), seed=4) for each in (folder, tmp_path / "old")]
    new, old = readers
    assert new.plan.num_batches == old.plan.num_batches > 20
    for index in range(new.plan.num_batches):
        assert np.array_equal(new(index).source, old(index).source)
        assert np.array_equal(new(index).lines, old(index).lines)


def test_damage_in_a_folder_of_format_1_is_found(tmp_path: Path) -> None:
    manifest = prepare(tmp_path / "old", seed=1)
    write_format_1(tmp_path / "old", manifest)
    for file in (MANIFEST, "vocab.model", *SHARDS):
        flip(tmp_path / "old" / file, 8 * 700)
        refused(tmp_path / "old", file)
        flip(tmp_path / "old" / file, 8 * 700)
    Prepared.open(tmp_path / "old")


def test_twenty_truncations_are_all_found_and_named_even_without_verification(folder: Path) -> None:
    random = np.random.default_rng(4)
    for file in FILES:
        content = (folder / file).read_bytes()
        for size in random.integers(1, len(content), 4).tolist():
            (folder / file).write_bytes(content[:size])
            refused(folder, file)
            with pytest.raises(ValueError, match=FIX):
                Prepared.open(folder, verify=False)
        (folder / file).write_bytes(content)
    Prepared.open(folder)


@pytest.mark.parametrize("file", FILES)
def test_a_deleted_file_is_found_and_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    assert "missing" in refused(folder, file)


@pytest.mark.parametrize("file", FILES)
def test_an_empty_file_is_found_and_named(folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"")
    refused(folder, file)


@pytest.mark.parametrize("file", FILES[1:])
def test_a_file_of_another_prepared_folder_is_found_and_named(folder: Path, tmp_path: Path, file: str) -> None:
    prepare(tmp_path / "other", seed=2)
    shutil.copy(tmp_path / "other" / file, folder / file)
    refused(folder, file)


def test_the_manifest_of_another_prepared_folder_is_found(folder: Path, tmp_path: Path) -> None:
    prepare(tmp_path / "other", seed=2)
    shutil.copy(tmp_path / "other" / MANIFEST, folder / MANIFEST)
    refused(folder, "vocab.model")


def test_two_files_of_one_folder_that_changed_places_are_found(folder: Path) -> None:
    (folder / SHARDS[0]).rename(folder / "aside")
    (folder / SHARDS[1]).rename(folder / SHARDS[0])
    (folder / "aside").rename(folder / SHARDS[1])
    assert "and 1 more: news-1.arrow" in refused(folder, SHARDS[0])


@pytest.mark.parametrize("content", [b"[]", b"7", b"{}", b'{"manifest":[]}', b'{"manifest":7}', b"\xff\xfe", b"null"])
def test_a_manifest_that_is_something_else_is_refused(folder: Path, content: bytes) -> None:
    (folder / MANIFEST).write_bytes(content)
    refused(folder, MANIFEST)


def test_a_manifest_changed_by_hand_is_refused(folder: Path) -> None:
    content = (folder / MANIFEST).read_text()
    assert content.count('"weight":0.5') == 1
    (folder / MANIFEST).write_text(content.replace('"weight":0.5', '"weight":5.0'))
    refused(folder, MANIFEST)


def resealed(folder: Path, **changes: object) -> None:
    """Changes a manifest and gives it a hash that fits."""
    body = json.loads((folder / MANIFEST).read_text())["manifest"] | changes
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    seal = hashlib.sha256(text.encode()).hexdigest()
    (folder / MANIFEST).write_text(f'{{"sha256":"{seal}","manifest":{text}}}\n')


def test_a_manifest_of_another_version_says_so(folder: Path) -> None:
    resealed(folder, format_version=3)
    with pytest.raises(ValueError, match=r"unknown format version 3; prepare the folder again"):
        Prepared.open(folder)


def test_a_manifest_with_a_key_we_do_not_know_says_so(folder: Path) -> None:
    resealed(folder, colour="green")
    with pytest.raises(ValueError, match=r"colour[\s\S]*prepare the folder again"):
        Prepared.open(folder)


def test_resealing_alone_is_accepted(folder: Path) -> None:
    resealed(folder)
    Prepared.open(folder)


def test_a_manifest_with_a_file_outside_its_folder_is_refused(folder: Path) -> None:
    resealed(folder, vocabulary=[{"file": "../secret", "sha256": "0" * 64, "num_bytes": 1}])
    with pytest.raises(ValueError, match="vocabulary"):
        Prepared.open(folder)
