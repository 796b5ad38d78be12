"""What `dragoman.load` returns: texts in and out with their layout, streams, scores, links, traces and taps."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count, islice, repeat
from pathlib import Path

import pytest
import yaml

import dragoman
from dragoman.api import Model
from dragoman.bundle import Bundle, ExportCheck, demo_folder
from dragoman.decoding.options import EngineOptions
from dragoman.experiment.request import TrainRequest
from dragoman.text.vocab import BOS, EOS, PAD
from dragoman.translation.document import TextDocument
from dragoman.translation.pipeline import FIRST_WINDOW

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = yaml.safe_load((Path(__file__).parent / "translation" / "documents" / "cases.yaml").read_text())
ENGLISH = [case for case in CASES if case.get("language", "en") == "en"]
TEXT = "Two red dogs. Ten old houses!\r\n\r\n  - four green women.  three tables.\n\t1) two dogs\n\n***\n"


@pytest.fixture(scope="module")
def small(exported: Callable[[Path], Bundle]) -> Model:
    """Knows a few words, takes 64 tokens, and is as fast as a model can be."""
    return Model(exported(GOLDEN / "v1"), EngineOptions("ctranslate2", threads=1))


@pytest.fixture(scope="module")
def both(exported: Callable[[Path], Bundle]) -> tuple[Model, Model]:
    """The demo on each engine."""
    bundle = exported(demo_folder())
    return Model(bundle, EngineOptions("ctranslate2", 1, beam_size=3)), Model(
        bundle, EngineOptions("torch", beam_size=3)
    )


def test_a_text_is_translated_sentence_by_sentence_and_keeps_its_layout(small: Model) -> None:
    document = TextDocument.of(TEXT, "en")
    alone = [small.translate(sentence) for sentence in document.sentences]
    assert len(alone) == 5
    assert small.translate(TEXT) == document.join(alone)
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
    assert small.translate(lines, split=False, protect=False) == small.translator.translate(lines)
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


def test_a_window_of_one_answers_each_line(small: Model) -> None:
    read = []
    answers = small.translate_iter((read.append(line) or line for line in ["two dogs. ten dogs.", "", "two"]), window=1)
    for number, _ in enumerate(answers, 1):
        assert len(read) == number


def test_progress_counts_texts(small: Model) -> None:
    reports: list[int] = []
    texts = ["two red dogs. ten old houses.", "", "three tables."] * 60
    list(small.translate_iter(texts, progress=lambda what, done, total=None, unit="": reports.append(done)))
    assert reports == sorted(reports)
    assert reports[-1] == 180
    assert len(set(reports)) > 3


def test_details_have_each_sentence_and_its_scores(both: tuple[Model, Model]) -> None:
    for model in both:
        first, nothing = model.details(["- Good morning. Thank you!\n", "***"], num_best=3)
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
    ours, theirs = (list(model.details(texts, num_best=3)) for model in both)
    assert [one.text for one in ours] == [one.text for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for mine, yours in zip(one.sentences, other.sentences, strict=True):
            assert [found.text for found in mine.hypotheses] == [found.text for found in yours.hypotheses]
            assert [f.score for f in mine.hypotheses] == pytest.approx([f.score for f in yours.hypotheses], abs=1e-4)


def test_a_sentence_too_long_for_the_model_adds_up(small: Model) -> None:
    line = " ".join(["two red dogs"] * 30)
    (found,) = small.details(line, split=False)
    parts = small.translator.sentences([line])[0].segments
    assert len(parts) > 1
    assert found.sentences[0].score == pytest.approx(sum(part.hypotheses[0].score for part in parts))
    assert found.text == " ".join(part.text for part in parts)


def test_a_translation_begins_with_its_prefix(both: tuple[Model, Model]) -> None:
    free = both[0].translate("Good morning.")
    for model in both:
        assert not free.startswith("Schönen")
        assert model.translate("- Good morning.", prefix="Schönen").startswith("- Schönen M")
        (found,) = model.details("Good morning.", prefix="Schönen", num_best=3)
        assert len(found.sentences[0].hypotheses) == 3
        score = sum(model.score("Good morning.", found.text))
        assert found.sentences[0].log_probability == pytest.approx(score, abs=1e-4)


def test_a_prefix_is_for_one_sentence(small: Model) -> None:
    for texts in ("two dogs. ten dogs.", ["two dogs.", "ten dogs."]):
        with pytest.raises(ValueError, match="give one sentence, or split=False"):
            small.translate(texts, prefix="zwei")
    for nothing in ("***", "", []):
        with pytest.raises(ValueError, match="no sentence to translate with the prefix: give a sentence"):
            small.translate(nothing, prefix="zwei")
    assert small.translate("two dogs. ten dogs.", prefix="zehn", split=False).startswith("zehn")
    begun = small.translate("two {dogs}.", prefix="zehn")
    assert begun.startswith("zehn")
    assert "{dogs}" in begun


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "Guten", "Guten Morgen.", "Gut", "Ich habe"])
def test_alternatives_are_the_same_on_both_engines(both: tuple[Model, Model], prefix: str) -> None:
    ours, theirs = (model.alternatives("Good morning.", prefix, 4) for model in both)
    assert len(ours) == 4
    assert [(one.piece, one.word) for one in ours] == [(one.piece, one.word) for one in theirs]
    assert [one.continuation.text for one in ours] == [one.continuation.text for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert one.continuation.score == pytest.approx(other.continuation.score, abs=1e-4)
        assert one.continuation.text.startswith(prefix)


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
    assert found[0].continuation.text == "zwei rote Hunde."
    assert found[0].word == "rote"
    ended = next(one for one in small.alternatives("two red dogs.", "zwei rote Hunde.", 3) if one.word == "")
    assert ended.continuation.text == "zwei rote Hunde."
    assert ended.continuation.log_probability == pytest.approx(sum(small.score("two red dogs.", "zwei rote Hunde.")))


def tokens(model: Model, text: str) -> list[int]:
    return model.translator.vocab.target.encode([text.strip()]).ids.tolist()


def test_invalid_requests_are_refused(small: Model) -> None:
    long = " ".join(["two"] * 200)
    with pytest.raises(ValueError, match=r"the source has \d+ tokens, the limit is 64: shorten the source"):
        small.score(long, "zwei")
    with pytest.raises(ValueError, match="the target has"):
        small.alternatives("two", long)
    full = "ab" * 64
    while len(tokens(small, full)) != 64:
        full = full[:-1]
    assert len(small.score("two", full)) == 64
    with pytest.raises(ValueError, match="the target has 65 tokens"):
        small.alternatives("two", full)
    with pytest.raises(ValueError, match="the source is empty"):
        small.score(" ", "zwei")
    with pytest.raises(ValueError, match="half of a character"):
        small.translate(["two dogs.", "\ud800 dogs."])
    with pytest.raises(ValueError, match="num 101 is too large: give 100 or less"):
        small.alternatives("two", "", 101)
    with pytest.raises(ValueError, match="num 0 is not a positive integer"):
        small.alternatives("two", "", 0)


@pytest.mark.slow
def test_load_takes_options_and_knows_the_demo() -> None:
    model = dragoman.load(GOLDEN / "v1", engine="torch", threads=1, beam_size=5)
    assert model.translator.options.beam_size == 5
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
    lambda: model.translate("two", num_best=10),
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

ERRORS = """\
threads '4' is not a positive integer: give 1 or more
threads -1 is not a positive integer: give 1 or more
threads 2.0 is not a positive integer: give 1 or more
threads True is not a positive integer: give 1 or more
unknown engine Torch: give auto, ctranslate2 or torch
unknown engine cuda: give auto, ctranslate2 or torch
unknown engine 7: give auto, ctranslate2 or torch
unknown compute int4: give float32, int16, int8 or float16
beam_size 0 is not a positive integer: give 1 or more
beam_size 2.5 is not a positive integer: give 1 or more
beam_size 100,000 is too large: give 1,000 or less
num_best 10 is more than beam_size 3: give beam_size=10 or more
text 2 must be a string, not NoneType
text 1 must be a string, not int
the source must be a string, not list
the target must be a string, not NoneType
the target must be a string, not int
"""


@pytest.mark.slow
def test_invalid_arguments_are_reported_in_one_line_each() -> None:
    """In another process, where no types are checked, as in a user's program."""
    command = [sys.executable, "-c", WRONG, GOLDEN / "v1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", ERRORS)


@pytest.mark.slow
@pytest.mark.parametrize("case", ENGLISH[::4], ids=[case["name"] for case in ENGLISH[::4]])
def test_the_demo_keeps_the_layout_of_written_cases(demo: Model, case: dict[str, object]) -> None:
    document = TextDocument.of(str(case["text"]), "en")
    assert demo.translate(document.text) == document.join(demo.translate(document.sentences, split=False))


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
from dragoman.api import Model
from dragoman.decoding.options import EngineOptions
bundle = open_bundle(Path(sys.argv[1]))
info = bundle.info.model_copy(update={"search": {}})
bundle = replace(bundle, info=info, exports=(Export.model_validate_json(sys.argv[2]),))
model = Model(bundle, EngineOptions("ctranslate2", 1))
print(model.translate("two red dogs. ten {x} old houses.", protect=True))
print(model.translate("two dogs.", prefix="zwei"), len(model.score("two", "zwei")), len(model.alternatives("two", "")))
"""


@pytest.mark.slow
def test_the_name_costs_nothing_and_the_fast_engine_needs_no_torch(exported: Callable[[Path], Bundle]) -> None:
    (export,) = exported(GOLDEN / "v1").exports
    proven = export.model_copy(
        update={"proof": ExportCheck(texts=0, identical=0, largest_difference=0.0, mean_difference=0.0, held_out=False)}
    )
    command = [sys.executable, "-c", ALONE, GOLDEN / "v1", proven.model_dump_json()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("zwei rote Hunde. ")
    assert "{x}" in done.stdout


def test_the_best_translations_come_with_their_scores(small: Model) -> None:
    text = "two red dogs. ten old houses."
    best = small.translate(text, num_best=3)
    assert best[0].text == small.translate(text) == "zwei rote Hunde. zehn alte Häuser."
    assert [hypothesis.score for hypothesis in best] == sorted((one.score for one in best), reverse=True)
    assert len({hypothesis.text for hypothesis in best}) == 3
    assert small.translate([text, ""], num_best=3)[0] == best
    assert [len(some) for some in small.translate([text, ""], num_best=3)] == [3, 1]


def test_a_sample_is_the_same_in_every_batch_and_runs_on_torch(small: Model) -> None:
    texts = ["two red dogs.", "ten old houses.", "four green women.", "three tables."]
    together = small.translate(texts, sample={"seed": 3, "temperature": 2.0})
    assert [small.translate(text, sample={"seed": 3, "temperature": 2.0}) for text in texts] == together
    assert small.translate(texts, sample={"top_k": 1})[0] == "zwei rote Hunde."
    assert small.translator.engine.name == "ctranslate2"
    for wrong in ({"num_best": 2}, {"prefix": "zwei"}):
        with pytest.raises(ValueError, match="cannot be combined"):
            small.translate("two", sample=True, **wrong)


def test_words_are_aligned_and_a_test_set_is_scored(small: Model) -> None:
    assert (2, 2) in small.align("two red dogs.", "zwei rote Hunde.")
    assert small.align(["two red dogs."], ["zwei rote Hunde."]) == [small.align("two red dogs.", "zwei rote Hunde.")]
    scores = small.evaluate(["two red dogs.", "ten old houses."], ["zwei rote Hunde.", "zehn alte Häuser."])
    assert scores["bleu"].value == pytest.approx(100.0)
    with pytest.raises(ValueError, match="2 sources but 1 references"):
        small.evaluate(["two", "ten"], ["zwei"])


def test_a_trace_begins_with_its_prefix_goes_without_heads_and_is_kept_in_a_file(small: Model, tmp_path: Path) -> None:
    trace = small.trace("two red dogs.")
    assert trace.target.text == "zwei rote Hunde."
    assert small.trace("two red dogs.", prefix="zehn").target.text.startswith("zehn")
    without = small.trace("two red dogs.", "zwei rote Hunde.", without="cross")
    assert without.interventions
    assert without.log_probabilities.sum() < small.trace("two red dogs.", "zwei rote Hunde.").log_probabilities.sum()
    trace.save(tmp_path / "a.trace")
    assert dragoman.open_trace(tmp_path / "a.trace").target == trace.target
    assert "cross_attention" in repr(trace.show())


def test_a_tap_reads_the_maps_of_a_forced_pass(small: Model) -> None:
    with small.tap() as maps:
        scores = small.score("two red dogs.", "zwei rote Hunde.")
    assert scores == pytest.approx(small.score("two red dogs.", "zwei rote Hunde."), abs=1e-4)
    cross = maps["decoder.layers.0.cross_attention"]
    assert cross.shape[2] == len(scores)
    assert small.translator.engine.name == "ctranslate2"


def test_the_module_documents_and_offers_the_public_interface(small: Model) -> None:
    assert {"Client", "Model", "load", "open_trace", "train"} <= set(dragoman.__all__)
    assert dragoman.Model is Model
    assert all(f"{name}(" in (dragoman.__doc__ or "") for name in ("load", "translate", "trace", "train", "Client"))
    assert "en" in repr(small)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dragoman.nothing


def test_old_text_without_a_model_to_begin_with_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--from"):
        dragoman.train(source="a.en", target="a.de", keep_source="old.en", out=tmp_path / "run")
    source, target = (str(tmp_path / f"a.{code}") for code in ("en", "de"))
    for path in (source, target):
        Path(path).write_text("a line\n" * 30, encoding="utf-8")
    with pytest.raises(ValueError, match="no such folder"):
        dragoman.train(source=source, target=target, init=tmp_path / "base", out=tmp_path / "run")


def test_a_model_to_begin_with_old_text_and_a_device_are_those_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[TrainRequest] = []
    monkeypatch.setattr(
        "dragoman.experiment.run_training.run_training", lambda request, progress: requests.append(request)
    )
    given = {"source": "a.en", "target": "a.fr", "init": "demo", "to": "fr", "time": "5m", "device": "cuda"}
    dragoman.train(out=tmp_path / "run", **given, keep=("old.en", "old.fr"))  # type: ignore[arg-type]
    dragoman.train(out=tmp_path / "run", **given, keep_source="old.en")  # type: ignore[arg-type]
    first, second = requests
    assert (first.init, first.keep, first.keep_source) == ("demo", ("old.en", "old.fr"), None)
    assert (second.init, second.keep, second.keep_source) == ("demo", None, "old.en")
    for request in requests:
        assert (request.source, request.target) == (("a.en",), ("a.fr",))
        assert (request.to, request.time, request.device) == ("fr", "5m", "cuda")


def test_training_needs_a_recipe_or_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give a recipe"):
        dragoman.train(out=tmp_path / "run")
