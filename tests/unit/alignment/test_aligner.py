"""Links from batches of forced passes: those that traces show, whatever is in the batch, in the lines' own words."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.alignment import aligner as aligner_file
from dragoman.alignment.aligner import Aligner
from dragoman.alignment.head_names import guess_head
from dragoman.alignment.links import WordMap
from dragoman.alignment.tokens import Tokens
from dragoman.alignment.words import TokenPair, tokenize_pair
from dragoman.attention import attend
from dragoman.attention.tap import cross_attentions
from dragoman.bundle import open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import write_bundle
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inspection.head_search import head_links, links_of_heads
from dragoman.inspection.inspector import Inspector
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import EOS, Vocab
from dragoman.translation.results import Segment
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
FAMILIES = ["v1", "v1-recurrent", "v1-convolutional"]
SOURCES = ["two red dogs.", "ten old houses. two red women.", "four", "", "three green tables.", "two"]
TARGETS = ["zwei rote Hunde.", "zehn alte Häuser.", "vier grüne Frauen. vier!", "nichts", "", "zwei"]
WHOLE = [0, 1, 2, 5]
"""The pairs with words on both sides."""


@cache
def inspector(name: str) -> Inspector:
    return Inspector.load(GOLDEN / name)


@cache
def larger() -> Seq2Seq:
    """Three layers of four heads, random: nothing in it is as plain as in a trained one."""
    torch.manual_seed(5)
    config = TransformerConfig(
        d_model=20, d_ff=14, num_heads=4, num_encoder_layers=2, num_decoder_layers=3, tie="all",
        source_vocabulary=300, target_vocabulary=300, max_positions=64,
    )  # fmt: skip
    return build(config).eval()


def vocab() -> Vocab:
    return inspector("v1").vocab


def cross(layer: int, head: int | None, rows: str = "written", measure: str = "attention") -> AlignmentHead:
    name = f"decoder.layers.{layer}.cross_attention"
    return AlignmentHead.model_validate({"layer": name, "head": head, "rows": rows, "measure": measure})


def pairs() -> list[TokenPair]:
    return [tokenize_pair(vocab(), SOURCES[i], TARGETS[i]) for i in WHOLE]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_head_links_as_it_does_in_traces(name: str) -> None:
    model = inspector(name)
    traces = [model.trace(SOURCES[i], TARGETS[i]) for i in WHOLE]
    for head in links_of_heads(traces[0])[0]:
        found = Aligner(model.model, model.vocab, (head,)).links(SOURCES, TARGETS)
        assert [found[i] for i in WHOLE] == [head_links(trace, head) for trace in traces], head
        assert found[3] == found[4] == frozenset()


def same(one: WordMap, other: WordMap) -> None:
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    "heads",
    [
        (cross(1, None),),
        (cross(0, 2, "read", "norm"),),
        (cross(2, 1), cross(0, None, "read"), cross(2, 3, "read", "norm")),
    ],
    ids=["a mean", "norms", "several"],
)
def test_a_pair_is_aligned_the_same_in_a_batch_and_alone(heads: tuple[AlignmentHead, ...]) -> None:
    aligner = Aligner(larger(), vocab(), heads)
    together = aligner.word_maps(pairs())
    assert len({len(pair.source) for pair in pairs()} | {len(pair.target) for pair in pairs()}) > 3
    for pair, given in zip(pairs(), together, strict=True):
        same(aligner.word_maps([pair])[0], given)


def test_a_pair_is_aligned_the_same_in_a_batch_and_alone_by_a_recurrent_model() -> None:
    model = inspector("v1-recurrent")
    aligner = Aligner(model.model, model.vocab)
    some = [tokenize_pair(model.vocab, SOURCES[i], TARGETS[i]) for i in WHOLE]
    for pair, given in zip(some, aligner.word_maps(some), strict=True):
        same(aligner.word_maps([pair])[0], given)


def test_small_batches_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    aligner = Aligner(larger(), vocab())
    whole = aligner.word_maps(pairs())
    sizes = []
    of_batch = Aligner._align_batch
    monkeypatch.setattr(Aligner, "_align_batch", lambda self, batch: sizes.append(len(batch)) or of_batch(self, batch))
    monkeypatch.setattr(aligner_file, "BATCH_TOKENS", 75)
    for one, other in zip(aligner.word_maps(pairs()), whole, strict=True):
        same(one, other)
    assert sizes == [2, 2]


def test_several_heads_are_averaged_as_shares() -> None:
    heads = (cross(0, 1), cross(2, None, "read", "norm"))
    first, second = (Aligner(larger(), vocab(), (head,)).word_maps(pairs()) for head in heads)
    for one, norms, mean in zip(first, second, Aligner(larger(), vocab(), heads).word_maps(pairs()), strict=True):
        total = norms.words.sum(1) + norms.eos
        assert np.abs(total - 1).max() > 0.1  # norms are no shares yet
        np.testing.assert_allclose(one.words.sum(1) + one.eos, 1, atol=1e-6)
        np.testing.assert_allclose(mean.words, (one.words + norms.words / total[:, None]) / 2, atol=1e-6)
        np.testing.assert_allclose(mean.eos, (one.eos + norms.eos / total) / 2, atol=1e-6)


def test_only_the_attention_that_is_asked_for_leaves_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    softmax = attend.masked_softmax
    monkeypatch.setattr(attend, "masked_softmax", lambda *given: seen.append(given[0].shape) or softmax(*given))
    monkeypatch.setattr(larger().projection, "forward", None)  # nor is any token scored
    Aligner(larger(), vocab(), (cross(2, 1), cross(2, None), cross(0, 1))).word_maps(pairs())
    longest = [max(len(side) for side in sides) for sides in zip(*pairs(), strict=True)]
    assert seen == [(len(WHOLE), 4, longest[1], longest[0])] * 2


def test_progress_is_reported_over_all_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Aligner(larger(), vocab()).links(SOURCES, TARGETS)
    monkeypatch.setattr(aligner_file, "WINDOW", 3)
    reports: list[tuple[object, ...]] = []
    assert Aligner(larger(), vocab()).links(SOURCES, TARGETS, lambda *report: reports.append(report)) == whole
    assert [report[:3] for report in reports] == [("align", 3, 4), ("align", 4, 4)]


def test_nothing_gives_nothing() -> None:
    assert Aligner(larger(), vocab()).links([], []) == []
    assert Aligner(larger(), vocab()).links(["", " \t"], ["", "ja"]) == [frozenset()] * 2
    assert Aligner(larger(), vocab()).links(["\u2060 \u2060"], ["zwei rote"]) == [frozenset()]  # mended, it is empty


def test_links_count_the_words_of_the_lines_as_they_stand() -> None:
    aligner = Aligner(inspector("v1").model, vocab())
    (plain,) = aligner.links(["two red dogs."], ["zwei rote Hunde."])
    (odd,) = aligner.links([" two \u2060 red\tdogs. "], ["zwei  rote \u2060 \u2060 Hunde."])
    assert odd == {({0: 0, 1: 2, 2: 3}[source], {0: 0, 1: 1, 2: 4}[target]) for source, target in plain}


def test_a_translation_is_aligned_by_the_tokens_that_were_chosen() -> None:
    translator = Translator.load(GOLDEN / "v1")
    lines = ["two red dogs.", "", "ten  old houses."]
    parts = [sentence.segments for sentence in translator.sentences(lines)]
    texts = [" ".join(part.text for part in some) for some in parts]
    aligner = Aligner(translator.engine.model, vocab())
    assert aligner.links_of(lines, parts) == aligner.links(lines, texts)


def test_tokens_that_no_text_is_cut_into_are_aligned_as_they_were_written() -> None:
    model, target = inspector("v1"), vocab().target
    usual = target.encode(["rote zwei"]).ids.tolist()[:-1]
    numbers = {target.piece(token): token for token in range(target.size)}
    place = usual.index(numbers["te"])
    tokens = (*usual[:place], numbers["t"], numbers["e"], *usual[place + 1 :])
    assert target.decode(tokens) == "rote zwei"
    captured = model.capture(model.tokenize_source(SOURCES[0]), Tokens.from_ids(target, [*tokens, EOS]))
    for head in links_of_heads(captured)[0]:
        part = Segment(SOURCES[0], (Hypothesis(tokens, (), 0.0, False),), "rote zwei")
        (found,) = Aligner(model.model, vocab(), (head,)).links_of(SOURCES[:1], [[part]])
        assert found == head_links(captured, head), head


def test_a_text_that_was_cut_is_counted_through() -> None:
    translator = Translator.load(GOLDEN / "v1")
    line = " ".join(["two red dogs."] * 9 + ["ten old houses."] * 9)
    parts = translator.sentences([line])[0].segments
    assert len(parts) > 1
    aligner = Aligner(translator.engine.model, vocab())
    (found,) = aligner.links_of([line], [parts])
    expected, sources, targets = set(), 0, 0
    for part in parts:
        (own,) = aligner.links_of([part.source], [[part]])
        expected |= {(source + sources, target + targets) for source, target in own}
        sources, targets = sources + len(part.source.split()), targets + len(part.text.split())
    assert found == expected
    assert sources == len(line.split())
    assert {target for _, target in found} == set(range(targets))


def test_the_guess_is_the_second_last_layer_or_the_only_one() -> None:
    assert guess_head(cross_attentions(larger())) == cross(1, None)
    assert Aligner(larger(), vocab()).is_guess
    assert not Aligner(larger(), vocab(), (cross(1, None),)).is_guess
    assert guess_head(cross_attentions(inspector("v1").model)) == cross(0, None)
    assert cross_attentions(inspector("v1-recurrent").model) == ["decoder.attention"]


def test_a_bundle_is_aligned_by_the_heads_that_are_stored_in_it(tmp_path: Path) -> None:
    golden = open_bundle(GOLDEN / "v1")
    assert Aligner.of(golden).is_guess
    info = golden.info.model_copy(update={"alignment_heads": (cross(0, 1, "read"),)})
    bundle = write_bundle(tmp_path / "b", info, golden.weights(), golden.vocab, golden.card)
    assert Aligner.of(bundle).heads == (cross(0, 1, "read"),)
    assert Aligner.of(bundle, (cross(0, 0),)).heads == (cross(0, 0),)


@pytest.fixture
def damaged() -> Iterator[Seq2Seq]:
    model = larger()
    weight = model.encoder.layers[0].feed_forward.expand.weight.data
    kept = weight[0, 0].clone()
    weight[0, 0] = torch.nan
    yield model
    weight[0, 0] = kept


def test_a_damaged_model_is_refused(damaged: Seq2Seq) -> None:
    with pytest.raises(ValueError, match="computes NaN"):
        Aligner(damaged, vocab()).links(SOURCES, TARGETS)


def test_what_cannot_be_aligned_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no cross-attention 'decoder\.attention': choose from decoder\.layers\.0\."):
        Aligner(larger(), vocab(), (AlignmentHead(layer="decoder.attention", head=0),))
    with pytest.raises(ValueError, match="there is no head 4 in"):
        Aligner(larger(), vocab(), (cross(0, 3), cross(1, 4)))
    with pytest.raises(ValueError, match="there is no head 1"):
        Aligner(inspector("v1-recurrent").model, vocab(), (AlignmentHead(layer="decoder.attention", head=1),))
    with pytest.raises(ValueError, match=r"line 2 of the target has \d+ tokens, but this model takes at most 64"):
        Aligner(larger(), vocab()).links(["two", "red"], ["zwei", "rote Hunde " * 40])
    blind = RecurrentConfig(context="first", source_vocabulary=300, target_vocabulary=300, d_model=8, d_embedding=6)
    with pytest.raises(ValueError, match="cannot align"):
        Aligner(build(blind).eval(), vocab())
    with pytest.raises(ValueError, match="training mode"):
        Aligner(build(larger().config), vocab()).word_maps(pairs())
