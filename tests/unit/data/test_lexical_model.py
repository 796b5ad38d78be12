from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dragoman.data.lexical_model import LexicalModel, Stems, split_stems, train_lexical_model

WORDS = {"man": "mann", "dog": "hund", "house": "haus", "red": "rot", "street": "weg", "ball": "ball", "sees": "sieht"}


def texts(lines: list[str]) -> pa.LargeStringArray:
    return pa.array(lines, pa.large_string())


def translated(num: int) -> tuple[Stems, Stems]:
    draw = Random(1)
    rows = [draw.sample(list(WORDS), draw.randint(2, 5)) for _ in range(num)]
    return split_stems(texts([" ".join(row) for row in rows]), texts([" ".join(map(WORDS.get, row)) for row in rows]))


def trained(source: Stems, target: Stems, num: int) -> LexicalModel:
    return train_lexical_model(source, target, np.arange(num), np.arange(num))


def test_words_are_cut_to_stems_that_both_sides_number_alike() -> None:
    source, target = split_stems(texts(["Berlin-Mitte, 1990!", ""]), texts(["In Berlin 1990", "x y z"]))
    assert source.lengths.tolist() == [3, 0]
    assert target.lengths.tolist() == [3, 3]
    assert source.stems[[0, 2]].tolist() == target.stems[[1, 2]].tolist()


@pytest.mark.parametrize(("line", "num"), [("我喜欢你", 4), ("adapt", 5), ("a word", 2)])
def test_unspaced_scripts_and_single_words_are_split_into_characters(line: str, num: int) -> None:
    source, target = split_stems(texts([line]), texts(["one two three"]))
    assert (source.lengths.tolist(), target.lengths.tolist()) == ([num], [3])


def test_a_true_target_gains_and_a_random_one_loses() -> None:
    source, target = translated(300)
    model = trained(source, target, 200)
    rows = np.arange(200, 300)
    own, other = (model.gains(source, target, rows, others) for others in (rows, np.roll(rows, 7)))
    assert own.min() > 0
    assert other.mean() < 0


def test_a_name_is_recognised_without_having_been_seen() -> None:
    pairs = [f"{word}{i} {word}" for i in range(60) for word in ("ab", "cd")]
    names = ["xyzzy ab", "plugh ab"]
    source, target = split_stems(texts(pairs + names), texts(pairs + names))
    model = trained(source, target, len(pairs))
    first, second = len(pairs), len(pairs) + 1
    own, other = model.gains(source, target, np.array([first, first]), np.array([first, second]))
    assert own > other + 1


def test_pairs_without_words_gain_nothing() -> None:
    source, target = split_stems(texts(["...", "a dog"]), texts(["ein hund", "?"]))
    model = train_lexical_model(source, target, np.arange(2), np.arange(2))
    assert model.gains(source, target, np.arange(2), np.arange(2)).tolist() == [0.0, 0.0]
