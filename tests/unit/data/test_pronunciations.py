import pytest

from dragoman.data.pronunciations import pad_references, read_pronunciations, spell, split_words

DICTIONARY = """\
'bout B AW1 T
a AH0
a(2) EY1
a. EY1
aalborg AO1 L B AO0 R G # place, danish
aalborg(2) AA1 L B AO0 R G
able-bodied EY1 B AH0 L B AA1 D IY0 D
present P R EH1 Z AH0 N T
present(2) P R EH0 Z AH1 N T
;;; a comment
"""


def test_stress_comments_and_words_with_signs_are_left_out() -> None:
    assert read_pronunciations(DICTIONARY.splitlines()) == {
        "'bout": ["B AW T"],
        "a": ["AH", "EY"],
        "aalborg": ["AO L B AO R G", "AA L B AO R G"],
        "present": ["P R EH Z AH N T"],  # the two differ in stress only
    }


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cmudict\.dict"):
        read_pronunciations(["Ein Hund", "läuft"])


def test_the_parts_share_no_word_and_stay_the_same_in_another_order() -> None:
    words = [f"word{i}" for i in range(100)]
    parts = split_words(words, 10, 20)
    assert [len(part) for part in parts] == [70, 10, 20]
    assert sorted(word for part in parts for word in part) == sorted(words)
    assert split_words(words[::-1], 10, 20) == parts
    assert set(split_words(words[:99], 10, 20)[2]) >= set(parts[2]) - {"word99"}
    with pytest.raises(ValueError, match="has 100 words, and 100 are needed"):
        split_words(words, 50, 50)


def test_a_word_is_spelt() -> None:
    assert spell("don't") == "d o n ' t"


def test_where_a_word_has_no_further_pronunciation_the_first_is_repeated() -> None:
    assert pad_references([["a"], ["b", "c", "d"], ["e", "f"]]) == [["a", "b", "e"], ["a", "c", "f"], ["a", "d", "e"]]
