"""The files that a pattern names, and the portions that tasks take of them."""

from pathlib import Path

import pytest

from dragoman.bulk.find_shards import Portion, find_shards


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_shards_come_in_the_order_of_their_names_without_folders_and_hidden_files(tmp_path: Path) -> None:
    touch(tmp_path, "b.txt", "a.txt", "c.txt", ".d.txt", "e.jsonl")
    (tmp_path / "f.txt").mkdir()
    shards = find_shards(str(tmp_path / "*.txt"), tmp_path / "out")
    assert [shard.name for shard in shards] == ["a.txt", "b.txt", "c.txt"]


def test_no_file_two_of_one_name_and_the_folder_of_the_shards_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing\.\* matches no file"):
        find_shards(str(tmp_path / "nothing.*"), tmp_path / "out")
    touch(tmp_path, "x/a.txt", "y/a.txt")
    with pytest.raises(ValueError, match=r"x/a\.txt and .*y/a\.txt have the same name"):
        find_shards(str(tmp_path / "*" / "a.txt"), tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(ValueError, match="is the folder of the shards"):
        find_shards(str(tmp_path / "x" / "*"), tmp_path / "link")


def test_the_portions_together_hold_every_shard_once() -> None:
    shards = [Path(f"{number:02}") for number in range(11)]
    portions = [Portion.parse(f"{index}/4").of(shards) for index in range(4)]
    assert portions[1] == [Path("01"), Path("05"), Path("09")]
    assert sorted(shard for portion in portions for shard in portion) == shards
    assert Portion.parse(None).of(shards) == shards
    assert Portion(12, 13).of(shards) == []


@pytest.mark.parametrize("text", ["4/4", "0/0", "7/3"])
def test_an_index_beyond_the_last_task_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"the index starts at 0: give 0/"):
        Portion.parse(text)


@pytest.mark.parametrize("text", ["", "1", "/4", "1/", "-1/4", "1/4/2", "one/two", " 1/4", "1.0/4", "٣/٤"])
def test_an_index_that_is_no_index_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not of the form i/n"):
        Portion.parse(text)
