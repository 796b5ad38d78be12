"""Links as lines of text, and what is said of a line that has none."""

import gzip
from pathlib import Path

import pytest

from dragoman.data.moses import Gold, read_gold, read_moses, to_moses


def test_moses_lines_are_written_as_they_are_read() -> None:
    lines = ["0-0 1-2 1-10 10-1", "", "3-4"]
    assert [to_moses(links) for links in read_moses(lines)] == lines


def test_links_are_sorted_and_told_once() -> None:
    (links,) = read_moses(["2-1 0-5  2-1\n"])
    assert links == {(0, 5), (2, 1)}
    assert to_moses(links) == "0-5 2-1"


@pytest.mark.parametrize("bad", ["0", "0-", "-1-2", "0_0", "1.0-2", "0-0-0", "0p0", "٣-٤"])
def test_what_is_no_link_is_refused_with_its_line(bad: str) -> None:
    with pytest.raises(ValueError, match=r"a\.align, line 2: .* is no link: write 0-0 1-2"):
        list(read_moses(["0-0", f"1-1 {bad}"], "a.align"))


def test_gold_counts_from_one_and_the_sure_are_possible_too() -> None:
    first, second = read_gold(["2-1 1p3 \n", ""])
    assert first == Gold(frozenset({(1, 0)}), frozenset({(1, 0), (0, 2)}))
    assert first.swapped() == Gold(frozenset({(0, 1)}), frozenset({(0, 1), (2, 0)}))
    assert second == Gold(frozenset(), frozenset())


def test_a_link_said_both_ways_is_sure() -> None:
    (gold,) = read_gold(["1p1 1-1 1p1"])
    assert gold.sure == gold.possible == {(0, 0)}


@pytest.mark.parametrize("bad", ["0-1", "1p0", "1s1", "1?1"])
def test_gold_that_cannot_be_read_is_refused_with_its_line(bad: str) -> None:
    with pytest.raises(ValueError, match=r"gold, line 1: .* is no link: write 1-1 for sure"):
        list(read_gold([f"1-1 {bad}"]))


def test_the_german_english_gold_fits_its_sentences(shared_data: Path) -> None:
    german, english, talp = (
        gzip.decompress((shared_data / "align-de-en" / f"{name}.gz").read_bytes()).decode().splitlines()
        for name in ("test.de", "test.en", "gold.talp")
    )
    gold = list(read_gold(talp))
    assert len(gold) == 508
    for said, source, target in zip(gold, german, english, strict=True):
        assert all(a < len(source.split()) and b < len(target.split()) for a, b in said.possible)
