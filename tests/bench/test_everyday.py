"""The table of everyday texts is a development set of its own, and the script's typing errors are repeatable."""

import gzip
import importlib
import random
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"
COLUMNS = ["category", "training", "english", "german", "german_2"]
HEADER = "\t".join(COLUMNS) + "\n"
LINE = "Yesterday my neighbours visited {name} and wrote a very long letter to anna@example.org about their journey."


@pytest.fixture
def everyday(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("everyday")


def read_table(path: Path) -> list[dict[str, str]]:
    header, *rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    assert header == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


@pytest.fixture
def rows() -> list[dict[str, str]]:
    return read_table(BENCH / "everyday_dev.tsv")


def plain(text: str) -> str:
    """Return the text without case, spaces and punctuation."""
    return "".join(filter(str.isalnum, text.casefold())) or text


def test_the_table_has_100_different_texts(rows: list[dict[str, str]]) -> None:
    assert len(rows) == 100
    assert all(text == text.strip() != "" for row in rows for text in row.values())
    assert {row["training"] for row in rows} == {"seen", "new"}
    assert Counter(plain(row["english"]) for row in rows).most_common(1)[0][1] == 1


def test_references_in_capitals_belong_to_texts_in_capitals(rows: list[dict[str, str]]) -> None:
    for row in rows:
        is_upper = [row[column].isupper() for column in ("english", "german", "german_2")]
        assert is_upper == [row["category"] == "caps"] * 3


def test_no_text_is_in_the_test_set(rows: list[dict[str, str]], shared_data: Path) -> None:
    test_set = shared_data / "everyday-en-de" / "everyday.tsv"
    if not test_set.is_file():
        pytest.skip(f"{test_set} does not exist: there is no test set to compare with")
    tested = read_table(test_set)
    assert not {plain(row["english"]) for row in rows} & {plain(row["english"]) for row in tested}
    assert {row["category"] for row in rows} == {row["category"] for row in tested}


def test_seen_texts_are_those_of_the_training_corpora(rows: list[dict[str, str]], shared_data: Path) -> None:
    corpora = [shared_data / name / "train.en.gz" for name in ("tatoeba-en-de", "libreoffice-en-de")]
    absent = [str(path) for path in corpora if not path.is_file()]
    if absent:
        pytest.skip(f"{', '.join(absent)} not found: the column `training` cannot be checked")
    lines = {line for path in corpora for line in gzip.decompress(path.read_bytes()).decode().split("\n")}
    assert {row["english"] for row in rows if row["training"] == "seen"} == lines & {row["english"] for row in rows}


def test_a_line_always_has_the_same_typing_errors(everyday: ModuleType) -> None:
    first, again = ([everyday.add_typing_errors(LINE, number) for number in range(50)] for _ in range(2))
    assert first == again
    assert len(set(first)) > 40


def test_typing_errors_change_one_of_8_words_and_no_span_or_short_word(everyday: ModuleType) -> None:
    words, changed = LINE.split(" "), Counter[int]()
    for number in range(400):
        mistyped = everyday.add_typing_errors(LINE, number).split(" ")
        changed.update(place for place, pair in enumerate(zip(words, mistyped, strict=True)) if pair[0] != pair[1])
    assert changed.total() / 400 == pytest.approx(len(words) / 8, rel=0.1)
    long_words = {"Yesterday", "neighbours", "visited", "wrote", "very", "long", "letter", "about", "their", "journey."}
    assert {words[place] for place in changed} == long_words


def test_a_typing_error_changes_at_most_two_letters(everyday: ModuleType) -> None:
    results = {everyday.mistype("Book", random.Random(seed)) for seed in range(300)}
    assert "Book" not in results
    assert {"Bok", "Boko", "Boook"} < results
    assert all(result.startswith("B") and 3 <= len(result) <= 5 for result in results)


@pytest.mark.parametrize("content", ["", "english\tgerman\n", HEADER, HEADER + "word\tnew\tdog\tHund\n"])
def test_another_table_is_rejected(everyday: ModuleType, tmp_path: Path, content: str) -> None:
    (tmp_path / "texts.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"texts\.tsv"):
        everyday.read_texts(tmp_path / "texts.tsv")
