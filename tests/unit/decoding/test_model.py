"""What `dragoman.load` gives: texts in and out with their layout, in a stream or not, and answers about them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count, islice, repeat
from pathlib import Path

import pytest
import yaml

import dragoman
from dragoman.bundle import Bundle, Proof, demo_folder
from dragoman.data.vocab import BOS, EOS, PAD
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.document import Document
from dragoman.decoding.model import Model
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.decoding.translator import FIRST_WINDOW, Translator

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = yaml.safe_load((Path(__file__).parent / "documents" / "cases.yaml").read_text())
ENGLISH = [case for case in CASES if case.get("language", "en") == "en"]
TEXT = "Two red dogs. Ten old houses!\r\n\r\n  - four green women.  three tables.\n\t1) two dogs\n\n***\n"
TOGETHER = {"num_best": 3, "beam_size": 3}


@pytest.fixture(scope="module")
def small(exported: Callable[[Path], Bundle]) -> Model:
    """Knows a few words, takes 64 tokens, and is as fast as a model can be."""
    bundle = exported(GOLDEN / "v1")
    engine = CTranslate2Engine.load(bundle, threads=1)
    return Model(Translator(engine, bundle.vocab, SearchOptions(beam_size=3)), "en")


@pytest.fixture(scope="module")
def both(exported: Callable[[Path], Bundle]) -> tuple[Model, Model]:
    """The demo on each engine."""
    bundle, options = exported(demo_folder()), SearchOptions.model_validate(TOGETHER)
    engines = (CTranslate2Engine.load(bundle, threads=1), TorchEngine.load(bundle))
    first, second = (Model(Translator(engine, bundle.vocab, options), "en") for engine in engines)
    return first, second


def test_a_text_is_translated_sentence_by_sentence_and_keeps_its_layout(small: Model) -> None:
    document = Document.of(TEXT, "en")
    alone = [small.translate(sentence) for sentence in document.sentences]
    assert len(alone) == 5
    assert small.translate(TEXT) == document.joined(alone)
    assert small.translate("- two red dogs.") == "- zwei rote Hunde."


def test_a_list_gives_a_list_and_a_text_a_text(small: Model) -> None:
    texts = ["two red dogs.", "", TEXT, " \n", "two red dogs. two red dogs."]
    assert small.translate(texts) == [small.translate(text) for text in texts]
    assert small.translate(tuple(texts)) == small.translate(iter(texts)) == small.translate(texts)
    assert small.translate([]) == []
    assert small.translate("") == ""
    assert small.translate("two red dogs. two red dogs.") == "zwei rote Hunde. zwei rote Hunde."


def test_without_splitting_a_line_is_what_the_translator_makes_of_it(small: Model) -> None:
    lines = ["two red dogs. ten old houses.", "  - two red dogs. ", "", "  ", "42", "two\u2028red dogs.\r"]
    assert small.translate(lines, split=False) == small.translator.translate(lines)
    assert small.translate("\n".join(lines[:3]), split=False) == "\n".join(small.translator.translate(lines[:3]))


def test_a_stream_gives_the_same_in_the_same_order(small: Model) -> None:
    texts = [("two red dogs. " * (number % 4) + f"{number} old houses.") if number % 5 else "" for number in range(50)]
    expected = [small.translate(text) for text in texts]
    assert len(set(expected)) > 10
    for window in (1, 7, 2048):
        assert list(small.translate_iter(texts, window=window)) == expected


def test_a_stream_reads_no_further_than_it_must(small: Model) -> None:
    read = []

    def texts() -> Iterator[str]:
        for number in count():
            read.append(number)
            yield "two red dogs. ten old houses."

    assert next(small.translate_iter(texts(), window=FIRST_WINDOW)) == "zwei rote Hunde. zehn alte Häuser."
    assert len(read) == FIRST_WINDOW, "two windows of sentences, two sentences a text"


@pytest.mark.parametrize("protect", [False, True])
def test_texts_with_nothing_in_them_come_out_too_before_the_end(small: Model, protect: bool) -> None:
    assert list(islice(small.translate_iter(repeat(" - \n"), protect=protect), 1000)) == [" - \n"] * 1000


def test_whoever_types_gets_an_answer_to_each_line(small: Model) -> None:
    read = []
    answers = small.translate_iter((read.append(line) or line for line in ["two dogs. ten dogs.", "", "two"]), window=1)
    for number, _ in enumerate(answers, 1):
        assert len(read) == number


def test_progress_counts_texts(small: Model) -> None:
    told: list[tuple[int, int]] = []
    texts = ["two red dogs. ten old houses.", "", "three tables."] * 60
    list(small.translate_iter(texts, progress=lambda *now: told.append(now)))
    assert told == sorted(told)
    assert told[-1] == (180, 180)
    assert all(done <= read <= 180 for done, read in told)
    assert len({done for done, _ in told}) > 3


def test_details_have_each_sentence_and_its_scores(both: tuple[Model, Model]) -> None:
    for model in both:
        first, nothing = model.details(["- Good morning. Thank you!\n", "***"])
        assert [one.source for one in first.sentences] == ["Good morning.", "Thank you!"]
        assert first.text == f"- {first.sentences[0].text} {first.sentences[1].text}\n"
        assert (nothing.text, nothing.sentences) == ("***", ())
        for one in first.sentences:
            assert len(one.hypotheses) == 3
            assert (one.text, one.score) == (one.hypotheses[0].text, one.hypotheses[0].score)
            assert [other.score for other in one.hypotheses] == sorted((o.score for o in one.hypotheses), reverse=True)
            assert one.log_probability == pytest.approx(sum(model.score(one.source, one.text)), abs=1e-4)


def test_both_engines_give_the_same_details(both: tuple[Model, Model]) -> None:
    texts = ["Good morning.\n\n  - Where is the book? I do not know.", "Tom is a boy."]
    ours, theirs = (list(model.details(texts)) for model in both)
    assert [one.text for one in ours] == [one.text for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for mine, yours in zip(one.sentences, other.sentences, strict=True):
            assert [found.text for found in mine.hypotheses] == [found.text for found in yours.hypotheses]
            assert [f.score for f in mine.hypotheses] == pytest.approx([f.score for f in yours.hypotheses], abs=1e-4)


def test_a_sentence_too_long_for_the_model_adds_up(small: Model) -> None:
    line = " ".join(["two red dogs"] * 30)
    (found,) = small.details(line, split=False)
    parts = small.translator.parts([line])[0]
    assert len(parts) > 1
    assert found.sentences[0].score == pytest.approx(sum(part.hypotheses[0].score for part in parts))
    assert found.text == " ".join(part.text for part in parts)


def test_a_translation_begins_as_it_is_told(both: tuple[Model, Model]) -> None:
    free = both[0].translate("Good morning.")
    for model in both:
        assert not free.startswith("Schönen")
        assert model.translate("- Good morning.", prefix="Schönen").startswith("- Schönen M")
        (found,) = model.details("Good morning.", prefix="Schönen")
        assert len(found.sentences[0].hypotheses) == 3
        score = sum(model.score("Good morning.", found.text))
        assert found.sentences[0].log_probability == pytest.approx(score, abs=1e-4)


def test_a_prefix_is_for_one_sentence(small: Model) -> None:
    for texts in ("two dogs. ten dogs.", ["two dogs.", "ten dogs."]):
        with pytest.raises(ValueError, match="give one sentence, or split=False"):
            small.translate(texts, prefix="zwei")
    for nothing in ("***", "", []):
        with pytest.raises(ValueError, match="there is nothing to translate after the prefix: give a sentence"):
            small.translate(nothing, prefix="zwei")
    assert small.translate("two dogs. ten dogs.", prefix="zehn", split=False).startswith("zehn")
    with pytest.raises(ValueError, match="not both"):
        small.translate("two dogs.", prefix="zwei", protect=True)


@pytest.mark.parametrize("prefix", ["", "Guten", "Guten Morgen.", "Gut", "Ich habe"])
def test_alternatives_are_the_same_on_both_engines(both: tuple[Model, Model], prefix: str) -> None:
    ours, theirs = (model.alternatives("Good morning.", prefix, 4) for model in both)
    assert len(ours) == 4
    assert [(one.piece, one.word) for one in ours] == [(one.piece, one.word) for one in theirs]
    assert [one.goes_on.text for one in ours] == [one.goes_on.text for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert one.goes_on.score == pytest.approx(other.goes_on.score, abs=1e-4)
        assert one.goes_on.text.startswith(prefix)


@pytest.mark.parametrize("prefix", ["", "zwei", "zwei rote Hunde."])
def test_alternatives_are_the_likeliest_of_all_tokens(small: Model, prefix: str) -> None:
    vocab, engine = small.translator.vocab, small.translator.engine
    source = vocab.source.encode(["two red dogs."]).ids.tolist()
    begin = vocab.target.encode([prefix]).ids.tolist()[:-1]
    tokens = [token for token in range(vocab.target.size) if token not in (PAD, BOS, EOS)]
    scores = engine.score([source] * len(tokens), [[*begin, token] for token in tokens])
    known = {vocab.target.piece(token): row[len(begin)] for token, row in zip(tokens, scores, strict=True)}
    known[vocab.target.piece(EOS)] = engine.score([source], [begin])[0][-1]
    likeliest = sorted(known, key=lambda piece: -known[piece])[:6]
    found = small.alternatives("two red dogs.", prefix, 6)
    assert [one.piece for one in found] == likeliest
    assert [one.log_probability for one in found] == pytest.approx([known[piece] for piece in likeliest], abs=1e-5)


def test_an_alternative_goes_on_as_a_search_from_it_does(small: Model) -> None:
    found = small.alternatives("two red dogs.", "zwei", 3)
    assert found[0].goes_on.text == "zwei rote Hunde."
    assert found[0].word == "rote"
    ended = next(one for one in small.alternatives("two red dogs.", "zwei rote Hunde.", 3) if one.word == "")
    assert ended.goes_on.text == "zwei rote Hunde."
    assert ended.goes_on.log_probability == pytest.approx(sum(small.score("two red dogs.", "zwei rote Hunde.")))


def tokens(model: Model, text: str) -> list[int]:
    return model.translator.vocab.target.encode([text.strip()]).ids.tolist()


def test_what_cannot_be_asked_is_refused(small: Model) -> None:
    long = " ".join(["two"] * 200)
    with pytest.raises(ValueError, match=r"the source has \d+ tokens, but this model takes at most 64: shorten it"):
        small.score(long, "zwei")
    with pytest.raises(ValueError, match="the target has"):
        small.alternatives("two", long)
    full = "ab" * 64
    while len(tokens(small, full)) != 64:
        full = full[:-1]
    assert len(small.score("two", full)) == 64
    with pytest.raises(ValueError, match="the target has 65 tokens"):
        small.alternatives("two", full)
    with pytest.raises(ValueError, match="nothing in the source"):
        small.score(" ", "zwei")
    with pytest.raises(ValueError, match="half of a character"):
        small.translate(["two dogs.", "\ud800 dogs."])
    with pytest.raises(ValueError, match="num 101: give 100 at most; more takes long and helps nobody"):
        small.alternatives("two", "", 101)
    with pytest.raises(ValueError, match="num 0: give a whole number, 1 or more"):
        small.alternatives("two", "", 0)


def test_load_takes_options_and_knows_the_demo() -> None:
    model = dragoman.load(GOLDEN / "v1", engine="torch", threads=1, beam_size=5, num_best=2)
    assert (model.translator.options.beam_size, model.translator.options.num_best) == (5, 2)
    assert model.translator.engine.name == "torch"
    assert dragoman.load(threads=1).language == dragoman.load("demo", threads=1).language == "en"
    with pytest.raises(ValueError, match="there is no such folder"):
        dragoman.load("./demo-that-is-not-there")


WRONG = """
import sys
from functools import partial
import dragoman
load = partial(dragoman.load, sys.argv[1])
model = load(threads=1)
for ask in (
    *(lambda t=t: load(threads=t) for t in ("4", -1, 2.0, True)),
    *(lambda e=e: load(engine=e) for e in ("Torch", "cuda", 7)),
    lambda: load(compute="int4"),
    *(lambda b=b: load(beam_size=b) for b in (0, 2.5, 100_000)),
    lambda: load(num_best=10),
    lambda: model.translate(["two dogs.", None]),
    lambda: list(model.details(b"two")),
    lambda: model.score(["two"], ["zwei"]),
    lambda: model.score("two", None),
    lambda: model.alternatives("two", 3),
):
    try:
        ask()
    except ValueError as error:
        print(error)
        assert type(error) is ValueError and error.__context__ is None
"""

SAID = """\
threads '4': give a whole number, 1 or more
threads -1: give a whole number, 1 or more
threads 2.0: give a whole number, 1 or more
threads True: give a whole number, 1 or more
engine Torch: give auto, ctranslate2 or torch
engine cuda: give auto, ctranslate2 or torch
engine 7: give auto, ctranslate2 or torch
compute int4: give float32, int16 or int8
beam_size 0: give a whole number, 1 or more
beam_size 2.5: give a whole number, 1 or more
beam_size 100,000: give 1,000 at most; more takes long and helps nobody
num_best 10 needs a beam_size as large, not 3: give beam_size=10, or more
text 2 must be a string, not NoneType
text 1 must be a string, not int
the source must be a string, not list
the target must be a string, not NoneType
the target must be a string, not int
"""


@pytest.mark.slow
def test_what_is_given_wrongly_is_said_in_one_line_each() -> None:
    """In a process of its own, where no types are checked, as is the case for whoever uses it."""
    command = [sys.executable, "-c", WRONG, GOLDEN / "v1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", SAID)


@pytest.mark.slow
@pytest.mark.parametrize("case", ENGLISH[::4], ids=[case["name"] for case in ENGLISH[::4]])
def test_the_demo_keeps_the_layout_of_written_cases(demo: Model, case: dict[str, object]) -> None:
    document = Document.of(str(case["text"]), "en")
    assert demo.translate(document.text) == document.joined(demo.translate(document.sentences, split=False))


@pytest.mark.slow
def test_the_demo_keeps_the_layout_of_five_thousand_words(demo: Model) -> None:
    clauses = [f"the old man saw {number} dogs and a cat," for number in range(556)]
    text = f"\t- {' '.join(clauses)} and left.\r\n"
    (found,) = demo.details(text)
    words = " ".join(one.source for one in found.sentences).split()
    assert len(words) > 5_000
    assert words == text.split()[1:]
    assert found.text.startswith("\t- ")
    assert found.text.endswith("\r\n")
    assert "\n" not in found.text[:-1]
    assert len(found.text.split()) > 2_500


ALONE = """
import sys
import dragoman
heavy = {"numpy", "pydantic", "sentencepiece", "ctranslate2", "torch"} & set(sys.modules)
assert not heavy, heavy
sys.modules |= {"torch": None, "pyarrow": None, "matplotlib": None, "sacrebleu": None}
from dataclasses import replace
from pathlib import Path
from dragoman.bundle import Export, open_bundle
from dragoman.decoding.model import Model
bundle = open_bundle(Path(sys.argv[1]))
info = bundle.info.model_copy(update={"search": {}})
bundle = replace(bundle, info=info, exports=(Export.model_validate_json(sys.argv[2]),))
model = Model.of(bundle, engine="ctranslate2", threads=1, num_best=2)
print(model.translate("two red dogs. ten {x} old houses.", protect=True))
print(model.translate("two dogs.", prefix="zwei"), len(model.score("two", "zwei")), len(model.alternatives("two", "")))
"""


def test_the_name_costs_nothing_and_the_fast_engine_needs_no_torch(exported: Callable[[Path], Bundle]) -> None:
    (export,) = exported(GOLDEN / "v1").exports
    told = export.model_copy(
        update={"proof": Proof(texts=0, identical=0, largest_difference=0.0, mean_difference=0.0, held_out=False)}
    )
    command = [sys.executable, "-c", ALONE, GOLDEN / "v1", told.model_dump_json()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("zwei rote Hunde. ")
    assert "{x}" in done.stdout
