"""A shard gives back what was put in, in the order of its cells, the same bytes every time."""

from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dragoman.data.shards import Shard, ShardInfo, ShardTexts, write_shard
from dragoman.io.durable import DamageError, find_damage
from dragoman.text.ragged import Ragged
from dragoman.text.vocab import PAD

Row = tuple[list[int], list[int], int]
NUM_PAIRS = 137


def pairs(seed: int = 1) -> list[Row]:
    """Source, target, line; every one different."""
    random = np.random.default_rng(seed)
    return [
        (
            random.integers(4, 60_000, random.integers(1, 7)).tolist(),
            random.integers(4, 60_000, random.integers(1, 9)).tolist(),
            1000 + 3 * i,
        )
        for i in range(NUM_PAIRS)
    ]


def ragged(rows: list[list[int]], dtype: type[np.uint16] | type[np.int32]) -> Ragged:
    return Ragged(np.array(list(chain.from_iterable(rows)), dtype), np.cumsum([0, *map(len, rows)], dtype=np.int64))


def texts_of(rows: list[Row]) -> ShardTexts:
    def spelled(side: int) -> pa.LargeStringArray:
        return pa.array([f"{'st'[side]}ö{row[2]}" for row in rows], pa.large_string())

    return ShardTexts(spelled(0), spelled(1))


def write(
    path: Path, rows: list[Row], texts: ShardTexts | None = None, dtype: type[np.uint16] | type[np.int32] = np.uint16
) -> ShardInfo:
    source, target = ragged([row[0] for row in rows], dtype), ragged([row[1] for row in rows], dtype)
    return write_shard(path, source, target, texts, np.array([row[2] for row in rows], np.int64))


def read(shard: Shard, indices: np.ndarray) -> list[Row]:
    rows, lines = shard.rows(indices), shard.lines(indices)
    return [
        (
            rows.source.ids[rows.source.offsets[i] : rows.source.offsets[i + 1]].tolist(),
            rows.target.ids[rows.target.offsets[i] : rows.target.offsets[i + 1]].tolist(),
            int(lines[i]),
        )
        for i in range(len(indices))
    ]


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_every_pair_comes_back_with_its_line(tmp_path: Path, dtype: type[np.uint16] | type[np.int32]) -> None:
    write(tmp_path / "a.arrow", pairs(), dtype=dtype)
    shard = Shard(tmp_path / "a.arrow")
    assert shard.num_pairs == NUM_PAIRS
    assert shard.rows(np.arange(3)).source.ids.dtype == dtype
    assert sorted(read(shard, np.arange(NUM_PAIRS)), key=lambda row: row[2]) == pairs()


def test_rows_stand_in_the_order_of_their_cells(tmp_path: Path) -> None:
    info = write(tmp_path / "a.arrow", pairs())
    rows = read(Shard(tmp_path / "a.arrow"), np.arange(NUM_PAIRS))
    lengths = [(len(source), len(target)) for source, target, _ in rows]
    assert info.cells is not None
    assert lengths == [(source, target) for source, target, count in info.cells.tolist() for _ in range(count)]
    assert info.num_pairs == NUM_PAIRS
    assert len(info.cells) == len(set(lengths)) > 20
    steps = [abs(a[1] - b[1]) for a, b in pairwise(lengths) if a[0] != b[0]]
    assert max(steps) <= 2  # where the source grows, the target stays where the snake turned


def test_any_rows_can_be_read_in_any_order_and_twice(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pairs())
    shard = Shard(tmp_path / "a.arrow")
    everything = read(shard, np.arange(NUM_PAIRS))
    for indices in ([5, 3, 3, 136], [], [0]):
        assert read(shard, np.array(indices, np.int64)) == [everything[i] for i in indices]


def test_padded_rows_are_the_rows_filled_up(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pairs())
    shard = Shard(tmp_path / "a.arrow")
    indices = np.array([130, 2, 77])
    taken = shard.rows(indices)
    padded = taken.source.padded(PAD), taken.target.padded(PAD)
    rows = read(shard, indices)
    for side in (0, 1):
        longest = max(len(row[side]) for row in rows)
        assert padded[side].tolist() == [row[side] + [PAD] * (longest - len(row[side])) for row in rows]


def test_texts_follow_their_pairs(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pairs(), texts_of(pairs()))
    shard = Shard(tmp_path / "a.arrow")
    indices = np.array([9, 100, 4])
    lines = shard.lines(indices).tolist()
    texts = shard.texts(indices)
    assert texts.source.to_pylist() == [f"sö{line}" for line in lines]
    assert texts.target.to_pylist() == [f"tö{line}" for line in lines]


def test_a_shard_without_texts_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pairs())
    with pytest.raises(ValueError, match=r"a\.arrow has no text: prepare the corpus with --keep-text"):
        Shard(tmp_path / "a.arrow").texts(np.array([1]))


def test_the_same_pairs_make_the_same_bytes_whatever_array_they_were_cut_from(tmp_path: Path) -> None:
    first = write(tmp_path / "a.arrow", pairs(), texts_of(pairs()))
    longer = texts_of([([1], [2], 0), *pairs(), ([3], [4], 1)])
    cut = ShardTexts(longer.source.slice(1, NUM_PAIRS), longer.target.slice(1, NUM_PAIRS))
    again = write(tmp_path / "b.arrow", pairs(), cut)
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()
    assert first == again.model_copy(update={"file": "a.arrow"})
    assert write(tmp_path / "c.arrow", pairs(2)).sha256 != first.sha256


def test_what_is_recorded_is_what_is_on_disk(tmp_path: Path) -> None:
    info = write(tmp_path / "a.arrow", pairs())
    assert info.file == "a.arrow"
    assert find_damage(tmp_path, info) is None


def test_the_file_is_plain_arrow_with_one_uncompressed_batch(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pairs(), texts_of(pairs()))
    file = pa.ipc.open_file(str(tmp_path / "a.arrow"))
    assert file.num_record_batches == 1
    assert file.schema.names == ["source", "target", "line", "source_text", "target_text"]
    assert [str(column.type) for column in file.schema] == [
        "large_list<item: uint16>",
        "large_list<item: uint16>",
        "int64",
        "large_string",
        "large_string",
    ]


def test_opening_copies_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pairs())
    before = pa.total_allocated_bytes()
    shard = Shard(tmp_path / "a.arrow")
    assert pa.total_allocated_bytes() == before
    for array in (*shard._source, *shard._target, shard._lines):
        assert not array.flags.owndata
        assert not array.flags.writeable


def test_an_empty_shard_is_a_shard(tmp_path: Path) -> None:
    info = write(tmp_path / "a.arrow", [])
    assert info.cells is not None
    assert (info.num_pairs, info.cells.shape) == (0, (0, 3))
    shard = Shard(tmp_path / "a.arrow")
    assert shard.num_pairs == 0
    nothing = shard.rows(np.array([], np.int64))
    assert nothing.source.padded(PAD).shape == nothing.target.padded(PAD).shape == (0, 0)


def test_what_is_recorded_survives_json(tmp_path: Path) -> None:
    info = write(tmp_path / "a.arrow", pairs())
    assert ShardInfo.model_validate_json(info.model_dump_json()) == info


def test_sides_of_different_numbers_are_refused(tmp_path: Path) -> None:
    source, target = ragged([[5], [6]], np.uint16), ragged([[7]], np.uint16)
    with pytest.raises(ValueError, match=r"\[2, 1, 2\]"):
        write_shard(tmp_path / "a.arrow", source, target, None, np.arange(2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"ARROW1", None], ids=["empty", "cut", "missing"])
def test_a_file_that_is_no_shard_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "a.arrow").write_bytes(content)
    with pytest.raises(DamageError, match=r"a\.arrow: not a valid shard .*run dragoman prepare again"):
        Shard(tmp_path / "a.arrow")
