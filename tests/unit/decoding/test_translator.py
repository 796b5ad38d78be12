"""Text in, translations out: as many as came in, in order, and each depends on its own text alone."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.bundle import open_bundle
from dragoman.data.vocab import EOS, PAD, Vocab
from dragoman.data.vocab_training import VocabConfig, train_vocab
from dragoman.decoding import torch_engine
from dragoman.decoding import translator as file
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.decoding.translator import Translator
from dragoman.models.build import build
from dragoman.models.seq2seq import Seq2Seq

GOLDEN = Path(__file__).parents[2] / "golden"
NOUNS = ["dogs", "houses", "tables", "women"]
WORDS = [*NOUNS, "two", "three", "four", "ten", "red", "green", "old", ".", ",", "!", "a", "b"]


@pytest.fixture(scope="module", params=["v1", "v1-recurrent"])
def golden(request: pytest.FixtureRequest) -> Translator:
    return Translator.load(GOLDEN / request.param)


@pytest.fixture(scope="module")
def transformer() -> Translator:
    """Takes sequences of 64 tokens."""
    return Translator.load(GOLDEN / "v1")


def sentences(count: int, longest: int = 12) -> list[str]:
    draw = random.Random(5)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


def counted(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The lengths of the sources of each batch that is searched."""
    seen: list[list[int]] = []

    def watched(model: object, rows: torch.Tensor, *others: object) -> object:
        assert model is translator.engine.model
        seen.append((rows != PAD).sum(dim=1).tolist())
        return beam_search(model, rows, *others)

    monkeypatch.setattr(torch_engine, "beam_search", watched)
    return seen


@pytest.mark.slow
def test_a_translation_does_not_depend_on_its_batch(golden: Translator) -> None:
    texts = sentences(24, 8)
    alone = [golden.translate([text])[0] for text in texts]
    assert len(set(alone)) > 12
    assert golden.translate(texts) == alone
    assert golden.translate(texts[::-1]) == alone[::-1]
    assert golden.translate(texts[7:12] + texts[:3]) == alone[7:12] + alone[:3]


def test_it_is_what_the_search_finds_for_the_ids(golden: Translator) -> None:
    ids = golden.vocab.source.encode(["ten old houses."]).ids.tolist()
    found = beam_search(golden.engine.model, torch.tensor([ids]), golden.options)[0].best
    assert golden.translate(["ten old houses."]) == [golden.vocab.target.decode(found.tokens)] == ["zehn alte Häuser."]


def test_batches_hold_like_lengths_within_their_budget_and_every_text_once(
    transformer: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_engine, "BATCH_TOKENS", 3 * 60)
    seen = counted(transformer, monkeypatch)
    texts = sentences(30, 8)
    transformer.translate(texts)
    assert len(seen) > 3
    assert all(len(lengths) * max(lengths) <= 60 for lengths in seen if len(lengths) > 1)
    flat = [length for lengths in seen for length in lengths]
    assert flat == sorted(flat, reverse=True)
    assert len(flat) == len(set(texts))


def test_what_holds_nothing_gives_nothing_and_the_model_never_sees_it(
    golden: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = counted(golden, monkeypatch)
    assert golden.translate(["", "   ", "\t\r\n", "\u2028", "\ufeff", "\xa0"]) == [""] * 6
    assert golden.translate([]) == []
    assert seen == []
    assert golden.translate(["", "two red dogs.", " "]) == ["", "zwei rote Hunde.", ""]


def test_a_text_is_mended_as_the_training_text_was(golden: Translator) -> None:
    odd = ["\ufefftwo red dogs.", "two  red\tdogs. ", "two red dogs.\r", "two\u2028red dogs.", "two r\xaded dogs.\x00"]
    assert golden.translate(odd) == ["zwei rote Hunde."] * 5


def test_the_same_text_is_searched_for_once(golden: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(golden, monkeypatch)
    assert golden.translate(["two red dogs."] * 5 + [" two red dogs."]) == ["zwei rote Hunde."] * 6
    assert [len(lengths) for lengths in seen] == [1]


def test_a_text_too_long_for_the_model_is_cut_at_spaces_and_nothing_is_lost(
    transformer: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    phrases = ["two red dogs.", "ten old houses.", "four green women."] * 30
    seen = counted(transformer, monkeypatch)
    text = " ".join(phrases)
    cut = transformer._pieces(text)
    assert " ".join(cut) == text
    assert len(cut) > 5
    assert transformer.translate([text]) == [" ".join(transformer.translate(cut))]
    assert max(length for lengths in seen for length in lengths) <= 64


def test_a_word_too_long_for_the_model_is_cut_where_it_must_be(transformer: Translator) -> None:
    word = "abcdefgh" * 50
    cut = transformer._pieces(word)
    assert "".join(cut) == word
    assert all(len(transformer.vocab.source.encode([piece]).ids) <= 64 for piece in cut)
    assert len(transformer.translate([word])) == 1


def test_a_text_that_just_fits_is_not_cut(transformer: Translator) -> None:
    text = "two " * 80
    while len(transformer.vocab.source.encode([text]).ids) != 64:
        text = text[:-1]
    assert transformer._pieces(text) == [text]
    assert len(transformer._pieces(f"{text}é")) == 2


def test_a_stream_is_read_window_by_window_and_keeps_order_and_number(golden: Translator) -> None:
    texts = ["", *sentences(15, 6), "", "two red dogs.", ""]
    read: list[str] = []

    def lines() -> Iterator[str]:
        for text in texts:
            read.append(text)
            yield text

    stream = golden.translate_iter(lines(), window=7)
    first = next(stream)
    assert len(read) == 14  # while the first seven are waited for, the engine has the next
    assert [first, *stream] == golden.translate(texts)


def test_who_gives_a_line_at_a_time_gets_its_translation_before_the_next_is_read(golden: Translator) -> None:
    read: list[str] = []
    stream = golden.translate_iter((read.append(text) or text for text in ["two red dogs.", "ten"]), window=1)
    assert next(stream) == "zwei rote Hunde."
    assert read == ["two red dogs."]


def test_windows_are_small_at_first_and_double_until_they_are_as_asked() -> None:
    lines = [str(number) for number in range(1000)]
    seen = [some for some, _ in file.windows(lines, 300)]
    assert [len(some) for some in seen] == [64, 128, 256, 300, 252]
    assert [line for some in seen for line in some] == lines
    assert [len(some) for some, _ in file.windows(lines[:10], 4)] == [4, 4, 2]


def test_progress_counts_to_the_end(transformer: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_engine, "BATCH_TOKENS", 120)
    texts, told = list(dict.fromkeys(sentences(15, 8))), list[tuple[int, int]]()
    transformer.translate(texts, lambda *now: told.append(now))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (len(texts), len(texts))
    told.clear()
    list(transformer.translate_iter(texts, 6, lambda *now: told.append(now)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (len(texts), len(texts))
    assert {read for _, read in told} == {6, 12, len(texts)}


@pytest.mark.parametrize("mode", [True, False], ids=["training", "evaluating"])
def test_a_live_model_is_evaluated_and_gets_its_mode_back(mode: bool) -> None:
    bundle = open_bundle(GOLDEN / "v1")
    model = build(bundle.info.model.model_copy(update={"dropout": 0.5}))
    model.load_state_dict(load_model(bundle).state_dict())
    model.train(mode)
    live = Translator(TorchEngine(model), bundle.vocab, SearchOptions(beam_size=3))
    assert live.translate(["ten old houses."]) == ["zehn alte Häuser."]
    assert {part.training for part in model.modules()} == {mode}
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_mode_comes_back_when_the_search_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = open_bundle(GOLDEN / "v1")
    model = load_model(bundle).train()
    with torch.no_grad():
        model.projection.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="scores are NaN"):
        Translator(TorchEngine(model), bundle.vocab).translate(["two"])
    assert model.training


def test_a_bundles_own_search_options_are_used_unless_another_beam_is_asked_for() -> None:
    assert Translator.load(GOLDEN / "v1").options == SearchOptions(beam_size=3, stop="safe")
    assert Translator.load(GOLDEN / "v1", beam_size=1).options == SearchOptions(beam_size=1, stop="safe")


def test_threads_are_set_when_they_are_asked_for() -> None:
    before = torch.get_num_threads()
    try:
        Translator.load(GOLDEN / "v1", threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module")
def bytes_only() -> Vocab:
    return train_vocab(["ab"], ["ab"], VocabConfig(size=266))


def test_a_line_break_that_a_model_writes_becomes_a_space(
    bigram: Callable[..., Seq2Seq[object, object]], bytes_only: Vocab
) -> None:
    """To a model a line break is a byte like any other; in a file it would move every line after it."""
    ids = {bytes_only.target.piece(token): token for token in range(bytes_only.target.size)}
    a, newline, back = ids["<0x61>"], ids["<0x0A>"], ids["<0x0D>"]
    table = {
        1: {a: 1.0},
        a: {back: 1.0},
        back: {newline: 1.0},
        newline: {ids["<0x62>"]: 1.0},
        ids["<0x62>"]: {EOS: 1.0},
    }
    first = bytes_only.source.encode(["b"]).ids.tolist()[0]
    model = bigram(*[table] * (first - 3), vocabulary=bytes_only.target.size)
    assert Translator(TorchEngine(model), bytes_only).translate(["b"]) == ["a b"]


@cache
def little_vocab() -> Vocab:
    """Most of a text becomes bytes."""
    return train_vocab(["a b"], ["c d"], VocabConfig(size=269, character_coverage=1.0))


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@example("   a  ")
@example("\u2581 \U0001f600")
def test_how_many_tokens_a_text_can_be_is_never_too_few(text: str) -> None:
    assert len(little_vocab().source.encode([text]).ids) <= file._most_tokens(text)
