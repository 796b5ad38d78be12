"""Augmentation: what is added to a corpus, and that the corpus itself stays."""

from collections import Counter
from itertools import product
from pathlib import Path

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from dragoman.data.augment import AugmentConfig, change_pairs, change_phrases, random_of
from dragoman.data.corpus import CorpusConfig
from dragoman.data.manifest import Prepared
from dragoman.data.phrases import mine_phrases
from dragoman.data.prepare import WORK, PrepareConfig, load_reports, prepare, settings_of
from dragoman.data.shards import Shard
from dragoman.data.text_changes import (
    TextPair,
    add_copied_string,
    add_typing_errors,
    to_title_case,
    to_upper_case,
)
from dragoman.text.cleaning import Problem
from dragoman.text.vocab import VocabConfig

ANIMALS = {"dog": "Hund", "cat": "Kater", "horse": "Gaul", "cow": "Stier", "bird": "Vogel", "fish": "Fisch"}
VERBS = {"sees": "sieht", "hears": "hört", "likes": "mag", "finds": "findet", "leads": "führt"}
ADVERBS = {"today": "heute", "often": "oft", "here": "hier", "never": "nie"}
STARTS = {"Today": "Heute", "Now": "Jetzt", "Then": "Dann"}
ARTICLES = {"a": "ein", "the": "der"}
SENTENCES = [
    TextPair(
        f"{start} {article} {animal} {verb} {number} dog {adverb}.",
        f"{STARTS[start]} {VERBS[verb]} {ARTICLES[article]} {ANIMALS[animal]} {ADVERBS[adverb]} {number} Hund.",
    )
    for number, (animal, verb, adverb, start, article) in enumerate(product(ANIMALS, VERBS, ADVERBS, STARTS, ARTICLES))
]


def write(folder: Path, name: str, pairs: list[TextPair], **changes: object) -> CorpusConfig:
    for side, suffix in enumerate(("en", "de")):
        (folder / f"{name}.{suffix}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    files = {"source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.de")}
    return CorpusConfig.model_validate({"name": name, **files, **changes})


def settings(*corpora: CorpusConfig, held_out: tuple[CorpusConfig, ...] = (), **augment: float) -> PrepareConfig:
    return PrepareConfig(
        corpora=corpora,
        held_out=held_out,
        vocabulary=VocabConfig(size=400),
        keep_text=True,
        augment=AugmentConfig(**augment),
        lines_per_chunk=170,
        pairs_per_shard=300,
    )


def texts(prepared: Prepared, corpus: int = 0) -> dict[TextPair, int]:
    """All pairs of a prepared corpus, with their lines."""
    found: dict[TextPair, int] = {}
    for info in prepared.manifest.corpora[corpus].shards:
        shard = Shard(prepared.folder / info.file)
        rows = pc.indices_nonzero([1] * shard.num_pairs).to_numpy().astype(int)
        pairs = map(TextPair, *(side.to_pylist() for side in shard.texts(rows)))
        found.update(zip(pairs, shard.lines(rows).tolist(), strict=True))
    return found


def test_capitals() -> None:
    pair = TextPair("where's the straße, Tom?", "wo ist die »straße«, Tom?")
    assert to_upper_case(pair) == ("WHERE'S THE STRASSE, TOM?", "WO IST DIE »STRASSE«, TOM?")
    assert to_title_case(pair) == ("Where's The Straße, Tom?", pair.target)
    assert to_title_case(TextPair("(an über-old  café)", "")).source == "(An Über-old  Café)"


@given(st.text(st.sampled_from("abcdeäß ,.'x-1"), max_size=60), st.integers(0, 1000))
def test_typing_errors_keep_target_and_words(text: str, seed: int) -> None:
    pair = TextPair(text, "Ziel")
    changed = add_typing_errors(pair, default_rng(seed))
    assert changed.target == "Ziel"
    words, before = changed.source.split(), text.split()
    assert len(words) == len(before)
    wrong = sum(a != b for a, b in zip(words, before, strict=True))
    assert wrong <= max(1, round(len(before) / 8))
    assert all(abs(len(a) - len(b)) <= 2 for a, b in zip(words, before, strict=True))


def test_typing_errors_change_something() -> None:
    pair = TextPair("We would like another table near the window please", "Ziel")
    changed = [add_typing_errors(pair, default_rng(seed)).source.lower() for seed in range(50)]
    assert pair.source.lower() not in changed[:10]
    assert len(set(changed)) > 30


def test_a_shared_name_or_number_is_replaced_on_both_sides() -> None:
    for seed in range(20):
        source, target = add_copied_string(
            TextPair("So Tom, who is Ann's son?", "Wessen Sohn ist Tom?"), default_rng(seed)
        )
        (name,) = set(target.removesuffix("?").split()) - {"Wessen", "Sohn", "ist"}
        assert name != "Tom"
        assert source == f"So {name}, who is Ann's son?"
        source, target = add_copied_string(TextPair("about 25 cars", "etwa 25 Autos"), default_rng(seed))
        number = source.split()[1]
        assert number.isdecimal()
        assert len(number) == 2
        assert target == f"etwa {number} Autos"


def test_without_a_shared_word_a_string_follows_both_sides() -> None:
    ends = set()
    for seed in range(40):
        source, target = add_copied_string(TextPair("Hi Tom and Tom!", "Na, Tom und Tom!"), default_rng(seed))
        (end,) = source.removeprefix("Hi Tom and Tom! ").split()
        assert target == f"Na, Tom und Tom! {end}"
        ends.add("emoji" if not end.isascii() else "number" if end.isdecimal() else "address")
    assert ends == {"emoji", "number", "address"}


def test_about_the_configured_share_is_changed() -> None:
    pairs = [TextPair(f"this is line {i}", f"das ist zeile {i}") for i in range(4000)]
    config = AugmentConfig(upper_case=0.1, typing_errors=0.05)
    added = list(change_pairs(pairs, config, random_of("train", 0)))
    upper = [pair for pair in added if pair.source.isupper()]
    assert len(upper) == pytest.approx(400, abs=80)
    assert len(added) - len(upper) == pytest.approx(200, abs=60)
    assert all(pair.source == pairs[pair.rows[0]].source.upper() for pair in upper)
    assert added == list(change_pairs(pairs, config, random_of("train", 0)))
    assert added != list(change_pairs(pairs, config, random_of("train", 1)))
    assert added != list(change_pairs(pairs, config, random_of("other", 0)))


def test_a_copy_that_changes_nothing_is_left_out() -> None:
    pairs = [TextPair("A 1", "B 2"), TextPair("", "")]
    everything = AugmentConfig(upper_case=1, title_case=1, typing_errors=1)
    for chunk in range(20):
        added = list(change_pairs(pairs, everything, random_of("train", chunk)))
        assert {*added} <= {((0,), "a 1", "B 2")}


def test_joined_pairs_are_two_to_six_pairs_one_after_the_other() -> None:
    pairs = [TextPair(f"this is {i}", f"dies ist {i}") for i in range(500)]
    added = list(change_pairs(pairs, AugmentConfig(joined=0.2), random_of("train", 0)))
    assert len(added) == 100
    assert {len(pair.rows) for pair in added} == {2, 3, 4, 5, 6}
    for rows, source, target in added:
        assert source == " ".join(f"this is {row}" for row in rows)
        assert target == " ".join(f"dies ist {row}" for row in rows)
    assert not list(change_pairs(pairs[:1], AugmentConfig(joined=1), random_of("train", 0)))


def test_joined_pairs_leave_other_changes_as_they_were() -> None:
    pairs = [TextPair(f"this is line {i}", f"das ist zeile {i}") for i in range(300)]
    before = list(change_pairs(pairs, AugmentConfig(typing_errors=0.1), random_of("train", 0)))
    after = list(change_pairs(pairs, AugmentConfig(typing_errors=0.1, joined=0.1), random_of("train", 0)))
    assert after[: len(before)] == before


def test_phrases_are_words_and_neighbours_with_their_translations() -> None:
    phrases = mine_phrases(*(list(side) for side in zip(*SENTENCES, strict=True)))
    found = dict(phrases)
    assert len(found) == len(phrases)
    assert {word: found.get(word) for word in ANIMALS} == ANIMALS
    assert {word: found.get(word) for word in VERBS} == VERBS
    assert found["a dog"] == "ein Hund"
    assert found["today"] == "heute", "the usual capitals, not those of the start of a line"
    assert not any(mark in text for pair in phrases for text in pair for mark in ".,")
    assert not any(phrase.isdecimal() for phrase in found)


def test_changed_phrases_are_more_frequent_than_changed_sentences() -> None:
    phrases = [TextPair(f"word {'x' * i}", "wort") for i in range(400)]
    added = list(change_phrases(phrases, AugmentConfig(upper_case=0.1, copied=1.0), random_of("t", 0)))
    assert len(added) == pytest.approx(200, abs=60)
    assert all(pair.source.isupper() for pair in added)


def test_prepared_pairs_stay_and_copies_are_added(tmp_path: Path) -> None:
    corpus = write(tmp_path, "train", SENTENCES)
    plain = prepare(settings(corpus), tmp_path / "plain")
    config = settings(corpus, upper_case=0.2, title_case=0.1, typing_errors=0.1, copied=0.1, phrases=0.05)
    prepared = prepare(config, tmp_path / "out")
    before, after = texts(plain), texts(prepared)
    assert before.items() <= after.items()
    added = after.keys() - before.keys()
    assert prepared.manifest.corpora[0].num_added == len(added)
    assert prepared.manifest.counts == {"read": 720, "stayed": 720}
    upper = [pair for pair in added if pair.source.isupper() and after[pair] < 720]
    assert len(upper) == pytest.approx(144, abs=50)
    assert all(pair == to_upper_case(SENTENCES[after[pair]]) for pair in upper), "a copy has the line of its pair"
    mined = mine_phrases(*map(list, zip(*SENTENCES, strict=True)))
    assert len([pair for pair in mined if after.get(pair, 0) >= 720]) == 36
    assert load_reports(tmp_path / "plain") == load_reports(tmp_path / "out")
    assert (tmp_path / "plain" / "vocab.model").read_bytes() == (tmp_path / "out" / "vocab.model").read_bytes()


@pytest.mark.slow
def test_the_same_bytes_after_an_interruption_and_with_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write(tmp_path, "train", SENTENCES)
    config = settings(corpus, upper_case=0.2, copied=0.1, phrases=0.05)
    once = prepare(config, tmp_path / "once", num_workers=2).manifest
    with monkeypatch.context() as patch:
        patch.setattr("dragoman.data.prepare.gather_shard", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prepare(config, tmp_path / "twice")
    assert (tmp_path / "twice" / WORK).exists()
    patch = pytest.MonkeyPatch()
    patch.setattr("dragoman.data.prepare.mine_phrases", lambda *_: 1 / 0)  # mined already
    again = prepare(config, tmp_path / "twice").manifest
    patch.undo()
    assert [info.sha256 for info in again.files] == [info.sha256 for info in once.files]


def test_duplicate_copies_are_not_reported_as_duplicates(tmp_path: Path) -> None:
    pairs = [
        *SENTENCES[:200],
        TextPair("a dog", "ein Hund"),
        TextPair("A DOG", "EIN HUND"),
        TextPair("A dog", "Ein Hund"),
    ]
    prepared = prepare(settings(write(tmp_path, "train", pairs), upper_case=1.0), tmp_path / "out")
    assert Counter(pair.source for pair in texts(prepared))["A DOG"] == 1
    assert prepared.manifest.counts == {"read": 203, "stayed": 203}
    assert prepared.manifest.corpora[0].num_added == 200
    assert Problem.DUPLICATE not in load_reports(tmp_path / "out")["train"].counts


def test_tagged_corpora_are_not_augmented_and_held_out_phrases_not_added(tmp_path: Path) -> None:
    corpus = write(tmp_path, "train", SENTENCES)
    tagged = write(tmp_path, "synthetic", SENTENCES[:300], tag="<BT>")
    dev = write(tmp_path, "dev", [TextPair("Dog", "Hund")])
    prepared = prepare(settings(tagged, corpus, held_out=(dev,), upper_case=0.5, phrases=0.1), tmp_path / "out")
    assert [bool(part.num_added) for part in prepared.manifest.corpora] == [False, True]
    found = {pair.source for pair in texts(prepared, 1)}
    assert "dog" not in found
    assert "cat" in found


def test_phrases_stay_in_their_language(tmp_path: Path) -> None:
    loud = [TextPair(pair.source, pair.target.upper()) for pair in SENTENCES]
    corpora = [
        write(tmp_path, "quiet", SENTENCES, target_language="de"),
        write(tmp_path, "loud", loud, target_language="fr"),
    ]
    prepared = prepare(settings(*corpora, phrases=0.1), tmp_path / "out")
    assert all(part.num_added for part in prepared.manifest.corpora)
    quiet, loud = (texts(prepared, number) for number in (0, 1))
    assert not any(pair.target.isupper() for pair in quiet)
    assert all(pair.target.isupper() for pair in loud)


def test_folders_without_augmentation_have_the_settings_they_always_had(tmp_path: Path) -> None:
    corpus = write(tmp_path, "train", SENTENCES)
    assert "augment" not in settings_of(settings(corpus))["config"]
    assert "augment" in settings_of(settings(corpus, copied=0.1))["config"]
