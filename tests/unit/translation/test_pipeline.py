"""One stream: every translation comes back with its key, in order, however far ahead the pipeline reads."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest

from dragoman.translation import pipeline as file
from dragoman.translation.document import TextDocument
from dragoman.translation.pipeline import FIRST_WINDOW, Pipeline
from dragoman.translation.results import SentenceTranslation, TextHypothesis
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
TEXTS = ["two red dogs. ten old houses.", None, "", "three tables.", "***", None, "two red dogs.", "- four women.\n"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(GOLDEN / "v1")


def keyed(texts: Iterable[str | None]) -> Iterator[tuple[int, str | None]]:
    return enumerate(texts)


@pytest.mark.parametrize("protect", [False, True])
@pytest.mark.parametrize("window", [1, 2, 3, 5, 100])
def test_every_key_comes_back_with_its_own_translation(translator: Translator, window: int, protect: bool) -> None:
    found = list(Pipeline(translator, protect=protect, window=window).run(keyed(TEXTS)))
    assert [key for key, _ in found] == list(range(len(TEXTS)))
    alone = Pipeline(translator, protect=protect)
    for text, (_, translation) in zip(TEXTS, found, strict=True):
        assert (translation is None) == (text is None)
        if text is not None:
            assert translation.text == next(alone.translate([text])).text
    assert found[0][1].text == "zwei rote Hunde. zehn alte Häuser."


def test_nothing_gives_nothing(translator: Translator) -> None:
    assert list(Pipeline(translator).run([])) == []
    assert list(Pipeline(translator).run([], is_live=True)) == []
    assert list(Pipeline(translator).run([("a", None), ("b", None)])) == [("a", None), ("b", None)]


def test_windows_are_small_at_first_and_double_up_to_their_size(translator: Translator) -> None:
    sizes = [len(window) for window in Pipeline(translator, window=300).windows(keyed([""] * 1000))]
    assert sizes == [64, 128, 256, 300, 252]
    assert [len(window) for window in Pipeline(translator, window=4).windows(keyed([None] * 10))] == [4, 4, 2]


def test_two_windows_are_held_and_no_more(translator: Translator) -> None:
    read: list[int] = []
    endless = ((read.append(number) or number, "two red dogs.") for number in count())
    stream = Pipeline(translator, window=7).run(endless)
    next(stream)
    assert len(read) == 14  # while the first seven are waited for, the engine has the next
    list(islice(stream, 6))
    assert len(read) == 14
    next(stream)
    assert len(read) == 21


def test_a_window_of_one_is_translated_before_the_next_text_is_read(translator: Translator) -> None:
    read: list[str] = []
    texts = (read.append(text) or text for text in ["two red dogs.", "ten"])
    stream = Pipeline(translator, window=1).translate(texts)
    assert next(stream).text == "zwei rote Hunde."
    assert read == ["two red dogs."]


def test_a_text_of_many_sentences_stays_in_one_window(translator: Translator) -> None:
    text = "two red dogs. " * 200
    (window,) = Pipeline(translator, window=3).windows([("a", text)])
    assert window[0][1].text == "zwei rote Hunde. " * 200


def test_a_live_input_is_translated_as_soon_as_nothing_more_comes(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "PAUSE_S", 0.01)
    answered = threading.Event()

    def waiting() -> Iterator[tuple[int, str]]:
        for number in (1, 2):
            yield number, "two red dogs."
            assert answered.wait(10), "no answer came"
            answered.clear()

    keys = []
    for key, _ in Pipeline(translator).run(waiting(), is_live=True):
        keys.append(key)
        answered.set()
    assert keys == [1, 2]


def test_a_live_input_without_pauses_fills_its_windows(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "PAUSE_S", 5.0)
    sizes = [len(window) for window in Pipeline(translator).windows(keyed([""] * 500), is_live=True)]
    assert sizes == [64, 128, 256, 52]


def test_an_error_of_a_live_input_comes_after_what_was_read_before_it(translator: Translator) -> None:
    def broken() -> Iterator[tuple[int, str]]:
        yield 7, "two red dogs."
        raise ValueError("line 2 is wrong")

    stream = Pipeline(translator).run(broken(), is_live=True)
    assert next(stream)[0] == 7
    with pytest.raises(ValueError, match="line 2 is wrong"):
        next(stream)


def test_a_live_input_is_not_read_further_ahead_than_can_be_held(translator: Translator) -> None:
    read = 0

    def endless() -> Iterator[tuple[int, str]]:
        nonlocal read
        while True:
            read += 1
            yield read, ""

    stream = Pipeline(translator).run(endless(), is_live=True)
    assert [key for key, _ in islice(stream, 3)] == [1, 2, 3]
    assert read < 5_000


def test_progress_counts_texts_to_the_end(translator: Translator) -> None:
    reports: list[tuple[str, int]] = []
    pipeline = Pipeline(
        translator, window=6, progress=lambda what, done, total=None, unit="": reports.append((what, done))
    )
    list(pipeline.translate(["two red dogs. ten.", "", "ten old houses."] * (FIRST_WINDOW // 8)))
    assert {what for what, _ in reports} == {"translate"}
    counts = [done for _, done in reports]
    assert counts == sorted(counts)
    assert counts[-1] == 3 * (FIRST_WINDOW // 8)


def test_protection_is_the_models_unless_chosen(translator: Translator) -> None:
    text = "two red {dogs}."
    assert translator.protects
    off = replace(translator, protects=False)
    chosen = [(translator, None), (translator, False), (off, None), (off, True)]
    found = [next(Pipeline(model, protect=protect).translate([text])).text for model, protect in chosen]
    assert ["{dogs}" in one for one in found] == [True, False, False, True]


def test_empty_hypotheses_are_left_out_and_a_sentence_of_no_other_is_kept(translator: Translator) -> None:
    def sentence(source: str, *texts: str) -> SentenceTranslation:
        return SentenceTranslation(source, tuple(TextHypothesis(text, -1.0, -1.0) for text in texts))

    full, some, none = sentence("a", "b", "c"), sentence("a", "", "c"), sentence("a", "", " ")
    assert full.without_empty() == full
    assert [one.text for one in some.without_empty().hypotheses] == ["c"]
    assert [one.text for one in none.without_empty().hypotheses] == ["a"]
    assert [one.without_empty().kept for one in (full, some, none)] == [None, None, "empty translation"]
    assert sentence(" ", "").without_empty().text == ""
    (kept,) = Pipeline(translator, split=False).translate(["\u200b"])
    assert (kept.text, kept.sentences[0].kept) == ("\u200b", "empty translation")


def test_a_document_that_is_split_already_is_not_split_again(translator: Translator) -> None:
    code = TextDocument("two red dogs.", ())
    assert [text and text.text for _, text in Pipeline(translator).run(enumerate([code, None]))] == [code.text, None]
