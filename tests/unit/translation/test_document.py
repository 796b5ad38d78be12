"""A text's sentences are found, and its layout comes back exactly."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.translation.document import LONGEST_CLAUSE, LONGEST_FENCE, TextDocument, cut_clauses, keep_fences

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "documents" / "cases.yaml").read_text())
LANGUAGES = ["en", "de", "fr", "zh", "ja", "ar", "he", "hi", "ru", "es", "kk", "my", "hy", "en-US", "", "tlh", None]

WORDS = ["Tom", "came", "Who", "straße", "字", "дом"]
SEPARATORS = [
    " ",
    ". ",
    ".",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "!\n- ",
    ".\n  1) ",
    " | ",
    "|",
    ", ",
    "? ",
    "。",
    "\xa0",
    " (",
    ") ",
    "… ",
]

texts = st.text(st.characters(exclude_categories=["Cs"]))
tricky = st.text(st.sampled_from("aZé字 .!?。\"'()|-*1)\t\n\r\u2028\xa0\u3000🙂:/@{}<>%&;,"), max_size=60)


def of(case: dict[str, Any]) -> TextDocument:
    return TextDocument.of(case["text"], case.get("language", "en"))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_written_case_has_its_sentences_and_its_layout(case: dict[str, Any]) -> None:
    document, text = of(case), case["text"]
    assert list(document.sentences) == case["sentences"]
    assert document.join(document.sentences) == text
    shouted = document.join([sentence.upper() for sentence in document.sentences])
    assert layout(shouted, [sentence.upper() for sentence in case["sentences"]]) == layout(text, case["sentences"])


def layout(text: str, sentences: list[str]) -> list[str]:
    """What is left between the sentences."""
    left = []
    for sentence in sentences:
        before, found, text = text.partition(sentence)
        assert found
        left.append(before)
    return [*left, text]


def test_there_are_enough_cases_and_no_name_twice() -> None:
    names = [case["name"] for case in CASES]
    assert len(set(names)) == len(names) >= 40


@settings(max_examples=200, deadline=None)
@given(st.one_of(texts, tricky), st.sampled_from(LANGUAGES))
def test_sentences_put_back_give_the_text_byte_for_byte(text: str, language: str | None) -> None:
    document = TextDocument.of(text, language)
    assert document.join(document.sentences) == text
    lines = TextDocument.of_lines(text)
    assert lines.join(lines.sentences) == text


@settings(max_examples=200, deadline=None)
@given(st.one_of(texts, tricky), st.sampled_from(LANGUAGES))
def test_a_sentence_is_on_one_line_has_a_letter_and_no_white_space_around(text: str, language: str | None) -> None:
    for sentence in TextDocument.of(text, language).sentences:
        assert not re.search("[\n\r\t\x0b\x0c\x85\u2028\u2029]", sentence)
        assert sentence == sentence.strip()
        assert any(character.isalnum() for character in sentence)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SEPARATORS)), max_size=30))
def test_every_word_is_in_a_sentence_once_and_in_order(pieces: list[tuple[str, str]]) -> None:
    found = " ".join(TextDocument.of("".join(word + apart for word, apart in pieces), "en").sentences)
    assert re.findall(r"\w+", found) == [word for word, _ in pieces]


def test_a_line_of_five_thousand_words_is_cut_at_commas_and_no_word_is_lost() -> None:
    words = [f"word{number}{',' if number % 7 == 3 else ''}" for number in range(5_000)]
    text = f"  {' '.join(words)}.\n"
    document = TextDocument.of(text, "en")
    sizes = [len(sentence.split()) for sentence in document.sentences]
    assert " ".join(document.sentences).split() == text.split()
    assert max(sizes) <= LONGEST_CLAUSE
    assert min(sizes) >= LONGEST_CLAUSE / 2
    assert all(sentence.endswith(",") for sentence in document.sentences[:-1])
    assert document.join(document.sentences) == text


def test_a_long_sentence_is_cut_after_a_semicolon_rather_than_a_comma() -> None:
    words = [f"w{number}{',' if number % 5 == 4 else ''}" for number in range(52)]
    words[29] = "w29;"
    found = TextDocument.of(" ".join(words), "en").sentences
    assert [len(sentence.split()) for sentence in found] == [30, 22]
    assert found[0].endswith("w29;")


def test_a_long_sentence_is_not_cut_near_its_beginning() -> None:
    words = [f"w{number}{';' if number == 2 else ''}" for number in range(52)]
    assert [len(sentence.split()) for sentence in TextDocument.of(" ".join(words), "en").sentences] == [26, 26]


def test_numbers_and_times_are_not_cut() -> None:
    text = " ".join(["it was 1,000 at 10:30"] * 16)
    found = TextDocument.of(text, "en").sentences
    assert len(found) == 2
    assert " ".join(found) == text


def test_forty_words_stay_whole_and_one_more_does_not() -> None:
    text = " ".join(["word"] * LONGEST_CLAUSE)
    assert TextDocument.of(text, "en").sentences == (text,)
    assert [len(sentence.split()) for sentence in TextDocument.of(f"{text} more", "en").sentences] == [21, 20]


def test_long_text_without_spaces_is_cut_between_characters() -> None:
    found = TextDocument.of("字" * 200, "zh")
    assert [len(sentence) for sentence in found.sentences] == [68, 66, 66]
    commas = TextDocument.of("字" * 50 + "\uff0c" + "字" * 50, "zh")
    assert commas.sentences == ("字" * 50 + "\uff0c", "字" * 50)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "bb,", "ccc;", "dd:", "字", "ee\uff0c", "字\u3002"]), max_size=40), st.integers(1, 9)
)
def test_clauses_hold_every_word_once_and_none_too_many(words: list[str], longest: int) -> None:
    text = " ".join(words)
    spans = list(cut_clauses(text, 0, len(text), longest))
    assert " ".join(text[start:end] for start, end in spans).split() == words
    assert all(len(text[start:end].split()) <= longest for start, end in spans)


def test_a_translation_from_chinese_gets_the_space_that_chinese_has_not() -> None:
    document = TextDocument.of("你好。再见\uff01\n谢谢。", "zh")
    assert document.join(["Hello.", "Bye!", "Thanks."]) == "Hello. Bye!\nThanks."
    assert document.join(["您好。", "拜拜\uff01", "多谢。"]) == "您好。拜拜\uff01\n多谢。"
    assert TextDocument.of("Stop.Go now.", "en").join(["Halt.", "Geh nun."]) == "Halt.Geh nun."


def test_a_line_of_a_test_set_is_a_sentence_as_it_is() -> None:
    document = TextDocument.of_lines(" - One. Two.\t\r\n\n42\nthree\u2028four")
    assert document.sentences == (" - One. Two.\t\r", "42", "three\u2028four")
    assert document.join(["1", "2", "3"]) == "1\n\n2\n3"


def test_a_translation_too_many_or_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="1 translations for 2 sentences: give one translation per sentence"):
        TextDocument.of("One came. Two left.", "en").join(["Einer kam."])


def test_white_space_that_the_splitter_breaks_down_over_is_kept_from_it() -> None:
    assert TextDocument.of("A\xa0. B\u3000. C\u2003.", "en").sentences[0].startswith("A")


def test_a_line_that_the_splitter_breaks_down_over_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def segment(language: str, line: str) -> list[str]:
        raise panic if "bad" in line else KeyboardInterrupt

    monkeypatch.setattr("sentencex.segment", segment)
    assert TextDocument.of("- A bad line. Is it?\n", "en").sentences == ("A bad line. Is it?",)
    with pytest.raises(KeyboardInterrupt):
        TextDocument.of("Good line.", "en")


def test_half_a_character_is_left_to_the_encoding() -> None:
    text = "One came. Two \ud800 left."
    assert TextDocument.of(text, "en").sentences == (text,)


def test_code_between_fences_is_layout() -> None:
    text = "One.\n```sh\necho Hello there.\n```\nTwo.\n~~~\nThree.\n"
    assert TextDocument.of(text).sentences == ("One.", "Two.", "Three.")


def kept(lines: list[str]) -> list[str]:
    """The lines of code among the lines of a file."""
    found = list(keep_fences(enumerate(lines)))
    assert [key for key, _ in found] == list(range(len(lines)))
    assert [line.text if isinstance(line, TextDocument) else line for _, line in found] == lines
    return [line.text for _, line in found if isinstance(line, TextDocument)]


def test_lines_between_fences_are_kept() -> None:
    assert kept(["a", "```", "b", "```", "c"]) == ["```", "b", "```"]
    assert kept(["  ~~~~ x", "```", "~~~", "~~~~~ ", "c"]) == ["  ~~~~ x", "```", "~~~", "~~~~~ "]
    assert kept(["a ``` b", "```x``` y", "c"]) == []


def test_a_fence_without_an_end_keeps_nothing() -> None:
    assert kept(["a", "```", "b", "c"]) == []
    assert kept(["```", *["b"] * LONGEST_FENCE, "```", "c", "```"]) == ["```", "c", "```"]
