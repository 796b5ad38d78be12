"""Glossaries: reading, checks, and the terms that are found in sources and translations."""

from pathlib import Path

import pytest

from dragoman.translation.glossary import LONGEST_TERM, Glossary, TermUse, find_uses, judge_terms


def sources(glossary: Glossary, sentence: str) -> list[str]:
    """Return the text of the sentence at each match."""
    return [sentence[match.start : match.end] for match in glossary.find(sentence)]


def test_a_file_has_a_source_term_and_a_target_term_per_line(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes("\ufeffbank\tKreditinstitut\r\n\r\nhard disk \t Festplatte\n".encode())
    assert Glossary.read(path).entries == (("bank", "Kreditinstitut"), ("hard disk", "Festplatte"))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("bank\tBank\nbank\tUfer\n", 2),
        ("bank\tBank\n\nhard  disk\tPlatte\nhard disk\tScheibe\n", 4),
        ("bank\n", 1),
        ("bank\tBank\tUfer\n", 1),
        ("car\tAuto\nbank\t \n", 2),
        ("\tBank\n", 1),
        ("\u200b\tBank\n", 1),
        (f"{'a' * (LONGEST_TERM + 1)}\tBank\n", 1),
        ("car\tAu\x85to\n", 1),
    ],
)
def test_an_invalid_line_is_named(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{path}, line {line}: "):
        Glossary.read(path)


def test_a_file_that_is_not_utf8_or_empty_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes("bank\tGesch\xe4ft\n".encode("latin-1"))
    with pytest.raises(ValueError, match="line 1"):
        Glossary.read(path)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match="empty"):
        Glossary.read(path)
    with pytest.raises(ValueError, match="no such file"):
        Glossary.read(tmp_path / "other.tsv")


def test_a_mapping_is_checked_too() -> None:
    assert Glossary.of({"bank": "Bank "}).entries == (("bank", "Bank"),)
    for wrong in ({"": "a"}, {"a": " "}, {"a": "b\nc"}, {"a": "\ud800"}, {"\udc00": "b"}, {"\u200b": "b"}):
        with pytest.raises(ValueError, match="term 1: "):
            Glossary.of(wrong)


@pytest.mark.parametrize(
    ("term", "sentence", "expected"),
    [
        ("bank", "The bank is shut. Bank!", ["bank", "Bank"]),
        ("bank", "Banks, the bank's and the bank\u2019s door", ["Banks", "bank's", "bank\u2019s"]),
        ("box", "Two boxes", ["boxes"]),
        ("bank", "An embankment, a banker, bankses, bank_1", []),
        ("US", "Tell us about the US", ["US"]),
        ("Apple", "an apple from Apple", ["Apple"]),
        ("hard disk", "A hard  disk and Hard Disks; hard-disk", ["hard  disk", "Hard Disks"]),
        ("C++", "I like C++. And C.", ["C++"]),
        ("e-mail", "Send e-mails to e - mail", ["e-mails"]),
        ("it", "its items, it", ["it"]),
        ("プリンター", "新しいプリンターを買う", ["プリンター"]),
        ("bank", "See https://bank.example.org, {bank}, `bank` and <bank>", []),
    ],
)
def test_whole_words_match_with_plurals_and_genitives(term: str, sentence: str, expected: list[str]) -> None:
    assert sources(Glossary.of({term: "x"}), sentence) == expected


def test_the_longest_term_counts() -> None:
    glossary = Glossary.of({"bank": "Bank", "bank account": "Bankkonto", "account number": "Kontonummer"})
    found = glossary.find("a bank account number and a bank")
    assert [match.source for match in found] == ["bank account", "bank"]


@pytest.mark.parametrize(
    ("target", "text", "count"),
    [
        ("Drucker", "Ein Drucker, zwei Druckern.", 2),
        ("Drucker", "Der Druckertreiber und das Drucken, drucker.", 0),
        ("Kasse", "Die Kassen", 1),
        ("neue Adresse", "mit neuer Adresse, der neuen Adressen", 2),
        ("schnell", "Schnell! Das ist schnell. Er heißt Schnell.", 2),
        ("PDF", "die PDFs, pdf", 1),
        ("C++", "C++ und C+++", 2),
        ("ab", "abc ab", 1),
        ("打印机", "新打印机很好", 1),
    ],
)
def test_uses_of_a_term_may_be_inflected(target: str, text: str, count: int) -> None:
    assert len(find_uses(target, text)) == count


def test_a_term_must_be_used_as_often_as_it_occurs() -> None:
    glossary = Glossary.of({"car": "Wagen", "auto": "Wagen", "bus": "Bus"})
    uses = judge_terms(glossary.find("A car, an auto and a bus."), "Ein Wagen und ein Bus.")
    assert uses == (TermUse("car", "Wagen", True), TermUse("auto", "Wagen", False), TermUse("bus", "Bus", True))


def test_the_hash_depends_on_the_terms() -> None:
    hashes = {Glossary.of(terms).sha256 for terms in ({"a": "b"}, {"a": "c"}, {"a": "b", "c": "d"})}
    assert len(hashes) == 3
