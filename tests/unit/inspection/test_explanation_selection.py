"""Which word, layer and head an explanation is about: the chosen one, or the most instructive, and why."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.alignment.tokens import Tokens
from dragoman.bundle import open_bundle
from dragoman.inspection.explanation.selection import find_attention, find_head, find_row, find_word, strip_marks
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig

VOCAB = open_bundle(Path(__file__).parents[2] / "golden" / "v1").vocab


def tokens(text: str) -> Tokens:
    return Tokens.from_text(VOCAB.source, text)


def model() -> object:
    sizes = {"d_model": 6, "d_ff": 5, "num_heads": 2, "num_encoder_layers": 3, "num_decoder_layers": 2}
    return build(TransformerConfig(source_vocabulary=9, target_vocabulary=9, **sizes))


@pytest.mark.parametrize(
    ("choice", "number"),
    [("0", 0), ("3", 3), ("red", 1), ("Dogs", 2), ("dogs.", 2), ("ate?", 3), ("2021", 4), ("7", 5)],
)
def test_a_word_is_found_by_number_spelling_case_and_without_its_marks(choice: str, number: int) -> None:
    text = tokens("Two red «dogs», ate? 2021 7")
    found = find_word(choice, text, "encoder")
    assert found.row == text.words.index(number)
    assert all(text.words[i] == number for i in found.pieces)
    assert len(found.pieces) == text.words.count(number)


def test_an_exact_spelling_comes_before_one_of_another_case() -> None:
    text = tokens("The the THE")
    assert find_word("THE", text, "encoder").row == text.words.index(2)
    assert find_word("tHE", text, "encoder").row == 0
    twice = find_word("the", tokens("a the b the"), "encoder")
    assert twice.reason == "as you chose, the first of 2"


def test_a_piece_can_be_named_where_words_are_not_split_by_spaces() -> None:
    text = tokens("dogs")
    piece = text.pieces[1]
    assert find_word(piece, text, "encoder").row == 1


def test_by_default_it_is_the_longest_word_without_its_marks() -> None:
    found = find_word(None, tokens("a !!!!!!!! houses, tables"), "encoder")
    assert (found.text, found.reason) == ("houses", "the longest word")
    assert find_word(None, tokens("houses a"), "cross").text == "houses"


def test_the_decoders_first_word_sees_only_the_beginning_so_another_is_chosen() -> None:
    found = find_word(None, tokens("houses red a"), "decoder")
    assert (found.text, found.reason) == ("red", "the longest word after the first")
    assert find_word(None, tokens("houses"), "decoder").text == "houses"


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("apple", r"no word 'apple' in the source: choose by spelling or number: 0 two, 1 red, 2 dogs"),
        ("9", r"no word '9' in the source"),
        ("-1", r"no word '-1'"),
        ("", r"no word ''"),
        ("dog", r"no word 'dog' in the source: did you mean dogs\? choose"),
        ("²", r"no word '²'"),
    ],
)
def test_a_word_that_is_not_there(choice: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_word(choice, tokens("two red dogs."), "encoder")


def test_for_the_target_the_words_of_the_target_are_named() -> None:
    with pytest.raises(ValueError, match=r"in the target, whose words this attention is about: choose .*0 zwei"):
        find_word("two", tokens("zwei rote Hunde."), "cross")


def test_of_many_words_some_are_named() -> None:
    with pytest.raises(ValueError, match=r"0 a, .*, 11 a, … 49 a$"):
        find_word("b", tokens("a " * 50), "encoder")


@pytest.mark.parametrize(("word", "expected"), [("(apple),", "apple"), ("…", "…"), ("don't", "don't"), ("$5", "5")])
def test_marks_around_a_word_are_left_out(word: str, expected: str) -> None:
    assert strip_marks(word) == expected


def test_an_attention_is_found_by_kind_and_layer() -> None:
    found = find_attention(model(), "cross", -1)
    assert (found.name, found.kind, found.layer, found.num_layers) == (
        "decoder.layers.1.cross_attention",
        "cross",
        1,
        2,
    )
    assert find_attention(model(), None, 2).name == "encoder.layers.2.self_attention"
    assert find_attention(model(), "decoder", 0).name == "decoder.layers.0.self_attention"
    recurrent = build(RecurrentConfig(source_vocabulary=9, target_vocabulary=9, d_model=4, d_embedding=3))
    assert find_attention(recurrent, None, 0).name == "decoder.attention"
    with pytest.raises(ValueError, match="no layer 1 of cross attention: choose 0 to 0"):
        find_attention(recurrent, None, 1)


@pytest.mark.parametrize("layer", [3, -4])
def test_a_layer_that_is_not_there(layer: int) -> None:
    with pytest.raises(ValueError, match=f"no layer {layer} of encoder attention: choose 0 to 2, or -1 for the last"):
        find_attention(model(), "encoder", layer)


def test_the_head_in_the_middle_between_sharp_and_even_is_the_most_instructive() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.8, 0.1, 0.1]])
    head, why = find_head(None, weights, np.ones(3, bool))
    assert head == 2
    assert (
        "0.58, is nearest to the middle between 0, all on one key, and 1, all alike; the others have 0.00, 1.00" in why
    )


def test_hidden_keys_do_not_count_as_even() -> None:
    """Half and half over two visible keys is even, over six it would be in the middle."""
    weights = np.array([[0.5, 0.5, 0, 0, 0, 0], [0.9, 0.1, 0, 0, 0, 0]])
    visible = np.array([True, True, False, False, False, False])
    assert find_head(None, weights, visible)[0] == 1


def test_a_head_may_be_chosen() -> None:
    weights, all_of_it = np.full((2, 4), 0.25), np.ones(4, bool)
    assert find_head(1, weights, all_of_it) == (1, "as you chose")
    for wrong in (2, -1):
        with pytest.raises(ValueError, match=f"there is no head {wrong}: choose 0 to 1"):
            find_head(wrong, weights, all_of_it)
    with pytest.raises(ValueError, match="choose 0 to 0"):
        find_head(1, weights[:1], all_of_it)
    assert find_head(None, weights[:1], all_of_it) == (0, "its only one")
    assert find_head(None, weights, np.arange(4) < 1) == (0, "every head here has but one key to look at")


def test_a_row_is_a_word_a_piece_of_a_word_or_the_end() -> None:
    text = tokens("two «dogs».")
    first = text.words.index(1)
    assert (find_row(first, text).text, find_row(first, text).pieces[0]) == ("dogs", first)
    assert len(find_row(first, text).pieces) == text.words.count(1) > 1
    piece = find_row(first + 1, text)
    assert (piece.row, piece.pieces, piece.text) == (first + 1, (first + 1,), text.pieces[first + 1])
    assert find_row(len(text) - 1, text).text == "</s>"
    for row in (-1, len(text)):
        with pytest.raises(ValueError, match=f"there is no row {row}: choose 0 to {len(text) - 1}"):
            find_row(row, text)
