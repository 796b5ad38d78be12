"""Links as lines of text, and gold lines that are refused."""

import gzip
from pathlib import Path

import pytest

from dragoman.alignment.moses import Gold, read_gold, to_moses


def test_links_are_written_in_the_order_of_the_source() -> None:
    assert to_moses(frozenset({(10, 1), (0, 0), (1, 10), (1, 2)})) == "0-0 1-2 1-10 10-1"
    assert to_moses(frozenset()) == ""


def test_gold_counts_from_one_and_the_sure_are_possible_too() -> None:
    first, second = read_gold(["2-1 1p3 \n", ""])
    assert first == Gold(frozenset({(1, 0)}), frozenset({(1, 0), (0, 2)}))
    assert first.swapped() == Gold(frozenset({(0, 1)}), frozenset({(0, 1), (2, 0)}))
    assert second == Gold(frozenset(), frozenset())


def test_a_link_that_is_sure_and_possible_is_sure() -> None:
    (gold,) = read_gold(["1p1 1-1 1p1"])
    assert gold.sure == gold.possible == {(0, 0)}


@pytest.mark.parametrize("bad", ["0-1", "1p0", "1s1", "1?1"])
def test_gold_that_cannot_be_read_is_refused_with_its_line(bad: str) -> None:
    with pytest.raises(ValueError, match=r"gold, line 1: .* is not a link: write 1-1"):
        list(read_gold([f"1-1 {bad}"]))


def test_the_german_english_gold_fits_its_sentences(shared_data: Path) -> None:
    german, english, talp = (
        gzip.decompress((shared_data / "align-de-en" / f"{name}.gz").read_bytes()).decode().splitlines()
        for name in ("test.de", "test.en", "gold.talp")
    )
    gold = list(read_gold(talp))
    assert len(gold) == 508
    for links, source, target in zip(gold, german, english, strict=True):
        assert all(a < len(source.split()) and b < len(target.split()) for a, b in links.possible)
