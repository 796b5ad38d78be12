"""A model in an engine process: every sentence of a batch gets an answer or an error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bundle import open_bundle, write_bundle
from dragoman.bundle.writing import store_export
from dragoman.serving.engine_protocol import TranslationOptions
from dragoman.serving.model_worker import LoadedModel, ModelWorker, isolate_errors

DOGS, HOUSES, WOMEN = "two red dogs.", "ten old houses.", "four green women."


def open_worker(folder: Path, name: str) -> ModelWorker:
    return ModelWorker(LoadedModel.read(name, folder))


@pytest.fixture(scope="module")
def worker(tiny: Path) -> ModelWorker:
    return open_worker(tiny, "tiny")


def options(**how: Any) -> TranslationOptions:
    return TranslationOptions("tiny", "", **how)


def texts(answers: Sequence[dict[str, Any]]) -> list[str]:
    return [answer["hypotheses"][0]["text"] for answer in answers]


@given(st.lists(st.sampled_from(["good", "mistaken", "broken", "index"]), min_size=1, max_size=9))
def test_in_any_batch_each_bad_text_gets_its_error_and_the_others_their_answers(kinds: list[str]) -> None:
    reasons: dict[str, Exception] = {"mistaken": ValueError("m"), "broken": RuntimeError("b"), "index": IndexError()}
    texts_in = [f"{kind} {place}" for place, kind in enumerate(kinds)]

    def work(some: Sequence[str]) -> list[dict[str, Any]]:
        for text in some:
            if (kind := text.split()[0]) in reasons:
                raise reasons[kind]
        return [{"text": text} for text in some]

    expected = {
        "mistaken": {"error": "m", "is_user_error": True},
        "broken": {"error": "b", "is_user_error": False},
        "index": {"error": "IndexError", "is_user_error": False},
    }
    assert isolate_errors(work, texts_in) == [
        expected.get(kind, {"text": text}) for kind, text in zip(kinds, texts_in, strict=True)
    ]


@pytest.mark.parametrize("place", range(5))
def test_an_invalid_text_is_isolated_wherever_it_stands(worker: ModelWorker, place: int) -> None:
    good = [DOGS, HOUSES, WOMEN, DOGS]
    alone = [worker.translate([text], options())[0] for text in good]
    answers = worker.translate([*good[:place], "half \ud800", *good[place:]], options())
    wrong = answers.pop(place)
    assert wrong["is_user_error"]
    assert "half" in wrong["error"] or "surrogate" in wrong["error"]
    assert texts(answers) == texts(alone)


def test_a_programming_error_is_not_hidden() -> None:
    def work(_: Sequence[str]) -> list[dict[str, Any]]:
        raise TypeError("a mistake in the program")

    with pytest.raises(TypeError):
        isolate_errors(work, ["a", "b"])


def test_model_info_is_the_bundles(worker: ModelWorker, tiny: Path) -> None:
    bundle = open_bundle(tiny)
    assert worker.info.model_dump() == {
        "name": "tiny",
        "sha256": bundle.model_sha256,
        "source": "en",
        "target": "de",
        "sources": (),
        "targets": (),
        "title": "the one",
        "beam_size": 3,
        "formula": worker.search.penalty.formula,
        "alpha": worker.search.penalty.alpha,
        "aligns": True,
        "protects": True,
        "compute": "float32",
    }


def test_answers_are_translations_with_scores_and_lengths(worker: ModelWorker) -> None:
    answers = worker.translate([DOGS, HOUSES], options())
    assert texts(answers) == ["zwei rote Hunde.", "zehn alte Häuser."]
    for answer in answers:
        (best,) = answer["hypotheses"]
        assert best["log_probability"] <= 0.0
        assert best["score"] <= 0.0
        assert answer["num_tokens"] >= 4
        assert set(answer) == {"hypotheses", "num_tokens", "kept"}
        assert answer["kept"] is None


def test_endless_text_is_kept_with_a_reason_and_no_token(worker: ModelWorker) -> None:
    endless, (answer, _) = "ab" * 500, worker.translate(["ab" * 500, DOGS], options(tokens=True, alignment=True))
    assert answer["hypotheses"] == [{"text": endless, "score": 0.0, "log_probability": 0.0}]
    assert (answer["num_tokens"], answer["kept"]) == (0, "repetition")
    assert (answer["tokens"], answer["alignment"]) == ([], [])


def test_endless_text_with_a_prefix_is_an_error_of_the_user(worker: ModelWorker) -> None:
    (answer,) = worker.translate(["a" * 60 + " a" * 60], options(prefix="zwei"))
    assert answer["is_user_error"]


def test_several_are_given_best_first_with_a_beam_as_wide(worker: ModelWorker) -> None:
    (answer,) = worker.translate([DOGS], options(num_best=5))
    found = answer["hypotheses"]
    assert len({one["text"] for one in found}) == len(found) == 5
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0]["text"] == "zwei rote Hunde."


def test_tokens_sum_to_the_log_probability_of_what_they_spell(worker: ModelWorker) -> None:
    for answer in worker.translate([DOGS, WOMEN], options(tokens=True)):
        best = answer["hypotheses"][0]
        pieces = [token["piece"] for token in answer["tokens"]]
        assert pieces[-1] == "</s>"
        assert "".join(pieces[:-1]).replace("▁", " ").strip() == best["text"]
        assert len(pieces) == answer["num_tokens"]
        total = sum(token["log_probability"] for token in answer["tokens"])
        assert total == pytest.approx(best["log_probability"], abs=1e-3)


def test_words_are_aligned_as_they_belong_together(worker: ModelWorker) -> None:
    for answer in worker.translate([DOGS, HOUSES], options(alignment=True)):
        links = answer["alignment"]
        assert links == sorted(links)
        assert links
        assert all(0 <= source < 3 and 0 <= target < 3 for source, target in links)


def test_a_translation_can_begin_as_given(worker: ModelWorker) -> None:
    (free,) = worker.translate([DOGS], options())
    (begun,) = worker.translate([DOGS], options(prefix="vier", tokens=True))
    assert texts([begun])[0].startswith("vier")
    assert begun["num_tokens"] == 0  # the prefix is not the model's
    assert begun["tokens"][-1]["piece"] == "</s>"
    assert begun["hypotheses"][0]["log_probability"] < free["hypotheses"][0]["log_probability"]


def test_what_is_protected_comes_through(worker: ModelWorker) -> None:
    (answer,) = worker.translate(["two red {dogs}."], options(protect=True, tokens=True))
    assert "{dogs}" in texts([answer])[0]
    assert answer["tokens"][-1]["piece"] == "</s>"


def test_protection_is_on_by_default_and_goes_with_alignment_prefix_and_n_best(worker: ModelWorker) -> None:
    source = "two red {dogs}."
    (plain,) = worker.translate([source], options(protect=False))
    assert "{dogs}" not in texts([plain])[0]
    for how in ({}, {"alignment": True}, {"prefix": "zwei"}, {"prefix": "zwei", "alignment": True}, {"num_best": 3}):
        (answer,) = worker.translate([source], options(**how))
        assert all("{dogs}" in one["text"] for one in answer["hypotheses"]), how
        assert texts([answer])[0].startswith(how.get("prefix", ""))
        num_words = len(texts([answer])[0].split())
        assert all(i < 3 and j < num_words for i, j in answer.get("alignment", []))
    assert worker.translate([source], options(alignment=True))[0]["alignment"]


def test_a_translation_is_never_empty(worker: ModelWorker) -> None:
    (answer,) = worker.translate(["\u200b"], options(alignment=True))  # cleaning leaves nothing of it
    assert (texts([answer]), answer["kept"], answer["num_tokens"]) == (["\u200b"], "empty translation", 0)


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
def test_options_change_only_what_they_name(
    worker: ModelWorker, how: dict[str, Any], beam_size: int, formula: str, alpha: float | None
) -> None:
    found = worker.search_options(options(**how))
    assert (found.beam_size, found.penalty.formula) == (beam_size, formula)
    assert alpha is None or found.penalty.alpha == alpha
    assert (found.max_length, found.stop) == (worker.search.max_length, worker.search.stop)


def test_without_a_penalty_the_score_is_the_log_probability(worker: ModelWorker) -> None:
    (answer,) = worker.translate([DOGS], options(formula="none"))
    assert answer["hypotheses"][0]["score"] == pytest.approx(answer["hypotheses"][0]["log_probability"])


@pytest.mark.parametrize("text", [" ", "x", "🙂", "dog " * 300, "\u202e", "a\0b"])
def test_odd_sentences_get_an_answer_with_every_option(worker: ModelWorker, text: str) -> None:
    for how in ({}, {"tokens": True}, {"alignment": True}, {"protect": True}, {"num_best": 3}):
        (answer,) = worker.translate([text], options(**how))
        assert answer["hypotheses"], (how, answer)


def test_models_with_the_same_weights_and_other_cards_have_the_same_hash(tiny: Path, tmp_path: Path) -> None:
    bundle = open_bundle(tiny)
    card = bundle.card.model_copy(update={"title": "trained elsewhere, in another time"})
    write_bundle(tmp_path / "copy", bundle.info, bundle.weights(), bundle.vocab, card)
    copy = store_export(tmp_path / "copy", bundle.exports[0], b"")
    assert copy.sha256 != bundle.sha256
    assert open_worker(copy.folder, "a").info.sha256 == open_worker(tiny, "a").info.sha256
