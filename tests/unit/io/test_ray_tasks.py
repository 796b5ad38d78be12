"""A cluster of one machine makes the same files as this process does."""

import math
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.pair_cleaning import profile_of
from dragoman.data.prepare_tasks import clean_chunk, encode_chunk, gather_shard, load_raw, save_raw
from dragoman.io.processes import in_processes
from dragoman.io.ray_tasks import ClusterWorker, cluster, in_cluster
from dragoman.text.cleaning import CleanConfig
from dragoman.text.vocab import VocabConfig, train_vocab

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


def cut(folder: Path) -> Path:
    folder.mkdir()
    for name, lines in (("source", ENGLISH), ("target", GERMAN)):
        (folder.parent / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = CorpusConfig(source=str(folder.parent / "source"), target=str(folder.parent / "target"))
    for chunk in read_chunks(corpus, lines_per_chunk=3):
        save_raw(folder, chunk)
    return folder


def stages(shop: Path, run: Run) -> list[object]:
    """What each stage gives back, of three chunks and two shards."""
    settings = CleanConfig()
    profile, vocab = profile_of(load_raw(shop, 1), settings), train_vocab(ENGLISH, GERMAN, VocabConfig(size=295))
    corpus = CorpusConfig(source=str(shop.parent / "source"), target=str(shop.parent / "target"))
    clean = partial(clean_chunk, shop, settings, profile, None, corpus)
    encode = partial(encode_chunk, shop, vocab, NUM_SHARDS, True)
    gather = partial(gather_shard, shop, 3, 0, shop / "train", False)
    return [list(run(clean, range(3), 1)), list(run(encode, range(3), 2)), list(run(gather, range(NUM_SHARDS), 1))]


def contents(shop: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in shop.iterdir()}


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
        squares = list(in_cluster(math.sqrt, [float(number * number) for number in range(20)], 2))
        with pytest.raises(ValueError, match="math domain error"):
            list(in_cluster(math.sqrt, [4.0, -1.0], 1))
    assert squares == list(range(20))
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


def test_an_error_of_a_task_comes_back_as_its_message() -> None:
    worker = ClusterWorker(math.sqrt, [4.0, -1.0])
    good, bad = worker({"id": 0}), worker({"id": 1})
    assert (pickle.loads(good["result"]), good["error"]) == (2.0, "")
    assert bad["error"] == "math domain error"
