"""Text in, translations out: as many as came in, in order, and each depends on its own text alone."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.bundle import open_bundle
from dragoman.decoding import torch_engine
from dragoman.decoding.options import EngineOptions, SamplingOptions, SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.models.build import build
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import EOS, PAD, Vocab, VocabConfig, train_vocab
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
NOUNS = ["dogs", "houses", "tables", "women"]
WORDS = [*NOUNS, "two", "three", "four", "ten", "red", "green", "old", ".", ",", "!", "a", "b"]


@pytest.fixture(scope="module", params=["v1", "v1-recurrent", "v1-convolutional"])
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


@pytest.mark.slow
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


def test_a_text_is_cleaned_as_the_training_text_was(golden: Translator) -> None:
    odd = ["\ufefftwo red dogs.", "two  red\tdogs. ", "two red dogs.\r", "two\u2028red dogs.", "two r\xaded dogs.\x00"]
    assert golden.translate(odd) == ["zwei rote Hunde."] * 5


def test_the_same_text_is_searched_for_once(golden: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(golden, monkeypatch)
    assert golden.translate(["two red dogs."] * 5 + [" two red dogs."]) == ["zwei rote Hunde."] * 6
    assert [len(lengths) for lengths in seen] == [1]


def parts_of(translator: Translator, text: str) -> list[str]:
    """Return the parts into which a text is cut, whose ids are those of the part alone."""
    encode = translator.vocab.source.encode
    parts = translator.cut(text, *encode([text]).rows())
    assert [ids for _, ids in parts] == encode([part for part, _ in parts]).rows()
    return [part for part, _ in parts]


def test_a_text_too_long_for_the_model_is_cut_at_spaces_and_nothing_is_lost(
    transformer: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    phrases = ["two red dogs.", "ten old houses.", "four green women."] * 30
    seen = counted(transformer, monkeypatch)
    text = " ".join(phrases)
    cut = parts_of(transformer, text)
    assert " ".join(cut) == text
    assert len(cut) > 5
    assert transformer.translate([text]) == [" ".join(transformer.translate(cut))]
    assert max(length for lengths in seen for length in lengths) <= 64


def test_a_word_too_long_for_the_model_is_cut_where_it_must_be(transformer: Translator) -> None:
    word = "abcdefgh" * 50
    cut = parts_of(transformer, word)
    assert "".join(cut) == word
    assert all(len(transformer.vocab.source.encode([piece]).ids) <= 64 for piece in cut)
    assert len(transformer.translate([word])) == 1


def test_a_text_that_just_fits_is_not_cut(transformer: Translator) -> None:
    text = "two " * 80
    while len(transformer.vocab.source.encode([text]).ids) != 64:
        text = text[:-1]
    assert parts_of(transformer, text) == [text]
    assert len(parts_of(transformer, f"{text}é")) == 2


def test_endless_text_is_kept_and_the_model_never_sees_it(golden: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(golden, monkeypatch)
    endless = "ab" * 500
    kept, dogs = golden.sentences([endless, "two red dogs."])
    assert (kept.text, kept.score, kept.kept) == (endless, 0.0, "repetition")
    assert (dogs.text, dogs.kept) == ("zwei rote Hunde.", None)
    assert [len(lengths) for lengths in seen] == [1]


def test_a_word_without_end_is_kept_inside_each_of_the_best_translations() -> None:
    demo = Translator.load("demo", EngineOptions(threads=1))
    word = "".join(random.Random(6).choices("abcdefghijklmnop", k=500))
    (found,) = replace(demo, options=demo.options.replace(num_best=3)).sentences([f"I see {word} today."])
    assert found.kept == "long word"
    assert len({hypothesis.text for hypothesis in found.hypotheses}) == 3
    assert all(f" {word} " in hypothesis.text for hypothesis in found.hypotheses)
    assert [segment.kept for segment in found.segments] == [None, "long word", None]


def test_a_sentence_of_two_hundred_words_is_translated() -> None:
    demo = Translator.load("demo", EngineOptions(threads=1, beam_size=1))
    text = " ".join(f"The {noun} number {i} is very {how}," for i, noun in enumerate(NOUNS) for how in WORDS[8:11] * 3)
    assert len(text.split()) > 200
    (found,) = demo.sentences([text])
    assert found.kept is None
    assert len(found.segments) == 1


def test_progress_counts_to_the_end(transformer: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_engine, "BATCH_TOKENS", 120)
    texts, reports = list(dict.fromkeys(sentences(15, 8))), list[tuple[int, int | None]]()
    transformer.translate(texts, lambda what, done, total=None, unit="": reports.append((done, total)))
    assert reports == [(done, len(texts)) for done in range(1, len(texts) + 1)]


def drawn(translator: Translator, texts: list[str], **options: object) -> list[str]:
    return replace(translator, sampling=SamplingOptions.model_validate(options)).translate(texts)


def test_a_sample_depends_on_its_seed_and_its_sentence_alone(golden: Translator) -> None:
    texts = list(dict.fromkeys(sentences(24, 8)))
    together = drawn(golden, texts, seed=3)
    assert drawn(golden, texts[::-1], seed=3) == together[::-1]
    assert [drawn(golden, [text], seed=3)[0] for text in texts[:5]] == together[:5]
    assert drawn(golden, texts, seed=4) != together


def test_a_sample_of_the_most_probable_token_is_the_greedy_translation(golden: Translator) -> None:
    texts = sentences(8, 6)
    greedy = replace(golden, options=golden.options.replace(beam_size=1)).translate(texts)
    assert drawn(golden, texts, top_k=1) == greedy
    assert drawn(golden, texts, temperature=1e-4) == greedy
    assert drawn(golden, texts, top_p=1e-6, seed=9) == greedy


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


def test_a_bundles_own_search_options_are_used_unless_another_beam_is_given() -> None:
    assert Translator.load(GOLDEN / "v1").options == SearchOptions(beam_size=3, stop="safe")
    assert Translator.load(GOLDEN / "v1", EngineOptions(beam_size=1)).options == SearchOptions(beam_size=1, stop="safe")


def test_threads_are_set_when_they_are_given() -> None:
    before = torch.get_num_threads()
    try:
        Translator.load(GOLDEN / "v1", EngineOptions(threads=1))
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
