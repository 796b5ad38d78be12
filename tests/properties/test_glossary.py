"""Translations with a glossary: any terms, any texts."""

import json
import os
from functools import cache
from pathlib import Path

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dragoman.api import Model
from dragoman.translation.glossary import Glossary, find_uses
from dragoman.translation.verbatim import survives

WORDS = ["two", "red", "dogs", "ten", "old", "houses", "four", "green", "women", "Dogs", "house's"]
LAYOUT = [" ", "\n", "\n\n", "\t", ". ", " | ", "\n- "]
SPANS = ["{name}", "https://example.org/dogs", "%s", "<b>", "`old dogs`"]
NAUGHTY = [
    "\\", "(", "[a", "*", ".", "a|b", "(?i)x", "\\d+", "$&", "X1", "X2 X1", "\u202etest", "ﬃ", "İ", "ß", "\U0001f600",
    "</s>", "<unk>", "▁", "▁dogs", "e\u0301", "\u00a0", "%s", "{name}", "<b>", "'", "''", "dogs'", "--", "a" * 200,
]  # fmt: skip


def naughty_strings() -> list[str]:
    """Return our hostile terms, and the Big List of Naughty Strings where it is there."""
    path = Path(os.environ.get("DRAGOMAN_DATA", ".")) / "naughty" / "blns.json"
    return NAUGHTY + (json.loads(path.read_text(encoding="utf-8")) if path.is_file() else [])


@cache
def load_model() -> Model:
    return Model.load(Path(__file__).parents[1] / "golden" / "v1")


def make_glossary(terms: dict[str, str]) -> Glossary | None:
    try:
        return Glossary.of(terms)
    except ValueError:
        return None


texts = st.lists(st.sampled_from([*WORDS, *LAYOUT, *SPANS]), min_size=1, max_size=12).map("".join)
term = st.sampled_from(naughty_strings()) | st.text(max_size=8) | st.sampled_from(WORDS)


@settings(max_examples=60)
@given(texts, st.dictionaries(term, term, min_size=1, max_size=4))
def test_a_text_without_terms_is_translated_as_without_a_glossary(text: str, terms: dict[str, str]) -> None:
    glossary = make_glossary(terms)
    assume(glossary is not None)
    assert glossary is not None
    model = load_model()
    (plain,), (found,) = model.details(text, protect=True), model.details(text, protect=True, glossary=glossary)
    for before, after in zip(plain.sentences, found.sentences, strict=True):
        if not glossary.find(before.source):
            assert after == before
    if not any(glossary.find(sentence) for sentence in plain.document.sentences):
        assert found.text == plain.text


@settings(max_examples=60)
@given(texts, term.filter(bool))
@example("two red dogs", "\\")
@example("dogs dogs dogs", "X1")
@example("two red {name} dogs", "{name}")
def test_hostile_target_terms_keep_layout_and_protected_strings(text: str, target: str) -> None:
    glossary = make_glossary({"dogs": target, "house": target})
    assume(glossary is not None)
    (found,) = load_model().details(text, protect=True, glossary=glossary)
    assert len(found.text.split("\n")) == len(text.split("\n"))
    assert found.document.join([sentence.text for sentence in found.sentences]) == found.text
    (plain,) = load_model().details(text, protect=True)
    for before, after in zip(plain.sentences, found.sentences, strict=True):
        if survives(before.source, before.text):
            assert survives(after.source, after.text)
    for sentence in found.sentences:
        used = sum(term.used for term in sentence.terms)
        assert used <= len(find_uses(target.strip(), sentence.text))


@given(texts, st.dictionaries(term, term, min_size=1, max_size=4))
def test_matches_are_in_order_and_do_not_overlap(text: str, terms: dict[str, str]) -> None:
    glossary = make_glossary(terms)
    assume(glossary is not None)
    assert glossary is not None
    matches = glossary.find(text)
    ends = [0, *(match.end for match in matches)]
    assert all(end <= match.start < match.end for end, match in zip(ends, matches, strict=False))
    assert {match.source for match in matches} <= {source for source, _ in glossary.entries}
