"""Compounds at their hyphens, as perl's regular expression cuts them."""

import pytest

from dragoman.evaluation.literature import CompoundBLEU, split_compounds
from dragoman.evaluation.metrics import bleu
from dragoman.evaluation.reading import Reading


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("a - b, -c and d-", "a - b, -c and d-"),
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        ("a-ö-c", "a ##AT##-##AT## ö ##AT##-##AT## c"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("", ""),
    ],
)
def test_a_hyphen_between_two_letters_is_set_apart(line: str, split: str) -> None:
    assert split_compounds(line) == split


def test_the_parts_of_a_compound_count_as_words() -> None:
    reference = ["die U-Bahn-Station am Rathaus ist heute zu"]
    hypothesis = ["die Bus-Bahn-Station am Rathaus ist heute zu"]
    plain = bleu(hypothesis, reference, reading=Reading(tokenised=True))
    split = bleu(hypothesis, reference, reading=Reading(tokenised=True, compounds=True))
    assert split.value > plain.value
    assert "tok:none+compounds" in split.signature


def test_raw_text_is_tokenised_first_and_the_signature_says_so() -> None:
    metric = CompoundBLEU("13a", lowercase=True)
    assert metric._preprocess_segment("Die U-Bahn, 2-mal.  ") == "die u ##AT##-##AT## bahn , 2 - mal ."
    assert metric.tokenizer_signature == "13a+compounds"
