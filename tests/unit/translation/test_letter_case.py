"""Text in capitals and titles is translated by its usual letter case."""

from pathlib import Path

import pytest
import sentencepiece as spm

from dragoman.alignment.engine_links import find_engine_links
from dragoman.api import Model
from dragoman.bundle import demo_folder, open_bundle
from dragoman.text.subwords import Subwords
from dragoman.translation.letter_case import restore_case, to_usual_case
from dragoman.translation.results import SentenceTranslation, TextHypothesis
from dragoman.translation.translator import Translator


@pytest.fixture(scope="module")
def english() -> Subwords:
    return open_bundle(demo_folder()).vocab.source


@pytest.fixture(scope="module")
def demo() -> Model:
    return Model(open_bundle(demo_folder()))


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("HELLO", "Hello"),
        ("WHERE IS MY CAR?", "Where is my car?"),
        ("I THINK I'M LATE, TOM!", "I think I'm late, Tom!"),
        ("DO YOU LIVE IN GERMANY OR THE USA?", "Do you live in Germany or the USA?"),
        ("OPEN {name} AT HTTP://EXAMPLE.COM NOW", "Open {name} at HTTP://EXAMPLE.COM now"),
        ("THE MP3 FILES ARE MISSING", "The MP3 files are missing"),
        ("Frequently Asked Questions", "Frequently asked questions"),
        ("How to Repair a Broken Window in Boston", "How to repair a broken window in Boston"),
    ],
)
def test_the_vocabulary_knows_the_usual_case(english: Subwords, text: str, usual: str) -> None:
    assert to_usual_case(text, english) == usual


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "I",
        "A 5",
        "USA",
        "PDF",
        "x",
        "Where is my car?",
        "He SAID no.",
        "Tom Jackson",
        "Tom loves Mary",
        "We met Rudi Petrov and Mika Lindgren.",
        "12:30",
        "ÜÇ",
    ],
)
def test_other_text_stays_as_it_is(english: Subwords, text: str) -> None:
    assert to_usual_case(text, english) == text


def test_a_vocabulary_that_knows_capitals_leaves_them_alone(tmp_path: Path) -> None:
    lines = ["WHERE IS THE DOG?", "THE DOG IS OLD.", "IS THE OLD DOG HERE?"] * 20
    capitals = tmp_path / "capitals"
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(capitals), vocab_size=45, model_type="bpe", pad_id=3
    )
    subwords = Subwords(capitals.with_suffix(".model").read_bytes())
    assert to_usual_case("WHERE IS THE OLD DOG?", subwords) == "WHERE IS THE OLD DOG?"


def test_only_capitals_come_back_in_capitals() -> None:
    hypotheses = (TextHypothesis("Die große {name}.", -1.0, -2.0), TextHypothesis("Das.", -2.0, -3.0))
    found = SentenceTranslation("The big {name}", hypotheses)
    capitals = restore_case("THE BIG {name}", found)
    assert (capitals.source, [each.text for each in capitals.hypotheses]) == (
        "THE BIG {name}",
        ["DIE GROSSE {name}.", "DAS."],
    )
    assert [each.score for each in capitals.hypotheses] == [-1.0, -2.0]
    assert restore_case("The Big {name}", found) == found._replace(source="The Big {name}")
    assert restore_case("The big {name}", found) is found


def test_the_translation_of_capitals_is_that_of_the_usual_case_in_capitals(demo: Model) -> None:
    usual = demo.translate("Where is my car? Please close the door.")
    assert demo.translate("WHERE IS MY CAR? PLEASE CLOSE THE DOOR.") == usual.upper().replace("ß", "SS")
    assert demo.translate("WHERE IS MY CAR?", protect=False) != "WO IST MEIN AUTO?"
    (text,) = demo.details("WHERE IS MY CAR?")
    assert text.sentences[0].source == "WHERE IS MY CAR?"


def test_links_are_those_of_the_usual_case(demo: Model) -> None:
    links_of = find_engine_links(demo.bundle, Translator.load(demo.bundle).engine)
    assert links_of is not None
    texts = ["PLEASE CLOSE THE DOOR.", "Please close the door."]
    capitals, usual = (
        list(links_of([text.document.text], [text.sentences[0].segments])) for text in demo.details(texts)
    )
    assert capitals == usual
    assert len(usual[0]) >= 3
