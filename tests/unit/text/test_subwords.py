"""Text to ids and back: nothing is lost, nothing becomes a special id, and sampling is a function of its key."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text import subwords
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import BOS, EOS, PAD, UNK, VocabConfig, train_subwords

WORDS = [
    "ein",
    "eine",
    "Mann",
    "Männer",
    "Frau",
    "Straße",
    "Hund",
    "läuft",
    "sitzt",
    "größer",
    "kleiner",
    "unter",
    "über",
    "neben",
    "Hündchen",
    "Häuser",
]
TEXTS = [" ".join(WORDS[(i * k + 3 * k) % len(WORDS)] for k in range(1, 2 + i % 9)) for i in range(300)]


@pytest.fixture(scope="module")
def bpe() -> Subwords:
    return train_subwords(TEXTS, VocabConfig(size=340))


@pytest.fixture(scope="module")
def unigram() -> Subwords:
    """From words of many parts: of these, a unigram model learns parts."""
    parts = np.random.default_rng(4).choice(
        ["ein", "haus", "hünd", "chen", "straße", "größ", "er", "läuf", "t"], (900, 3)
    )
    return train_subwords(
        [" ".join(map("".join, rows)) for rows in parts.reshape(180, 5, 3)] + TEXTS,
        VocabConfig(kind="unigram", size=330),
    )


@pytest.fixture(params=["bpe", "unigram"])
def model(request: pytest.FixtureRequest) -> Subwords:
    found: Subwords = request.getfixturevalue(request.param)
    return found


def rows(model: Subwords, texts: list[str]) -> list[list[int]]:
    ids, offsets = model.encode(texts)
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


def drawn(model: Subwords, *key: int, rate: float = 0.1) -> list[int]:
    found: list[int] = model.sample(TEXTS[:17], rate, key).ids.tolist()
    return found


def test_every_text_is_one_row_that_ends_with_eos(model: Subwords) -> None:
    ids, offsets = model.encode(["ein Hund", "", "Straße"])
    assert (ids.dtype, offsets.dtype) == (np.uint16, np.int64)
    assert offsets[0] == 0
    assert offsets[-1] == len(ids)
    assert (ids[offsets[1:] - 1] == EOS).all()
    assert offsets[2] - offsets[1] == 1  # nothing but its EOS
    assert rows(model, ["ein Hund", "", "Straße"]) == [rows(model, [text])[0] for text in ["ein Hund", "", "Straße"]]


def test_no_texts_are_no_rows(model: Subwords) -> None:
    ids, offsets = model.encode([])
    assert (len(ids), offsets.tolist(), ids.dtype) == (0, [0], np.uint16)


@pytest.mark.parametrize("number", [1, 8, 9, 40])
def test_few_sentences_are_encoded_as_many_are(model: Subwords, number: int) -> None:
    assert model.encode(TEXTS[:number]).rows() == model.encode(TEXTS).rows()[:number]
    with pytest.raises(ValueError, match=rf"sentence {number} .*U\+D800"):
        model.encode([*TEXTS[:number], "Hund \ud800"])


def test_a_list_longer_than_one_call_is_encoded_whole(bpe: Subwords, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(bpe, TEXTS[:23])
    monkeypatch.setattr(subwords, "SENTENCES_PER_CALL", 5)
    assert rows(bpe, TEXTS[:23]) == whole


@pytest.mark.parametrize(
    "text",
    [
        "ein Hund",
        "zwei  Räume   hier",
        " vorn und hinten ",
        "\tTab\nZeile\r",
        "日本語 😀 Ωmega",
        "x\x00y",
        "",
        " ",
        "   ",
        "</s>",
        "<s> <pad> <unk>",
        "<0x41><0xC3>",
        "e\u0301",
        "\u200b\ufeff\u2028",
    ],
)
def test_decoding_gives_back_the_text(model: Subwords, text: str) -> None:
    assert model.decode(model.encode([text]).ids) == text


def test_the_one_character_that_does_not_come_back_is_sentencepieces_own_space(model: Subwords) -> None:
    assert model.decode(model.encode(["a▁b"]).ids) == "a b"


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁")))
def test_any_text_comes_back_and_none_becomes_a_special_id(bpe: Subwords, text: str) -> None:
    ids = bpe.encode([text]).ids
    assert not set(ids[:-1].tolist()) & {PAD, BOS, EOS, UNK}
    assert bpe.decode(ids) == text


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.one_of(st.sampled_from("einHud ßäö  "), st.characters(exclude_categories=["Cs"]))))
def test_spans_cover_the_text_from_left_to_right(bpe: Subwords, text: str) -> None:
    ids, spans = bpe.encode([text]).ids, bpe.spans(text)
    assert len(spans) == len(ids)
    assert spans[-1] == (len(text), len(text))
    reached = 0
    for token, span in zip(ids.tolist(), spans, strict=True):
        is_next_byte_of_the_same = bpe.piece(token).startswith("<0x") and span[1] == reached and span[0] < span[1]
        assert span[0] == reached or is_next_byte_of_the_same
        reached = span[1]
    assert reached == len(text)


def test_a_span_is_the_piece_with_its_space(bpe: Subwords) -> None:
    text = "ein Hund läuft"
    ids, spans = bpe.encode([text]).ids, bpe.spans(text)
    stands_for = [text[a:b] for a, b in spans]
    assert len(stands_for) > 3
    assert [bpe.piece(token).replace("▁", " ") for token in ids[1:-1].tolist()] == stands_for[1:-1]
    assert bpe.piece(int(ids[0])).lstrip("▁") == stands_for[0]  # the first space is not in the text


def test_every_byte_of_a_character_has_that_character(model: Subwords) -> None:
    text = "Mann 😀日"
    spans = model.spans(text)
    assert [text[a:b] for a, b in spans[-8:]] == ["😀"] * 4 + ["日"] * 3 + [""]


def test_decoding_ignores_specials_wherever_they_stand(model: Subwords) -> None:
    ids = model.encode(["ein Hund"]).ids.tolist()
    assert model.decode([BOS, *ids[:1], UNK, *ids[1:], PAD, PAD]) == "ein Hund"
    assert model.decode([BOS, EOS, PAD]) == ""


@pytest.mark.parametrize("token", [-1, 340])
def test_an_id_outside_the_vocabulary_is_refused(bpe: Subwords, token: int) -> None:
    with pytest.raises(ValueError, match=f"id {token} is not in the vocabulary: .* 339"):
        bpe.decode([5, token])
    with pytest.raises(ValueError, match=f"id {token} "):
        bpe.piece(token)


CALLS: dict[str, Callable[[Subwords, str], object]] = {
    "encode": lambda model, text: model.encode(["gut", text]),
    "sample": lambda model, text: model.sample(["gut", text], 0.1, (1,)),
    "spans": lambda model, text: model.spans(text),
}


@pytest.mark.parametrize("call", CALLS)
def test_half_a_character_is_refused_by_its_number(bpe: Subwords, call: str) -> None:
    with pytest.raises(ValueError, match=rf"sentence {0 if call == 'spans' else 1} .*U\+D800.*errors='replace'"):
        CALLS[call](bpe, "a\ud800b")


def test_half_a_character_beyond_the_first_call_has_its_own_number(
    bpe: Subwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subwords, "SENTENCES_PER_CALL", 5)
    with pytest.raises(ValueError, match="sentence 12 "):
        bpe.encode([*TEXTS[:12], "\udfff"])


def test_what_is_not_a_model_is_refused() -> None:
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        Subwords(b"not a model at all")


def test_it_survives_pickling(model: Subwords) -> None:
    assert rows(pickle.loads(pickle.dumps(model)), TEXTS[:9]) == rows(model, TEXTS[:9])


def test_sampling_is_a_function_of_its_key_for_many_batches_in_one_process(model: Subwords) -> None:
    first = [drawn(model, 7, batch) for batch in range(40)]
    assert [drawn(model, 7, batch) for batch in reversed(range(40))] == first[::-1]
    assert len({tuple(ids) for ids in first}) == 40
    assert drawn(model, 8, 3) != first[3]


def test_sampling_is_equal_in_another_process(model: Subwords, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(model.proto)
    code = (
        "import sys; from pathlib import Path; from dragoman.text.subwords import Subwords\n"
        "model = Subwords(Path(sys.argv[1]).read_bytes())\n"
        "print([model.sample(sys.argv[2:], 0.1, (7, batch)).ids.tolist() for batch in (11, 3)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model"), *TEXTS[:17]], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str([drawn(model, 7, 11), drawn(model, 7, 3)])


def test_sampled_pieces_still_spell_the_text(model: Subwords) -> None:
    texts = [*TEXTS[:40], "", "zwei  Räume ", "日本 😀\x00</s>"]
    ids, offsets = model.sample(texts, 0.2, (4, 4))
    assert (ids.dtype, offsets.dtype) == (np.uint16, np.int64)
    assert (ids[offsets[1:] - 1] == EOS).all()
    assert [model.decode(ids[a:b]) for a, b in pairwise(offsets)] == texts


def test_a_rate_that_is_no_share_is_refused(bpe: Subwords) -> None:
    with pytest.raises(ValueError, match=r"rate 1\.5 is out of range: give a number between 0 and 1"):
        bpe.sample(["ein"], 1.5, (1,))


def test_the_parts_of_a_key_do_not_run_together(bpe: Subwords) -> None:
    assert len({tuple(drawn(bpe, *key)) for key in [(1, 23), (12, 3), (123,), (1, 2, 3), (23, 1)]}) == 5


def test_a_pickled_model_samples_the_same(model: Subwords) -> None:
    drawn(model, 2, 9)
    assert drawn(pickle.loads(pickle.dumps(model)), 2, 9) == drawn(model, 2, 9)


def test_an_id_takes_two_bytes_until_the_vocabulary_passes_65536(
    bpe: Subwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bpe, "size", 65_536)
    assert bpe.encode(["ein"]).ids.dtype == np.uint16
    monkeypatch.setattr(bpe, "size", 65_537)
    assert bpe.encode(["ein"]).ids.dtype == np.int32
