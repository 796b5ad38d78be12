"""Where each token stands, also where a model wrote other pieces than its text would be cut into."""

from pathlib import Path

import pytest

from dragoman.alignment.tokens import Tokens
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import EOS, UNK, Vocab

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Vocab.load(GOLDEN).target


@pytest.mark.parametrize("text", ["vier grüne Frauen.", "", "  zwei  Hunde ", "café 🙂日", "\t\nzehn"])
def test_a_text_and_its_own_ids_give_the_same_tokens(subwords: Subwords, text: str) -> None:
    cut = Tokens.from_text(subwords, text)
    assert Tokens.from_ids(subwords, cut.ids) == cut
    assert cut.text == text
    assert len(cut) == len(cut.pieces) == len(cut.spans) == len(cut.words) == len(subwords.encode([text]).ids)


def test_other_pieces_of_the_same_text_stand_where_they_stand(subwords: Subwords) -> None:
    letters = {subwords.piece(token): token for token in range(subwords.size)}
    ids = [*(letters[piece] for piece in ("▁", "g", "r", "<0xC3>", "<0xBC>", "n", "e")), EOS]
    tokens = Tokens.from_ids(subwords, ids)
    assert subwords.encode([tokens.text]).ids.tolist() != ids
    assert tokens.text == "grüne"
    assert tokens.spans == ((0, 0), (0, 1), (1, 2), (2, 3), (2, 3), (3, 4), (4, 5), (5, 5))
    assert tokens.words == (0, 0, 0, 0, 0, 0, 0, -1)


def test_bytes_that_make_no_character_have_one_each(subwords: Subwords) -> None:
    letters = {subwords.piece(token): token for token in range(subwords.size)}
    tokens = Tokens.from_ids(subwords, [letters["<0xC3>"], letters["<0xC3>"], letters["n"], EOS])
    assert tokens.text == "��n"
    assert tokens.spans == ((0, 1), (1, 2), (2, 3), (3, 3))


def test_words_are_split_at_white_space_and_a_space_is_of_the_word_after_it(subwords: Subwords) -> None:
    tokens = Tokens.from_text(subwords, "vier  alte Frauen. ")
    assert tokens.word_spans == ((0, 4), (6, 10), (11, 18))
    by_word = {n: {tokens.text[a:b] for (a, b), word in zip(tokens.spans, tokens.words, strict=True) if word == n}
               for n in range(-1, 3)}  # fmt: skip
    assert by_word[-1] == {""}  # EOS
    assert set("".join(by_word[0])) <= set("vier")
    assert set("".join(by_word[1])) <= set(" alte")
    assert set("".join(by_word[2])) <= set(" Frauen.")
    assert tokens.words[-2] == 2  # the space at the end has no word after it


def test_what_stands_for_nothing_has_an_empty_span(subwords: Subwords) -> None:
    inside = Tokens.from_text(subwords, "vier alte")
    tokens = Tokens.from_ids(subwords, [*inside.ids[:-1], UNK, EOS])
    assert tokens.text == "vier alte"
    assert tokens.spans[-2:] == ((9, 9), (9, 9))
    assert tokens.words[-2:] == (1, -1)
    assert Tokens.from_ids(subwords, [EOS]).words == (-1,)
