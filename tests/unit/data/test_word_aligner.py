"""The word aligner learned from pairs: dictionaries of toy languages, unknown and missing words, and its arithmetic."""

from math import exp
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data import word_aligner
from dragoman.data.word_aligner import WordAligner

WORDS = {"man": "mann", "dog": "hund", "house": "haus", "red": "rot", "street": "weg", "ball": "kugel", "sees": "sieht"}
WORDS |= {f"noun{i}": f"wort{i}" for i in range(30)}


def toy_pairs(num: int, shuffled: bool = True) -> tuple[list[str], list[str], list[list[int]]]:
    """Return sources, targets, and the source word of each target word."""
    draw = Random(1)
    sources, targets, orders = [], [], []
    for _ in range(num):
        words = draw.sample(list(WORDS), draw.randint(2, 5))
        order = draw.sample(range(len(words)), len(words)) if shuffled else list(range(len(words)))
        sources.append(" ".join(words))
        targets.append(" ".join(WORDS[words[i]] for i in order))
        orders.append(order)
    return sources, targets, orders


def best(aligner: WordAligner, source: str, target: str) -> list[int]:
    return aligner.best([source], [target])[0].tolist()


@pytest.fixture(scope="module")
def toy() -> WordAligner:
    return WordAligner(*toy_pairs(500)[:2])


def test_a_dictionary_is_found_whatever_the_word_order(toy: WordAligner) -> None:
    sources, targets, orders = toy_pairs(500)
    assert [words.tolist() for words in toy.best(sources, targets)] == orders


def test_of_two_equal_words_the_nearer_is_linked(toy: WordAligner) -> None:
    assert best(toy, "dog man dog", "hund mann hund") == [0, 1, 2]


def test_unknown_words_are_not_linked(toy: WordAligner) -> None:
    assert best(toy, "red xyzzy dog", "plugh hund rot") == [-1, 2, 0]
    assert best(toy, "xyzzy", "hund") == [-1]


def test_known_words_that_never_met_are_not_linked() -> None:
    aligner = WordAligner(["dog", "man"], ["hund", "mann"])
    assert best(aligner, "dog", "mann") == [-1]


def test_punctuation_and_case_are_ignored(toy: WordAligner) -> None:
    assert best(toy, '"Red DOG!"', "Hund, (rot)") == [1, 0]


def test_a_word_of_punctuation_alone_is_a_word() -> None:
    sources, targets, _ = toy_pairs(200, shuffled=False)
    aligner = WordAligner([f"{line} ." for line in sources], [f"{line} ." for line in targets])
    assert best(aligner, "dog man .", "hund mann .") == [0, 1, 2]


def test_a_blank_side_has_no_links_and_keeps_its_place(toy: WordAligner) -> None:
    found = toy.best(["", "dog", " ", "red"], ["hund rot", "", "", "rot"])
    assert [words.tolist() for words in found] == [[-1, -1], [], [], [0]]


@pytest.mark.parametrize("lines", [[], [""], ["", " "]])
def test_nothing_is_learned_from_nothing(lines: list[str]) -> None:
    aligner = WordAligner(lines, lines)
    assert [words.tolist() for words in aligner.best(lines, lines)] == [[] for _ in lines]
    assert best(aligner, "a b", "c d") == [-1, -1]


def test_sides_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        WordAligner(["dog", "man"], ["hund"])


def test_the_same_pairs_give_the_same_links() -> None:
    sources, targets, _ = toy_pairs(50)
    first, second = (WordAligner(sources, targets).best(sources, targets) for _ in range(2))
    assert [words.tolist() for words in first] == [words.tolist() for words in second]


def test_parts_and_lines_left_out_do_not_change_a_clear_case(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets, orders = toy_pairs(1_500)
    monkeypatch.setattr(word_aligner, "_CELLS_AT_ONCE", 500)
    monkeypatch.setattr(word_aligner, "_MAX_CELLS", 15_000)
    aligner = WordAligner(sources, targets)
    assert [words.tolist() for words in aligner.best(sources, targets)] == orders


def test_a_long_line_is_aligned_but_not_learned_from() -> None:
    long = " ".join(["left"] * 101)
    aligner = WordAligner(["right", long], ["rechts", "links"])
    assert best(aligner, "left", "links") == [-1]
    assert best(aligner, "right", "rechts " * 101) == [0] * 101


def test_progress_counts_up_to_each_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_aligner, "_CELLS_AT_ONCE", 100)
    sources, targets, _ = toy_pairs(100)
    seen: dict[str, list[tuple[int, int | None]]] = {}

    def progress(what: str, done: int, total: int | None = None, unit: str = "") -> None:
        seen.setdefault(what, []).append((done, total))

    WordAligner(sources, targets, progress).best(sources, targets, progress)
    assert len(seen) == 2
    for reports in seen.values():
        assert len(reports) > 10
        assert reports == sorted(reports)
        assert reports[-1][0] == reports[-1][1]


@pytest.mark.parametrize(
    ("x", "digamma"),
    [
        (0.1, -10.4237549404110768),
        (0.5, -1.9635100260214235),
        (1.0, -0.5772156649015329),
        (2.0, 0.4227843350984671),
        (6.0, 1.7061176684318005),
        (10.0, 2.2517525890667211),
        (1000.0, 6.9072551956488120),
    ],
)
def test_exp_digamma(x: float, digamma: float) -> None:
    assert word_aligner._exp_digamma(np.array([x]))[0] == pytest.approx(exp(digamma), rel=1e-7)


def test_exp_digamma_of_zero_is_zero() -> None:
    assert word_aligner._exp_digamma(np.zeros(1)).tolist() == [0.0]


lines = st.lists(st.sampled_from(["a", "b", "B,", "...", "ä", "x"]), max_size=5).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(known=st.lists(st.tuples(lines, lines), max_size=6), other=st.lists(st.tuples(lines, lines), max_size=6))
def test_each_index_is_that_of_a_source_word_or_minus_one(
    known: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    aligner = WordAligner([source for source, _ in known], [target for _, target in known])
    pairs = known + other
    found = aligner.best([source for source, _ in pairs], [target for _, target in pairs])
    assert len(found) == len(pairs)
    for words, (source, target) in zip(found, pairs, strict=True):
        assert len(words) == len(target.split())
        assert all(-1 <= word < len(source.split()) for word in words.tolist())
