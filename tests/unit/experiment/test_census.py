from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.data.dates import dates
from dragoman.experiment import census as module
from dragoman.experiment.census import IDS, take_census
from dragoman.text.vocab import VocabConfig, train_vocab


def corpus(folder: Path, pairs: list[tuple[str, str]], name: str = "train") -> CorpusConfig:
    for side, texts in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return CorpusConfig(name=name, source=str(folder / f"{name}.en"), target=str(folder / f"{name}.de"))


def test_it_counts_pairs_bytes_letters_and_words(tmp_path: Path) -> None:
    one = corpus(tmp_path, [("a cat", "eine Katze"), ("a dog 7", "ein Hund 7"), ("", "ähm")], "one")
    two = corpus(tmp_path, [("cat", "Katze")], "two")
    reports = []
    census = take_census([one, two], lambda *what: reports.append(what))
    assert (census.pairs, census.is_whole) == (4, True)
    assert census.num_bytes == len("a cateine Katzea dog 7ein Hund 7") + 1 + len("ähm") + len("catKatze")
    assert census.source_words == {"cat", "dog"}
    assert census.target_words == {"eine", "Katze", "ein", "Hund", "ähm"}
    assert census.letters == len(set("acatdog7eineKatzeinHundähm"))
    assert census.smallest == IDS + census.letters
    assert census.largest == IDS + census.letters + 7
    assert reports == [("count the pairs", 3, None), ("count the pairs", 4, None)]


def test_the_mean_length_is_in_subwords_of_both_sides(tmp_path: Path) -> None:
    spaced = take_census([corpus(tmp_path, [("x" * 42, "y" * 21), ("x" * 42, "y" * 63)])])
    assert spaced.tokens == pytest.approx(2 + (42 * 2 + 21 + 63) / 4.2 / 2)
    unspaced = take_census([corpus(tmp_path, [("x" * 42, "字" * 16)])])
    assert unspaced.tokens == pytest.approx(2 + 10 + 10)


def test_a_sample_is_enough_for_letters_but_pairs_are_all_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FROM_EACH", 3)
    census = take_census([corpus(tmp_path, [(letter, "x") for letter in "abcdefgh"])])
    assert (census.pairs, census.letters, census.is_whole) == (8, len("abcx"), False)
    assert census.smallest == IDS + 5  # a fifth more than the 4 that were seen


@pytest.mark.parametrize("num", [20, 150, 900])
def test_the_bounds_of_a_vocabulary_can_both_be_learned(tmp_path: Path, num: int) -> None:
    pairs = dates(num, seed=3)
    census = take_census([corpus(tmp_path, pairs)])
    assert census.smallest < census.largest
    for size in (census.smallest, census.largest):
        config = VocabConfig(size=size, character_coverage=1.0)
        assert train_vocab(*zip(*pairs, strict=True), config).source.size == size
    with pytest.raises(ValueError, match="too small"):
        train_vocab(*zip(*pairs, strict=True), VocabConfig(size=census.smallest - 1, character_coverage=1.0))
