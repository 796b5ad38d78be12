"""What a sentence costs, before anybody knows its tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bundle import demo_folder, open_bundle
from dragoman.serving.piece import cost_of

SENTENCES = (
    "Where is the station?",
    "No.",
    "The committee will meet again on Tuesday, as nobody objected to the proposal at the time.",
    "Die Straßenbahnhaltestelle befindet sich unmittelbar hinter der Kirche.",
    "車站在哪裡。",
    "https://example.org/a/long/address?with=parts#and-a-place",
)


@given(st.text(), st.text())
def test_every_text_costs_something_and_two_never_more_together_than_apart(one: str, two: str) -> None:
    assert cost_of(one) >= 2
    assert max(cost_of(one), cost_of(two)) <= cost_of(one + two) <= cost_of(one) + cost_of(two)


@pytest.mark.parametrize("text", SENTENCES)
def test_it_is_the_number_of_tokens_about(text: str) -> None:
    number = len(open_bundle(demo_folder()).vocab.source.encode([text]).ids)
    assert number / 4 <= cost_of(text) <= 4 * number
