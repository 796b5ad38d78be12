"""Text that is kept instead of translated: what the vocabulary cannot represent, and what never ends."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.bundle import demo_folder, open_bundle
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import VocabConfig, train_vocab
from dragoman.translation.kept import LONGEST_REPETITION, LONGEST_WORD, split_kept

CHINESE = "我们昨天在公园里散步的时候看见了一只很大的狗"
RUSSIAN = "Вчера мы гуляли в парке."
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ADDRESS = "https://example.org/" + "".join(random.Random(1).choices(LETTERS, k=60))


@cache
def open_demo() -> Subwords:
    return open_bundle(demo_folder()).vocab.source


@pytest.fixture
def demo() -> Subwords:
    return open_demo()


@cache
def characters() -> Subwords:
    """A vocabulary of characters, as for dates or phonemes."""
    words = ["".join(random.Random(seed).choices(LETTERS + "0123456789", k=8)) for seed in range(300)]
    return train_vocab(words, words, VocabConfig(size=300, character_coverage=1.0)).source


@cache
def few_characters() -> Subwords:
    return train_vocab(["a b"], ["c d"], VocabConfig(size=269, character_coverage=1.0)).source


def reasons(text: str, subwords: Subwords) -> list[str | None]:
    (parts,) = split_kept([text], subwords)
    return [part.kept for part in parts]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a" * 1000, "repetition"),
        ("ha" * 100, "repetition"),
        ("a " * 200, "repetition"),
        ("".join(random.Random(2).choices(LETTERS, k=1000)), "long word"),
        (CHINESE, "unknown script"),
        (CHINESE * 50, "unknown script"),
        (RUSSIAN, "unknown script"),
        (RUSSIAN * 50, "unknown script"),
        ("\U0001f600" * 500, "unknown script"),
    ],
)
def test_text_that_the_vocabulary_was_not_made_for_is_kept_whole(text: str, reason: str, demo: Subwords) -> None:
    assert reasons(text, demo) == [reason]
    assert split_kept([text], demo)[0][0][:2] == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        "Where is the station?",
        "",
        "aaaaaaaargh, noooooooooo!!!!!!!!!!",
        "The word 你好 means hello, and \U0001f600 is a smile.",
        "PLEASE DO NOT LEAVE YOUR LUGGAGE UNATTENDED " * 3,
        f"See {ADDRESS} for more.",
        "Les élèves de cette école ont été très étonnés d'apprendre que leur professeur partait.",
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
        " ".join(f"{word} number {i} of the long sentence," for i, word in enumerate(["one", "two", "three"] * 11)),
    ],
)
def test_ordinary_text_is_translated_whole_and_costs_its_tokens(text: str, demo: Subwords) -> None:
    assert reasons(text, demo) == [None]
    assert split_kept([text], demo)[0][0][:2] == (text, *demo.encode([text]).rows())


def test_a_long_word_is_kept_and_the_text_around_it_translated(demo: Subwords) -> None:
    word = "".join(random.Random(3).choices(LETTERS, k=900))
    dots = "." * 300
    (parts,) = split_kept([f"Read this {word} and {dots} then go home."], demo)
    assert [(part.text, part.kept) for part in parts] == [
        ("Read this", None),
        (word, "long word"),
        ("and", None),
        (dots, "repetition"),
        ("then go home.", None),
    ]
    assert sum(part.num_tokens for part in parts) < LONGEST_REPETITION


def test_a_vocabulary_of_characters_has_long_words_but_no_endless_repetition() -> None:
    word = "".join(random.Random(4).choices(LETTERS, k=3 * LONGEST_WORD))
    assert reasons(word, characters()) == [None]
    assert reasons("1" * 40, characters()) == [None]
    assert reasons("1" * 1000, characters()) == ["repetition"]
    assert reasons(CHINESE, characters()) == ["unknown script"]


def test_a_vocabulary_of_few_characters_spells_its_language_in_bytes() -> None:
    assert reasons("two red dogs", few_characters()) == [None]
    assert reasons(CHINESE, few_characters()) == [None]
    assert reasons("b" * 1000, few_characters()) == ["repetition"]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=4))
def test_no_word_is_lost_and_a_batch_changes_nothing(texts: list[str]) -> None:
    subwords = open_demo()
    found = split_kept(texts, subwords)
    assert found == [split_kept([text], subwords)[0] for text in texts]
    for text, parts in zip(texts, found, strict=True):
        assert " ".join(part.text for part in parts).split() == text.split()
        assert all((part.ids == []) == (part.kept is not None) for part in parts)
