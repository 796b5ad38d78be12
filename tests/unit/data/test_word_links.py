"""Word links of training pairs: reading, keeping them with their pairs, and the weights of tokens."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.data.augment import AugmentConfig
from dragoman.data.batches import Reader
from dragoman.data.corpus import CorpusConfig
from dragoman.data.manifest import Prepared
from dragoman.data.order import BatchConfig
from dragoman.data.prepare import PrepareConfig, prepare, settings_of
from dragoman.data.word_links import LinkedPair, WordStarts, parse_links, token_weights
from dragoman.text.ragged import Ragged
from dragoman.text.vocab import EOS, PAD, Vocab, VocabConfig

WORDS = ["red", "blue", "small", "house", "garden", "tree", "cat", "sings", "walks", "today"]


def pair(links: str, source: str, target: str, clean: tuple[str, str] | None = None) -> LinkedPair:
    return LinkedPair(6, links.encode(), (source.encode(), target.encode()), clean or (source, target))


def test_links_are_read_in_moses_format() -> None:
    found = parse_links([pair("0-0 1-2", "a b", "x y z"), pair("", "a", "x"), pair(" 0-1\r", "a", "x y")], "f.links")
    assert found.rows() == [[0, 0, 1, 2], [], [0, 1]]


def test_a_pair_whose_words_cleaning_changed_has_no_links() -> None:
    assert parse_links([pair("0-0 2-0", "a \u200b b", "x", ("a b", "x"))], "f.links").rows() == [[]]


@pytest.mark.parametrize("links", ["0:0", "0-0 1", "a-0", "2-0", "0-3", "-1-0"])
def test_anything_else_names_file_and_line(links: str) -> None:
    with pytest.raises(ValueError, match=r"f\.links, line 7: "):
        parse_links([pair(links, "a b", "x y z")], "f.links")


def test_weights_are_shared_by_all_tokens_of_the_linked_words() -> None:
    starts = WordStarts(np.array([False] * 4 + [True, False, True, False]), np.array([False] * 4 + [True, False]))
    source = np.array([[4, 5, 6, EOS], [6, EOS, PAD, PAD]], np.int32)  # two words, of which one has two tokens
    target = np.array([[4, 4, 5, 4, EOS], [4, 5, EOS, PAD, PAD]], np.int32)
    links = Ragged(np.array([0, 1, 1, 1, 1, 2], np.int32), np.array([0, 6, 6]))
    found = token_weights(links, source, target, starts)
    third = 1 / 3
    assert found[0] == pytest.approx(
        np.array([[0, 0, 0, 0], [third, third, third, 0], [third, third, third, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    )
    assert not found[1].any()


def write(folder: Path, num_pairs: int = 400) -> CorpusConfig:
    """Pairs of words in capitals and in the other order, with their links."""
    draw = np.random.default_rng(1)
    files: dict[str, list[str]] = {"en": [], "de": [], "links": []}
    for number in range(num_pairs):
        words = [*draw.choice(WORDS, draw.integers(2, 7)).tolist(), f"n{number}"]
        files["en"].append(" ".join(words))
        files["de"].append(" ".join(words[::-1]).upper())
        files["links"].append(" ".join(f"{i}-{len(words) - 1 - i}" for i in range(len(words))))
    for name, lines in files.items():
        (folder / f"a.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return CorpusConfig(
        name="a", source=str(folder / "a.en"), target=str(folder / "a.de"), links=str(folder / "a.links")
    )


def settings(*corpora: CorpusConfig, **augment: float) -> PrepareConfig:
    return PrepareConfig(
        corpora=corpora,
        vocabulary=VocabConfig(size=420),
        augment=AugmentConfig(**augment),
        lines_per_chunk=150,
        pairs_per_shard=150,
    )


def read_all(prepared: Prepared, vocab: Vocab) -> list[tuple[str, str, np.ndarray, list[str], list[str]]]:
    """Return the texts, the guide and the tokens of every pair in an epoch."""
    reader = Reader.of(prepared, BatchConfig(tokens=500), 1, word_starts=WordStarts.of(vocab))
    found = []
    for index in range(reader.plan.num_batches):
        batch = reader(index)
        assert batch.guide is not None
        for source, target, guide in zip(batch.source, batch.target, batch.guide, strict=True):
            sides = [side[(side != PAD) & (side != EOS)] for side in (source, target)]
            tokens = [
                [part.piece(int(token)) for token in side]
                for part, side in zip((vocab.source, vocab.target), sides, strict=True)
            ]
            texts = vocab.source.decode(sides[0]), vocab.target.decode(sides[1])
            found.append((*texts, guide, *tokens))
    return found


def words_of(pieces: list[str]) -> list[int]:
    return (np.cumsum([piece.startswith("▁") for piece in pieces]) - 1).tolist()


@pytest.mark.slow
def test_links_stay_with_their_pairs_in_shards_and_in_changed_copies(tmp_path: Path) -> None:
    prepared = prepare(settings(write(tmp_path), title_case=0.3, phrases=0.05), tmp_path / "out", num_workers=2)
    rows = read_all(prepared, Vocab.load(tmp_path / "out"))
    assert any(source.istitle() for source, *_ in rows)
    num_guided = 0
    for source, target, guide, source_pieces, target_pieces in rows:
        if " ".join(source.lower().split()[::-1]) != target.lower() or not guide.any():
            continue  # a phrase
        num_guided += 1
        from_words, to_words = words_of(source_pieces), words_of(target_pieces)
        for row, word in enumerate(to_words):
            expected = np.array([other == len(source.split()) - 1 - word for other in from_words], np.float32)
            assert guide[row, : len(from_words)] == pytest.approx(expected / expected.sum())
    assert num_guided > 380


@pytest.mark.slow
def test_links_of_joined_pairs_count_words_from_the_start_of_the_first(tmp_path: Path) -> None:
    prepared = prepare(settings(write(tmp_path), joined=0.3), tmp_path / "out", num_workers=2)
    num_joined = 0
    for source, target, guide, source_pieces, target_pieces in read_all(prepared, Vocab.load(tmp_path / "out")):
        words, translated = source.split(), target.split()
        ends = [i for i, word in enumerate(words) if word.startswith("n")]  # the last word of each pair is its number
        num_joined += len(ends) > 1
        start, twins = 0, {}
        for end in ends:
            twins |= {start + end - i: i for i in range(start, end + 1)}
            start = end + 1
        from_words = words_of(source_pieces)
        for row, word in enumerate(words_of(target_pieces)):
            assert translated[word] == words[twins[word]].upper()
            expected = np.array([other == twins[word] for other in from_words], np.float32)
            assert guide[row, : len(from_words)] == pytest.approx(expected / expected.sum())
    assert num_joined == 120


def test_a_tag_moves_the_source_words(tmp_path: Path) -> None:
    corpus = write(tmp_path, 60).model_copy(update={"tag": "<BT>"})
    prepared = prepare(settings(corpus), tmp_path / "out")
    vocab = Vocab.load(tmp_path / "out")
    for source, _, guide, pieces, target_pieces in read_all(prepared, vocab):
        assert source.startswith("<BT> ")
        linked = {words_of(pieces)[int(weights.argmax())] for weights in guide[: len(target_pieces)]}
        assert linked == set(range(1, len(source.split())))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_links_needs_a_line_for_each_pair(tmp_path: Path, change: int) -> None:
    corpus = write(tmp_path)
    path = tmp_path / "a.links"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1] if change < 0 else [*lines, "0-0"]) + "\n")
    with pytest.raises(ValueError, match=r"a\.links"):
        prepare(settings(corpus), tmp_path / "out")


def test_links_are_part_of_the_settings_only_if_there_are_any(tmp_path: Path) -> None:
    corpus = write(tmp_path, 30)
    with_links = settings_of(settings(corpus))
    without = settings_of(settings(corpus.model_copy(update={"links": None})))
    assert str(tmp_path / "a.links") in with_links["files"]
    assert "links" not in without["config"]["corpora"][0]
