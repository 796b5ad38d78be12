"""Translations that use the terms of a glossary, with the built-in model on both engines."""

from dataclasses import replace

import pytest

from dragoman.alignment.engine_links import find_engine_links
from dragoman.api import Model
from dragoman.decoding.options import EngineOptions
from dragoman.translation.glossary import TermUse

pytestmark = pytest.mark.slow

SENTENCE = "I need a new printer for my office."


def test_a_term_that_the_model_does_not_know_is_used(demo: Model) -> None:
    (plain,) = demo.details(SENTENCE)
    (found,) = demo.details(SENTENCE, glossary={"printer": "Lichtsetzer"})
    assert "Lichtsetzer" not in plain.text
    assert found.text.split().count("Lichtsetzer") == 1
    assert found.terms == (TermUse("printer", "Lichtsetzer", True),)
    assert len(found.text.split()) <= len(plain.text.split()) + 2, "nothing is appended"


def test_a_term_that_is_there_changes_nothing(demo: Model) -> None:
    (plain,) = demo.details("The house is old.")
    (found,) = demo.details("The house is old.", glossary={"house": "Haus", "old": "alt", "boat": "Kahn"})
    assert found.text == plain.text
    assert found.sentences[0].segments == plain.sentences[0].segments
    assert found.terms == (TermUse("house", "Haus", True), TermUse("old", "alt", True))


def test_a_lower_case_term_has_a_capital_only_at_the_beginning(demo: Model) -> None:
    (found,) = demo.details("Yesterday I saw a dog.", glossary={"yesterday": "vortags"})
    assert found.terms[0].used
    assert found.text.startswith("Vortags") or " vortags" in found.text


def test_the_torch_engine_uses_the_alignment_heads() -> None:
    model = Model.load("demo", EngineOptions("torch"))
    assert find_engine_links(model.bundle, model.translator.engine) is not None
    (found,) = model.details(SENTENCE, glossary={"printer": "Lichtsetzer", "office": "Kontor"})
    assert [term.used for term in found.terms] == [True, True]
    assert found.text.index("Lichtsetzer") < found.text.index("Kontor")


def test_without_alignment_heads_there_are_no_links(demo: Model) -> None:
    bundle = replace(demo.bundle, info=demo.bundle.info.model_copy(update={"alignment_heads": ()}))
    assert find_engine_links(bundle, demo.translator.engine) is None


def test_protected_strings_and_layout_survive(demo: Model) -> None:
    text = "- The car costs {price} euros.\n\n\tSee https://example.com/car for the car!"
    (found,) = demo.details(text, glossary={"car": "Blechkiste"})
    first, blank, second = found.text.split("\n")
    assert first.startswith("- ")
    assert "{price}" in first
    assert blank == ""
    assert second.startswith("\t")
    assert "https://example.com/car" in second
    assert [term.source for term in found.terms] == ["car", "car"]


def test_all_of_several_best_translations_use_the_term(demo: Model) -> None:
    found = demo.translate(SENTENCE, num_best=3, glossary={"printer": "Lichtsetzer"})
    assert found
    assert all("Lichtsetzer" in hypothesis.text for hypothesis in found)
    scores = [hypothesis.score for hypothesis in found]
    assert scores == sorted(scores, reverse=True)


def test_a_glossary_needs_a_search_without_prefix(demo: Model) -> None:
    for options in ({"prefix": "Ich"}, {"sample": True}):
        with pytest.raises(ValueError, match="glossary"):
            demo.translate(SENTENCE, glossary={"printer": "Drucker"}, **options)
