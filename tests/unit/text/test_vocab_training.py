"""Learning a vocabulary: the same text gives the same bytes, and a size that cannot be is refused by name."""

import re
from collections.abc import Iterator

import pytest

from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD, UNK, VocabConfig, train_subwords, train_vocab

WORDS = [
    "the",
    "a",
    "man",
    "woman",
    "dog",
    "cat",
    "house",
    "street",
    "runs",
    "sits",
    "looks",
    "eats",
    "small",
    "old",
    "green",
    "with",
    "under",
    "on",
]
ENGLISH = [" ".join(WORDS[(i * k + k) % len(WORDS)] for k in range(1, 8)) for i in range(200)]
GERMAN = [text.replace("th", "ß").replace("o", "ö").replace("s", "sch") for text in ENGLISH]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_text_gives_the_same_bytes(kind: str) -> None:
    config = VocabConfig(kind=kind, size=285)
    first, again = train_subwords(ENGLISH, config), train_subwords(iter(ENGLISH), config)
    assert first.proto == again.proto
    assert first.proto != train_subwords(GERMAN, config).proto


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_specials_have_their_ids_and_the_size_is_the_configured_one(kind: str) -> None:
    model = train_subwords(ENGLISH, VocabConfig(kind=kind, size=287))
    assert model.specials == (PAD, BOS, EOS, UNK)
    assert model.size == 287
    assert [model.piece(i) for i in range(NUM_SPECIALS)] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert [model.piece(NUM_SPECIALS + i) for i in range(256)] == [f"<0x{i:02X}>" for i in range(256)]


def test_a_joint_vocabulary_learns_from_both_sides_and_a_separate_one_from_its_own() -> None:
    joint = train_vocab(ENGLISH, GERMAN, VocabConfig(size=320))
    assert joint.joint
    assert joint.source is joint.target
    assert joint.source.proto == train_subwords(ENGLISH + GERMAN, VocabConfig(size=320)).proto
    separate = train_vocab(ENGLISH, GERMAN, VocabConfig(size=310, joint=False))
    assert not separate.joint
    assert separate.source.proto == train_subwords(ENGLISH, VocabConfig(size=310)).proto
    assert separate.target.proto == train_subwords(GERMAN, VocabConfig(size=310)).proto


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_size_too_large_for_the_text_names_the_largest_possible_which_works(kind: str) -> None:
    with pytest.raises(ValueError, match=r"a vocabulary of 50,000 is too large for a sample of 200 sentences") as error:
        train_subwords(ENGLISH, VocabConfig(kind=kind, size=50_000))
    found = re.search(r"at most ([\d,]+)", str(error.value))
    assert found is not None
    largest = int(found[1].replace(",", ""))
    assert train_subwords(ENGLISH, VocabConfig(kind=kind, size=largest)).size == largest
    with pytest.raises(ValueError, match="too large"):
        train_subwords(ENGLISH, VocabConfig(kind=kind, size=largest + 1))


def test_a_size_too_small_for_the_characters_names_what_they_need() -> None:
    letters = len(set("".join(WORDS))) + 1  # and the space
    needed = NUM_SPECIALS + 256 + letters
    with pytest.raises(ValueError, match=rf"a vocabulary of 99 is too small .* at least {needed}"):
        train_subwords(ENGLISH, VocabConfig(size=99, character_coverage=1.0))


@pytest.mark.parametrize("texts", [[], ["x" * 20_000]], ids=["nothing", "one endless line"])
def test_text_with_nothing_in_it_is_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="no sentence to train on"):
        train_subwords(texts, VocabConfig(size=300))


def test_an_error_while_the_text_is_read_comes_through_as_it_is() -> None:
    def failing() -> Iterator[str]:
        yield "one"
        raise FileNotFoundError("corpus.en")

    with pytest.raises(FileNotFoundError, match=r"corpus\.en"):
        train_subwords(failing(), VocabConfig(size=300))


def test_half_a_character_in_the_text_is_refused_by_its_number() -> None:
    with pytest.raises(ValueError, match=r"sentence 2 .*U\+DC80"):
        train_subwords(["one", "two", "th\udc80ree"], VocabConfig(size=300))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_special_tokens_spelled_in_the_training_text_never_become_special_ids(kind: str) -> None:
    poison = ["</s>", "<s>", "<pad>", "<unk>", "<0x41>", "</s></s>"]
    text = [f"{sentence} {poison[i % len(poison)]}" for i, sentence in enumerate(ENGLISH)]
    model = train_subwords(text, VocabConfig(kind=kind, size=300, character_coverage=1.0))
    for spelled in [*poison, " ".join(poison), "a</s>b"]:
        ids = model.encode([spelled]).ids
        assert ids[-1] == EOS
        assert not set(ids[:-1].tolist()) & {PAD, BOS, EOS, UNK}
        assert model.decode(ids) == spelled


def test_an_interrupt_while_the_sample_is_read_stays_an_interrupt() -> None:
    def interrupted() -> Iterator[str]:
        yield "one sentence"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_subwords(interrupted(), VocabConfig(size=300))
