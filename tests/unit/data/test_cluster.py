"""A cluster of one machine makes the same files as this process does."""

import math
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.data.clean import profile_of
from dragoman.data.cluster import _in_order, _Worker, cluster, in_cluster
from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.problem import CleanConfig
from dragoman.data.stages import (
    CleanTask,
    EncodeTask,
    ShardTask,
    Workshop,
    clean_chunk,
    encode_chunk,
    gather_shard,
    load_raw,
    save_raw,
)
from dragoman.data.vocab_training import VocabConfig, train_vocab
from dragoman.data.workers import in_processes

ENGLISH = ["a man runs", "two dogs run", "a woman sits on a bench", "a man runs", "", "the bench runs", "two men"]
GERMAN = [
    "ein Mann läuft",
    "zwei Hunde laufen",
    "eine Frau sitzt auf einer Bank",
    "ein Mann läuft",
    "",
    "die Bank läuft",
    "zwei Männer",
]
NUM_SHARDS = 2
Run = Callable[..., Iterator[object]]


def cut(folder: Path) -> Workshop:
    shop = Workshop(folder)
    folder.mkdir()
    for name, lines in (("source", ENGLISH), ("target", GERMAN)):
        (folder.parent / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = CorpusConfig(source=str(folder.parent / "source"), target=str(folder.parent / "target"))
    for chunk in read_chunks(corpus, lines_per_chunk=3):
        save_raw(shop, chunk)
    return shop


def stages(shop: Workshop, run: Run) -> list[object]:
    """What each stage gives back, of three chunks and two shards."""
    settings = CleanConfig()
    profile, vocab = profile_of(load_raw(shop, 1), settings), train_vocab(ENGLISH, GERMAN, VocabConfig(size=295))
    clean = [CleanTask(shop, chunk, settings, profile, None) for chunk in range(3)]
    encode = [EncodeTask(shop, chunk, vocab, NUM_SHARDS, keep_text=True) for chunk in range(3)]
    gather = [ShardTask(shop, 3, shard, shop.folder / f"{shard}.arrow", False) for shard in range(NUM_SHARDS)]
    return [list(run(clean_chunk, clean, 1)), list(run(encode_chunk, encode, 2)), list(run(gather_shard, gather, 1))]


def contents(shop: Workshop) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in shop.folder.iterdir()}


# Ray 2.60 warns of settings of its own.
@pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\.")
@pytest.mark.slow
def test_a_cluster_gives_the_same_results_and_the_same_bytes_as_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="needs the extra dragoman[ray]")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    shops = {}
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        shops[name] = cut(tmp_path / name / "shop")
    here = stages(shops["here"], in_processes)
    with cluster(2):
        there = stages(shops["there"], in_cluster)
    assert there == here
    assert sum(shard.duplicates for shard in here[2]) == 1
    assert contents(shops["there"]) == contents(shops["here"])
    assert len(contents(shops["here"])) == 3 * 4 + NUM_SHARDS * 2


def test_without_ray_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'dragoman\[ray\]'"):
        list(in_cluster(len, ["some", "tasks"], 1))


def test_no_tasks_need_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert list(in_cluster(len, [], 1)) == []


def test_results_that_come_early_wait_for_those_before_them() -> None:
    rows = ({"id": number, "result": pickle.dumps(10 * number), "wrong": ""} for number in (2, 0, 3, 1))
    assert list(_in_order(rows)) == [0, 10, 20, 30]


def test_what_a_task_refuses_is_said_in_its_own_words() -> None:
    worker = _Worker(math.sqrt, [4.0, -1.0])
    results = _in_order(worker({"id": number}) for number in range(2))
    assert next(results) == 2.0
    with pytest.raises(ValueError, match="math domain error"):
        next(results)
