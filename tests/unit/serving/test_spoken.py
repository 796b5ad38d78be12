"""What an engine process does with a batch: every sentence gets an answer or a reason."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bundle import demo_folder, open_bundle
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.engines import open_engine
from dragoman.decoding.options import SearchOptions
from dragoman.serving.piece import Wish
from dragoman.serving.spoken import NO_HEADS, Spoken, each_or_reason

DOGS, HOUSES, WOMEN = "two red dogs.", "ten old houses.", "four green women."


def spoken_of(folder: Path, name: str) -> Spoken:
    bundle = open_bundle(folder)
    options = SearchOptions.model_validate(bundle.info.search)
    engine = open_engine(bundle, options, "ctranslate2", 1, "float32").engine
    assert isinstance(engine, CTranslate2Engine)
    return Spoken(name, bundle, engine, "float32")


@pytest.fixture(scope="module")
def spoken(tiny: Path) -> Spoken:
    return spoken_of(tiny, "tiny")


def wish(**how: Any) -> Wish:
    return Wish("tiny", "", **how)


def texts(answers: Sequence[dict[str, Any]]) -> list[str]:
    return [answer["hypotheses"][0][0] for answer in answers]


@given(st.lists(st.sampled_from(["good", "mistaken", "broken", "index"]), min_size=1, max_size=9))
def test_of_any_batch_the_good_get_answers_and_each_of_the_others_its_own_reason(kinds: list[str]) -> None:
    reasons: dict[str, Exception] = {"mistaken": ValueError("m"), "broken": RuntimeError("b"), "index": IndexError()}
    asked = [f"{kind} {place}" for place, kind in enumerate(kinds)]

    def work(some: Sequence[str]) -> list[dict[str, Any]]:
        for text in some:
            if (kind := text.split()[0]) in reasons:
                raise reasons[kind]
        return [{"said": text} for text in some]

    expected = {
        "mistaken": {"wrong": "m", "mendable": True},
        "broken": {"wrong": "b", "mendable": False},
        "index": {"wrong": "IndexError", "mendable": False},
    }
    assert each_or_reason(work, asked) == [
        expected.get(kind, {"said": text}) for kind, text in zip(kinds, asked, strict=True)
    ]


@pytest.mark.parametrize("place", range(5))
def test_a_text_that_is_none_is_found_wherever_it_stands(spoken: Spoken, place: int) -> None:
    good = [DOGS, HOUSES, WOMEN, DOGS]
    alone = [spoken.answers([text], wish())[0] for text in good]
    answers = spoken.answers([*good[:place], "half \ud800", *good[place:]], wish())
    wrong = answers.pop(place)
    assert wrong["mendable"]
    assert "half" in wrong["wrong"] or "surrogate" in wrong["wrong"]
    assert texts(answers) == texts(alone)


def test_what_we_cannot_foresee_is_not_hidden() -> None:
    def work(_: Sequence[str]) -> list[dict[str, Any]]:
        raise TypeError("a mistake in the program")

    with pytest.raises(TypeError):
        each_or_reason(work, ["a", "b"])


def test_facts_are_the_bundles(spoken: Spoken, tiny: Path) -> None:
    bundle = open_bundle(tiny)
    assert spoken.facts.model_dump() == {
        "name": "tiny",
        "sha256": bundle.sha256,
        "source": "en",
        "target": "de",
        "title": "the one",
        "beam_size": 3,
        "formula": spoken.options.penalty.formula,
        "alpha": spoken.options.penalty.alpha,
        "aligns": True,
        "compute": "float32",
    }


def test_answers_are_translations_with_scores_and_lengths(spoken: Spoken) -> None:
    answers = spoken.answers([DOGS, HOUSES], wish())
    assert texts(answers) == ["zwei rote Hunde.", "zehn alte Häuser."]
    for answer in answers:
        ((_, score, log_probability),) = answer["hypotheses"]
        assert log_probability <= 0.0
        assert score <= 0.0
        assert answer["num_tokens"] >= 4
        assert set(answer) == {"hypotheses", "num_tokens"}


def test_several_are_given_best_first_with_a_beam_as_wide(spoken: Spoken) -> None:
    (answer,) = spoken.answers([DOGS], wish(num_best=5))
    found = answer["hypotheses"]
    assert len({text for text, _, _ in found}) == len(found) == 5
    assert [score for _, score, _ in found] == sorted((score for _, score, _ in found), reverse=True)
    assert found[0][0] == "zwei rote Hunde."


def test_tokens_sum_to_the_log_probability_of_what_they_spell(spoken: Spoken) -> None:
    for answer in spoken.answers([DOGS, WOMEN], wish(tokens=True)):
        text, _, log_probability = answer["hypotheses"][0]
        pieces, scores = zip(*answer["tokens"], strict=True)
        assert pieces[-1] == "</s>"
        assert "".join(pieces[:-1]).replace("▁", " ").strip() == text
        assert len(pieces) == answer["num_tokens"]
        assert sum(scores) == pytest.approx(log_probability, abs=1e-3)


def test_words_are_aligned_as_they_belong_together(spoken: Spoken) -> None:
    for answer in spoken.answers([DOGS, HOUSES], wish(alignment=True)):
        links = answer["alignment"]
        assert links == sorted(links)
        assert links
        assert all(0 <= source < 3 and 0 <= target < 3 for source, target in links)


def test_a_model_without_heads_says_so_to_each() -> None:
    demo = spoken_of(demo_folder(), "demo")
    assert not demo.facts.aligns
    assert (
        demo.answers(["A dog.", "A cat."], Wish("demo", "", alignment=True))
        == [{"wrong": NO_HEADS, "mendable": True}] * 2
    )


def test_a_translation_can_begin_as_given(spoken: Spoken) -> None:
    (free,) = spoken.answers([DOGS], wish())
    (begun,) = spoken.answers([DOGS], wish(prefix="vier", tokens=True))
    assert texts([begun])[0].startswith("vier")
    assert begun["num_tokens"] == 0  # who begins it is not the model
    assert begun["tokens"][-1][0] == "</s>"
    assert begun["hypotheses"][0][2] < free["hypotheses"][0][2]


def test_what_is_protected_comes_through(spoken: Spoken) -> None:
    (answer,) = spoken.answers(["two red {dogs}."], wish(protect=True, tokens=True))
    assert "{dogs}" in texts([answer])[0]
    assert answer["tokens"][-1][0] == "</s>"


@pytest.mark.parametrize(
    ("how", "beam_size", "formula", "alpha"),
    [
        ({}, 3, "gnmt", 0.6),
        ({"beam_size": 1}, 1, "gnmt", 0.6),
        ({"num_best": 7}, 7, "gnmt", 0.6),
        ({"num_best": 2}, 3, "gnmt", 0.6),
        ({"formula": "none"}, 3, "none", None),
        ({"formula": "length", "alpha": 2.0}, 3, "length", 2.0),
        ({"alpha": 0.0}, 3, "gnmt", 0.0),
    ],
)
def test_a_wish_changes_only_what_it_names(
    spoken: Spoken, how: dict[str, Any], beam_size: int, formula: str, alpha: float | None
) -> None:
    options = spoken._options(wish(**how))
    assert (options.beam_size, options.penalty.formula) == (beam_size, formula)
    assert alpha is None or options.penalty.alpha == alpha
    assert (options.max_length, options.stop) == (spoken.options.max_length, spoken.options.stop)


def test_without_a_penalty_the_score_is_the_log_probability(spoken: Spoken) -> None:
    (answer,) = spoken.answers([DOGS], wish(formula="none"))
    assert answer["hypotheses"][0][1] == pytest.approx(answer["hypotheses"][0][2])


@pytest.mark.parametrize("text", [" ", "x", "🙂", "dog " * 300, "\u202e", "a\0b"])
def test_odd_sentences_get_an_answer_whatever_is_wished(spoken: Spoken, text: str) -> None:
    for how in ({}, {"tokens": True}, {"alignment": True}, {"protect": True}, {"num_best": 3}):
        (answer,) = spoken.answers([text], wish(**how))
        assert answer["hypotheses"], (how, answer)
