import itertools
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dragoman.data.batches import Batch, Reader, SubwordSampling, cells_of
from dragoman.data.manifest import Manifest, Prepared, PreparedCorpus
from dragoman.data.order import BatchConfig
from dragoman.data.shards import ShardInfo, ShardTexts, write_shard
from dragoman.text.ragged import Ragged
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD, VocabConfig, train_vocab

CONFIG = BatchConfig(tokens=80)


def side(line: int, length: int, offset: int) -> list[int]:
    """Ids that tell which line they belong to, and which side."""
    return [NUM_SPECIALS + 2 * line + offset] * (length - 1) + [EOS]


def ragged(rows: list[list[int]]) -> Ragged:
    offsets = np.cumsum([0, *(len(row) for row in rows)])
    return Ragged(np.array(list(itertools.chain.from_iterable(rows)), np.uint16), offsets)


def shard(path: Path, lines: list[int], texts: bool = False) -> ShardInfo:
    """A line's lengths follow from its number: 2 to 6 for the source, 2 to 8 for the target."""
    source = ragged([side(line, 2 + line % 5, 0) for line in lines])
    target = ragged([side(line, 2 + line % 7, 1) for line in lines])
    sentences = ShardTexts(
        *(pa.array([text(what, i) for i in lines], pa.large_string()) for what in ("source", "target"))
    )
    return write_shard(path, source, target, sentences if texts else None, np.array(lines, np.int64))


def text(what: str, line: int) -> str:
    return f"the {what} number {line} of many lines"


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    """Two corpora; the first has two shards and counts double."""
    first = (shard(tmp_path / "0.arrow", list(range(0, 90, 2))), shard(tmp_path / "1.arrow", list(range(1, 90, 2))))
    second = (shard(tmp_path / "2.arrow", list(range(31)), texts=True),)
    corpora = (
        PreparedCorpus(name="news", weight=2.0, num_pairs=90, shards=first),
        PreparedCorpus(name="talks", num_pairs=31, shards=second),
    )
    Manifest(corpora=corpora, vocabulary=()).save(tmp_path)
    return Prepared.open(tmp_path)


def same(one: Batch, other: Batch) -> bool:
    arrays = [(one.source, other.source), (one.target, other.target), (one.lines, other.lines)]
    return (one.index, one.corpus) == (other.index, other.corpus) and all(np.array_equal(*pair) for pair in arrays)


def test_a_batch_holds_the_pairs_of_its_lines(prepared: Prepared) -> None:
    reader = Reader.of(prepared, CONFIG, seed=3)
    for index in range(2 * reader.plan.num_batches):
        batch = reader(index)
        for row, line in enumerate(batch.lines.tolist()):
            for array, length, offset in ((batch.source, 2 + line % 5, 0), (batch.target, 2 + line % 7, 1)):
                padding = [PAD] * (array.shape[1] - length)
                assert array[row].tolist() == side(line, length, offset) + padding


def test_a_batch_is_no_wider_than_its_longest_rows_and_keeps_to_the_budget(prepared: Prepared) -> None:
    reader = Reader.of(prepared, CONFIG, seed=3)
    for index in range(reader.plan.num_batches):
        batch = reader(index)
        assert batch.index == index
        assert batch.source.shape[1] == max(2 + batch.lines % 5)
        assert batch.target.shape[1] == max(2 + batch.lines % 7)
        assert batch.source.size + batch.target.size <= CONFIG.tokens


def test_an_epoch_brings_every_line_as_often_as_its_corpus_weighs(prepared: Prepared) -> None:
    reader = Reader.of(prepared, CONFIG, seed=3)
    batches = [reader(index) for index in range(reader.plan.num_batches)]
    for name, expected in (("news", np.repeat(np.arange(90), 2)), ("talks", np.arange(31))):
        lines = np.concatenate([batch.lines for batch in batches if batch.corpus == name])
        assert np.array_equal(np.sort(lines), expected)


def test_the_order_knows_the_cells_and_weights_of_the_manifest(prepared: Prepared) -> None:
    corpora = cells_of(prepared)
    assert [corpus.weight for corpus in corpora] == [2.0, 1.0]
    assert [[int(cells[:, 2].sum()) for cells in corpus.shards] for corpus in corpora] == [[45, 45], [31]]


def test_a_shard_without_pairs_does_no_harm(tmp_path: Path) -> None:
    shards = (shard(tmp_path / "0.arrow", []), shard(tmp_path / "1.arrow", [5, 6, 7]))
    Manifest(corpora=(PreparedCorpus(name="few", num_pairs=3, shards=shards),), vocabulary=()).save(tmp_path)
    reader = Reader.of(Prepared.open(tmp_path), CONFIG, seed=3)
    assert sorted(np.concatenate([reader(i).lines for i in range(reader.plan.num_batches)])) == [5, 6, 7]


def test_a_pickled_reader_makes_the_same_batches(prepared: Prepared) -> None:
    reader = Reader.of(prepared, CONFIG, seed=3)
    reader(0)
    copy = pickle.loads(pickle.dumps(reader))
    assert all(same(reader(index), copy(index)) for index in range(20))


def test_a_pickled_reader_does_not_carry_the_cells(tmp_path: Path) -> None:
    """Worker processes map the table of cells themselves."""
    sizes = []
    for num_lines in (7, 35):
        folder = tmp_path / str(num_lines)
        folder.mkdir()
        info = shard(folder / "0.arrow", list(range(num_lines)))
        Manifest(corpora=(PreparedCorpus(name="few", num_pairs=num_lines, shards=(info,)),), vocabulary=()).save(folder)
        reader = Reader.of(Prepared.open(folder), CONFIG, seed=3)
        reader(0)
        sizes.append(len(pickle.dumps(reader)))
    assert sizes[0] == pytest.approx(sizes[1], abs=8)


def test_a_batch_can_be_named_by_its_lines() -> None:
    """Lines are counted from 0 here and from 1 by everybody's editor."""
    ids = np.zeros((2, 3), np.int32)
    batch = Batch(12, ids, ids, "news", np.array([0, 41]))
    assert str(batch) == "batch 12: lines 1, 42 of news"


def test_sampling_cuts_the_same_sentences_into_other_subwords(tmp_path: Path) -> None:
    info = shard(tmp_path / "0.arrow", list(range(31)), texts=True)
    Manifest(corpora=(PreparedCorpus(name="talks", num_pairs=31, shards=(info,)),), vocabulary=()).save(tmp_path)
    prepared = Prepared.open(tmp_path)
    vocab = train_vocab(*([text(what, i) for i in range(31)] for what in ("source", "target")), VocabConfig(size=300))
    sampled = Reader.of(prepared, CONFIG, seed=3, sampling=SubwordSampling(vocab, rate=0.5, seed=9))
    batch = sampled(4)
    assert batch.lines.tolist() == Reader.of(prepared, CONFIG, seed=3)(4).lines.tolist()
    for what, array, subwords in (("source", batch.source, vocab.source), ("target", batch.target, vocab.target)):
        assert [subwords.decode(row) for row in array] == [text(what, i) for i in batch.lines]
    assert same(batch, pickle.loads(pickle.dumps(sampled))(4))


def test_each_batch_side_and_seed_draws_its_own_subwords() -> None:
    """Of one sentence 20 times on both sides, BPE-dropout makes so many spellings that no two draws are alike."""
    sentences = ["an unusually complicated sentence"] * 20
    vocab = train_vocab(sentences, sentences, VocabConfig(size=300))
    texts = ShardTexts(*(pa.array(sentences, pa.large_string()) for _ in range(2)))
    draws = [SubwordSampling(vocab, rate=0.5, seed=seed)(texts, index) for seed, index in ((1, 1), (1, 2), (2, 1))]
    sides = [side.ids.tobytes() for rows in draws for side in (rows.source, rows.target)]
    assert len(set(sides)) == 6
    again = SubwordSampling(vocab, rate=0.5, seed=2)(texts, 1)
    assert [again.source.ids.tobytes(), again.target.ids.tobytes()] == sides[-2:]


def test_sampling_without_texts_says_what_to_do(prepared: Prepared) -> None:
    vocab = train_vocab(["one two three"] * 9, ["eins zwei drei"] * 9, VocabConfig(size=290))
    reader = Reader.of(prepared, CONFIG, seed=3, sampling=SubwordSampling(vocab, rate=0.5, seed=9))
    from_news = next(i for i in range(99) if reader.plan.at(i).corpus == 0)
    with pytest.raises(ValueError, match="prepare the corpus with --keep-text"):
        reader(from_news)
