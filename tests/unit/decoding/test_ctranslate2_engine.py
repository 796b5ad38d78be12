"""CTranslate2 against torch: the same hypotheses in the same order, and the same scores, whatever the options."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
import pytest
import torch

from dragoman.bundle import Bundle, BundleInfo, Card, Export, open_bundle, write_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_export
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.engine import Engine, search
from dragoman.decoding.hypothesis import Result
from dragoman.decoding.options import EngineOptions, LengthLimit, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.export.ctranslate2 import weights_file
from dragoman.io.durable import DamageError
from dragoman.models.config import TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.models.weights import weights_of
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
MOST = 40
"""Positions of the random models."""


class Both(NamedTuple):
    """The same model in two engines."""

    bundle: Bundle
    torch: TorchEngine
    other: CTranslate2Engine


def both(bundle: Bundle, heads: tuple[AlignmentHead, ...] = ()) -> Both:
    content = weights_file(bundle, "float32", heads)
    other = CTranslate2Engine.of(bundle, Export.unchecked(content, heads=heads), content, 1)
    return Both(bundle, TorchEngine.load(bundle), other)


def likely(token: int, logit: float) -> Callable[[Transformer], None]:
    """Makes a token likely at every step: what the last norm adds points to it."""

    def change(model: Transformer) -> None:
        direction = model.decoder.layers[-1].around_feed_forward.norm.bias
        model.projection.weight[token] += logit * direction / direction.square().sum()

    return change


def blur(model: Transformer) -> None:
    """Makes all tokens about as likely as each other."""
    model.projection.weight[NUM_SPECIALS:] *= 0.01


def made(folder: Path, seed: int, *changes: Callable[[Transformer], None], joint: bool = True, **shape: Any) -> Bundle:
    """A random Transformer that ends its sentences now and then."""
    vocab = open_bundle(GOLDEN / ("v1" if joint else "v1-recurrent")).vocab
    layers = {"d_model": 24, "d_ff": 36, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 2}
    words = {"source_vocabulary": vocab.source.size, "target_vocabulary": vocab.target.size, "max_positions": MOST}
    config = TransformerConfig.model_validate({**layers, **words, "tie": "none", **shape})
    torch.manual_seed(seed)
    model = Transformer(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.normal_(std=0.5)
        for change in (likely(EOS, 4.0), *changes):
            change(model)
    return write_bundle(folder / f"model-{seed}", BundleInfo(model=config), weights_of(model), vocab, Card())


@pytest.fixture(scope="module")
def golden() -> Both:
    return both(open_bundle(GOLDEN / "v1"))


@pytest.fixture(scope="module", params=["post", "pre", "separate"])
def some(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Three models that between them have each layout there is."""
    folder = tmp_path_factory.mktemp("models")
    match request.param:
        case "post":
            return both(made(folder, 1, tie="all"))
        case "pre":
            return both(made(folder, 2, tie="target", norm="pre", attention_bias=True, positions="learned"))
        case _:
            return both(made(folder, 3, joint=False, positions="sinusoidal-halves"))


def sources(both: Both, count: int, seed: int = 7, longest: int = 12) -> list[list[int]]:
    draw = random.Random(seed)
    ids = range(NUM_SPECIALS, both.bundle.info.model.source_vocabulary)
    return [[*draw.choices(ids, k=draw.randint(1, longest)), EOS] for _ in range(count)]


def sentences(both: Both) -> list[list[int]]:
    """Of the language of the golden model."""
    draw = random.Random(3)
    words = ["two", "three", "four", "ten", "red", "green", "old", "dogs", "houses", "tables", "women", ".", ",", "!"]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 7))) for _ in range(40)]
    encoded = both.bundle.vocab.source.encode(texts)
    return [row.tolist() for row in np.split(encoded.ids, encoded.offsets[1:-1])]


def agree(ours: list[Result], theirs: list[Result]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert [h.tokens for h in other.hypotheses] == [h.tokens for h in one.hypotheses]
        assert [h.score for h in other.hypotheses] == pytest.approx([h.score for h in one.hypotheses], abs=1e-4)
        totals = [h.log_probability for h in one.hypotheses]
        assert [h.log_probability for h in other.hypotheses] == pytest.approx(totals, abs=1e-4, rel=1e-5)
        assert [h.cut for h in other.hypotheses] == [h.cut for h in one.hypotheses]


def true_scores(both: Both, rows: list[list[int]], found: list[Result]) -> None:
    for row, result in zip(rows, found, strict=True):
        targets = [hypothesis.tokens for hypothesis in result.hypotheses]
        assert len(set(targets)) == len(targets)
        totals = [sum(scores) for scores in both.torch.score([row] * len(targets), targets)]
        given = [hypothesis.log_probability for hypothesis in result.hypotheses]
        assert given == pytest.approx(totals, abs=1e-4, rel=1e-5)
        ranked = [hypothesis.score for hypothesis in result.hypotheses]
        assert ranked == sorted(ranked, reverse=True)


def compare(both: Both, rows: list[list[int]], options: SearchOptions, prefixes: Any = None) -> list[Result]:
    ours = search(both.torch, rows, options, prefixes)
    agree(ours, search(both.other, rows, options, prefixes))
    return ours


PENALTIES = [
    Penalty(),
    Penalty(formula="length", alpha=1.0),
    Penalty(formula="length", alpha=0.0),
    Penalty(formula="none"),
]


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_they_find_the_same_in_the_same_order(some: Both, beam_size: int, penalty: Penalty) -> None:
    options = SearchOptions(beam_size=beam_size, num_best=beam_size, penalty=penalty, max_length={"extra": 12})
    found = compare(some, sources(some, 10), options)
    lengths = {len(hypothesis.tokens) for result in found for hypothesis in result.hypotheses}
    assert len(lengths) > 3 or beam_size < 5, "a comparison of targets that are all alike says little"


@pytest.mark.parametrize("activation", ["swish", "gelu", "gelu-sigmoid"])
def test_other_activations_and_an_output_bias_give_the_same_scores(activation: str, tmp_path: Path) -> None:
    made_both = both(made(tmp_path, 4, activation=activation, output_bias=True))
    rows = sources(made_both, 9)
    found = compare(made_both, rows, SearchOptions(beam_size=3, num_best=3, max_length={"extra": 12}))
    targets = [result.best.tokens for result in found]
    for one, other in zip(made_both.torch.score(rows, targets), made_both.other.score(rows, targets), strict=True):
        assert other == pytest.approx(one, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_a_trained_model_writes_the_same_with_both(golden: Both, beam_size: int, penalty: Penalty) -> None:
    found = compare(golden, sentences(golden), SearchOptions(beam_size=beam_size, num_best=beam_size, penalty=penalty))
    assert not all(result.best.cut for result in found)


@pytest.mark.slow
@pytest.mark.parametrize("extra", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("ratio", [0.0, 0.4])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_length_limits_cut_alike(some: Both, extra: int, ratio: float, beam_size: int) -> None:
    limit = LengthLimit(ratio=ratio, extra=extra)
    rows = sources(some, 12)
    found = compare(some, rows, SearchOptions(beam_size=beam_size, max_length=limit))
    for row, result in zip(rows, found, strict=True):
        assert len(result.best.tokens) < limit.tokens(len(row))


@pytest.mark.parametrize("extra", [4, 7])
def test_at_a_limit_lists_differ_by_what_may_be_lost_there_and_nothing_else(some: Both, extra: int) -> None:
    """Where one ends in the last step but one, torch gives its place to another, which is then cut."""
    options = SearchOptions(beam_size=5, num_best=5, max_length={"ratio": 0.0, "extra": extra})
    rows = sources(some, 16)
    alike = 0
    for one, other in zip(search(some.torch, rows, options), search(some.other, rows, options), strict=True):
        late = any(len(hypothesis.tokens) == extra - 2 and not hypothesis.cut for hypothesis in one.hypotheses)
        if not late:
            agree([one], [other])
            alike += 1
        kept = [hypothesis.tokens for hypothesis in one.hypotheses if not hypothesis.cut]
        assert [hypothesis.tokens for hypothesis in other.hypotheses if not hypothesis.cut][: len(kept)] == kept
    assert alike > 0


def test_a_limit_of_one_allows_nothing_but_the_end(some: Both) -> None:
    found = compare(some, sources(some, 5), SearchOptions(beam_size=4, max_length={"ratio": 0.0, "extra": 1}))
    assert {result.best.tokens for result in found} == {()}
    assert all(result.best.cut for result in found)


def test_a_model_writes_as_much_as_it_has_positions_and_no_more(tmp_path: Path) -> None:
    endless = both(made(tmp_path, 4, likely(EOS, -30.0)))
    found = compare(endless, sources(endless, 4), SearchOptions(beam_size=2, num_best=2, max_length={"extra": 500}))
    assert {len(hypothesis.tokens) for result in found for hypothesis in result.hypotheses} == {MOST - 1}


def test_a_very_long_target_of_little_probability_is_found_too(tmp_path: Path) -> None:
    mumbling = both(made(tmp_path, 12, likely(EOS, -30.0), blur, max_positions=700))
    rows = sources(mumbling, 1)
    (found,) = search(mumbling.other, rows, SearchOptions(beam_size=2, max_length={"extra": 900}))
    assert len(found.best.tokens) == 699
    assert found.best.cut
    assert found.best.log_probability < -2500
    true_scores(mumbling, rows, [found])


@pytest.mark.parametrize("min_length", [2, 4, 9])
def test_nothing_ends_before_the_shortest_length(some: Both, min_length: int) -> None:
    """What is forbidden gives its probability to other tokens, so a wide beam may go another way; scores stay true."""
    rows, limit = sources(some, 10), LengthLimit(extra=9)
    compare(some, rows, SearchOptions(beam_size=1, min_length=min_length, max_length=limit))
    options = SearchOptions(beam_size=3, num_best=3, min_length=min_length, max_length=limit)
    found = search(some.other, rows, options)
    assert min(len(h.tokens) + 1 for result in found for h in result.hypotheses) >= min_length
    true_scores(some, rows, found)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_prefix_is_written_first_and_counts(some: Both, beam_size: int) -> None:
    rows, draw = sources(some, 12), random.Random(2)
    ids = range(NUM_SPECIALS, some.bundle.info.model.target_vocabulary)
    prefixes = [draw.choices(ids, k=place % 4) for place in range(len(rows))]
    options = SearchOptions(beam_size=beam_size, max_length={"extra": 4})
    for prefix, result in zip(prefixes, compare(some, rows, options, prefixes), strict=True):
        assert all(list(h.tokens[: len(prefix)]) == prefix for h in result.hypotheses)


def test_a_prefix_longer_than_the_limit_is_written_and_then_the_end(some: Both) -> None:
    rows = sources(some, 3)
    prefixes = [[9, 8, 7, 6], [], [5, 9]]
    found = compare(some, rows, SearchOptions(beam_size=3, max_length={"ratio": 0.0, "extra": 2}), prefixes)
    assert found[0].best.tokens == (9, 8, 7, 6)
    assert found[2].best.tokens == (5, 9)


@pytest.mark.parametrize("num_best", [1, 3])
def test_completions_begin_with_their_prefixes_and_have_true_scores(some: Both, num_best: int) -> None:
    rows, draw = sources(some, 7), random.Random(3)
    ids = range(NUM_SPECIALS, some.bundle.info.model.target_vocabulary)
    prefixes = [draw.choices(ids, k=1 + place % 4) for place in range(len(rows))]
    options = SearchOptions(beam_size=4, num_best=num_best, max_length={"extra": 4})
    for engine in (some.torch, some.other):
        found = engine.complete(rows, options, prefixes)
        assert len(found) == len(rows)
        for prefix, result in zip(prefixes, found, strict=True):
            assert 1 <= len(result.hypotheses) <= num_best
            assert all(list(one.tokens[: len(prefix)]) == prefix for one in result.hypotheses)
            scores = [one.score for one in result.hypotheses]
            assert scores == sorted(scores, reverse=True)
        true_scores(some, rows, found)


def test_as_many_prefixes_as_sources_are_needed(golden: Both) -> None:
    with pytest.raises(ValueError, match="1 prefixes for 2 sources"):
        search(golden.other, sources(golden, 2), SearchOptions(), [[5]])


@pytest.mark.parametrize("token", [PAD, BOS])
def test_what_may_never_be_written_is_not_written(token: int, tmp_path: Path) -> None:
    fond = both(made(tmp_path, 5 + token, likely(token, 9.0)))
    rows = sources(fond, 8)
    compare(fond, rows, SearchOptions(beam_size=1))
    found = search(fond.other, rows, SearchOptions(beam_size=4, num_best=4))
    assert all({PAD, BOS}.isdisjoint(h.tokens) for result in found for h in result.hypotheses)
    true_scores(fond, rows, found)


def test_sources_of_almost_nothing(some: Both) -> None:
    compare(some, [[NUM_SPECIALS, EOS], [3, EOS], [7, 7, EOS]], SearchOptions(beam_size=3, num_best=3))


def test_of_nothing_nothing_is_made(golden: Both) -> None:
    """Where torch would still search."""
    for options in (SearchOptions(beam_size=3), SearchOptions(beam_size=3, num_best=3, max_length={"extra": 0})):
        nothing, something = search(golden.other, [[EOS], [NUM_SPECIALS, EOS]], options)
        assert [hypothesis.tokens for hypothesis in nothing.hypotheses] == [()]
        assert len(something.hypotheses) == options.num_best


def test_no_sources_give_no_results(golden: Both) -> None:
    assert search(golden.other, [], SearchOptions()) == []
    assert golden.other.score([], []) == []


def test_what_it_writes_does_not_depend_on_the_batch(some: Both) -> None:
    rows, options = sources(some, 60), SearchOptions(beam_size=4, num_best=4, max_length={"extra": 9})
    alone = [search(some.other, [row], options)[0] for row in rows]
    agree(alone, search(some.other, rows, options))
    order = random.Random(4).sample(range(len(rows)), len(rows))
    agree([alone[place] for place in order], search(some.other, [rows[place] for place in order], options))


def test_scores_of_given_targets_are_torchs(some: Both) -> None:
    rows, targets = sources(some, 20), [row[:-1] for row in sources(some, 20, seed=8)]
    targets[3] = []
    ours, theirs = some.torch.score(rows, targets), some.other.score(rows, targets)
    assert [len(row) for row in theirs] == [len(target) + 1 for target in targets]
    for one, other in zip(ours, theirs, strict=True):
        assert other == pytest.approx(one, abs=1e-4)


def test_scores_of_a_search_are_those_of_its_targets(some: Both) -> None:
    rows = sources(some, 8)
    found = search(some.other, rows, SearchOptions(beam_size=3, max_length={"extra": 9}))
    scored = some.other.score(rows, [result.best.tokens for result in found])
    totals = [result.best.log_probability for result in found]
    assert totals == pytest.approx([sum(row) for row in scored], abs=1e-4, rel=1e-5)


@pytest.mark.parametrize("chosen", [(2,), (1, 0), (None,)])
def test_heads_in_front_change_nothing_that_is_written(chosen: tuple[int | None, ...], tmp_path: Path) -> None:
    bundle = made(tmp_path, 9, attention_bias=True)
    layer = "decoder.layers.1.cross_attention"
    shown = both(bundle, tuple(AlignmentHead(layer=layer, head=head, rows="written") for head in chosen))
    compare(shown, sources(shown, 12), SearchOptions(beam_size=3, num_best=3, max_length={"extra": 9}))


def test_it_is_what_a_bundle_with_an_export_is_translated_with(golden: Both, tmp_path: Path) -> None:
    bundle = made(tmp_path, 1)
    content = weights_file(bundle)
    for kept in (False, True):
        stored = store_export(bundle.folder, Export.unchecked(content, kept=kept), content)
        translator = Translator.load(stored)
        assert translator.engine.name == "ctranslate2"
        assert translator.engine.export == stored.exports[0]
        again = Translator.load(stored, EngineOptions("torch"))
        texts = ["two red dogs.", "", "ten old houses."]
        assert translator.translate(texts) == again.translate(texts)


def test_a_derived_export_that_comes_out_otherwise_is_refused(tmp_path: Path) -> None:
    bundle = made(tmp_path, 1)
    content = weights_file(bundle)
    wrong = Export.unchecked(content + b"!", kept=False)
    stored = store_export(bundle.folder, wrong, b"")
    with pytest.raises(DamageError):
        Translator.load(stored)


def test_what_ctranslate2_refuses_is_reported_without_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = made(tmp_path, 1)
    content = weights_file(bundle)
    with pytest.raises(
        ValueError, match=r"^CTranslate2 rejects threads -1 or compute 'float32': give threads"
    ) as error:
        CTranslate2Engine.of(bundle, Export.unchecked(content), content, -1)
    assert len(str(error.value)) < 200
    assert error.value.__context__ is None, "which holds the files too"

    def unable(*_: object, **__: object) -> None:
        raise ValueError("this machine has no int8")

    monkeypatch.setattr(ctranslate2, "Translator", unable)
    with pytest.raises(ValueError, match=r"threads 1 or compute 'int8': this machine has no int8$"):
        CTranslate2Engine.of(bundle, Export.unchecked(content), content, 1, "int8")


def test_of_an_export_in_fewer_bits_no_more_is_made(tmp_path: Path) -> None:
    bundle = made(tmp_path, 1)
    content = weights_file(bundle, "int8")
    stored = store_export(bundle.folder, Export.unchecked(content, "int8", kept=False), content)
    with pytest.raises(ValueError, match="exported only as int8, not as float32: run dragoman export"):
        CTranslate2Engine.load(stored)
    assert CTranslate2Engine.load(stored, compute="int8").export.store == "int8"


@pytest.mark.parametrize("compute", ["int8", "int16"])
def test_fewer_bits_give_about_the_same(golden: Both, compute: Any, request: pytest.FixtureRequest) -> None:
    """Kept rounded or rounded at loading, it is the same model."""
    if compute == "int8":
        request.getfixturevalue("exact_int8")
    rows = sentences(golden)
    targets = [result.best.tokens for result in search(golden.torch, rows, SearchOptions(beam_size=3))]
    exact = golden.other.score(rows, targets)
    content = weights_file(golden.bundle, compute)
    rounded = CTranslate2Engine.of(golden.bundle, Export.unchecked(content, compute, kept=False), content, 1, compute)
    scored = rounded.score(rows, targets)
    differences = [
        abs(a - b) for one, other in zip(exact, scored, strict=True) for a, b in zip(one, other, strict=True)
    ]
    assert 0.0 < np.mean(differences) < 0.1


def test_a_file_that_ctranslate2_cannot_read_is_named(golden: Both) -> None:
    export = Export.unchecked(b"\x80\x04.", kept=False)
    with pytest.raises(
        DamageError, match=rf"{export.file.file}: CTranslate2 cannot load the file .*; copy the whole bundle"
    ):
        CTranslate2Engine.of(golden.bundle, export, b"\x80\x04.")


def test_pieces_that_it_could_not_tell_apart_are_refused(monkeypatch: pytest.MonkeyPatch, golden: Both) -> None:
    halves = property(lambda self: tuple(str(token // 2) for token in range(self.size)))
    monkeypatch.setattr("dragoman.text.subwords.Subwords.pieces", halves)
    with pytest.raises(ValueError, match="has the token '0' more than once"):
        both(golden.bundle)


@pytest.mark.slow
def test_nothing_of_the_training_stack_is_imported(tmp_path: Path) -> None:
    bundle = made(tmp_path, 1)
    content = weights_file(bundle)
    store_export(bundle.folder, Export.unchecked(content), content)
    code = f"""
import sys
for name in ("torch", "pyarrow", "matplotlib", "sacrebleu", "fsspec", "zstandard"):
    sys.modules[name] = None
from pathlib import Path
from dragoman.translation.translator import Translator
translator = Translator.load(Path({str(bundle.folder)!r}))
print(translator.engine.name, len(translator.translate(["two red dogs.", "ten"])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ctranslate2", "2"], done.stderr


def test_it_is_an_engine_as_the_other_is(golden: Both) -> None:
    assert isinstance(golden.torch, Engine)
    assert isinstance(golden.other, Engine)
    assert golden.other.longest == golden.torch.longest == 64
    assert (golden.torch.name, golden.other.name) == ("torch", "ctranslate2")


def test_a_short_source_that_does_not_end_stops_at_its_own_limit_beside_a_long_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one long text would make every sentence that does not end as expensive as itself."""
    engine = both(made(tmp_path, 3, likely(EOS, -40.0), max_positions=400)).other
    begun: list[tuple[int, int]] = []
    begin = engine._begin

    def watched(sources: Any, options: Any, prefixes: Any, limit: int, *others: Any, **more: Any) -> Any:
        begun.extend((len(source), limit) for source in sources)
        return begin(sources, options, prefixes, limit, *others, **more)

    monkeypatch.setattr(engine, "_begin", watched)
    sources = [[5] * 300 + [EOS], *([token, token + 1, EOS] for token in range(10, 290))]
    options = SearchOptions(beam_size=1, max_length=LengthLimit(ratio=1.0, extra=5))
    results = search(engine, sources, options)
    assert {length: max(limit for of, limit in begun if of == length) for length, _ in begun} == {301: 306, 3: 8}
    assert {len(result.best.tokens) for result in results[1:]} == {7}
