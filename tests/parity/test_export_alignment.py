"""Links by the attention that CTranslate2 shows are those that torch finds by the same heads."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dragoman.alignment.aligner import Aligner
from dragoman.alignment.export_aligner import ExportAligner
from dragoman.alignment.moses import to_moses
from dragoman.alignment.words import TokenPair, tokenize_pair
from dragoman.bundle import Bundle, Export, ExportCheck, demo_folder, open_bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.writing import store_alignment_heads
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.options import SearchOptions
from dragoman.export.ctranslate2 import weights_file
from dragoman.inspection.export_trace import trace_export
from dragoman.inspection.exports import moses
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.view import choose
from dragoman.io.durable import FileInfo
from dragoman.translation.export_check import export_bundle
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
TEXTS = [
    "Where is the station?",
    "yes",
    "The old man sat on the bench in the park and read a book about the history of the city.",
    "Click OK to save the document.",
    "I have  never\tseen him.",
    "supercalifragilisticexpialidocious 12345",
]
TARGETS = ["Wo ist der Bahnhof?", "ja", "Der Mann saß im Park.", "Das Haus ist rot.", "Ich sah ihn nie.", "Zahl 9"]


def cross(layer: int, head: int | None, rows: str = "written") -> AlignmentHead:
    name = f"decoder.layers.{layer}.cross_attention"
    return AlignmentHead.model_validate({"layer": name, "head": head, "rows": rows})


def engine(bundle: Bundle, heads: tuple[AlignmentHead, ...]) -> CTranslate2Engine:
    file = FileInfo(file="of-this-test.bin", sha256="0" * 64, num_bytes=0)
    proof = ExportCheck(texts=0, identical=0, largest_difference=0.0, mean_difference=0.0, held_out=False)
    export = Export(store="float32", file=file, kept=False, alignment_heads=heads, proof=proof)
    return CTranslate2Engine.of(bundle, export, weights_file(bundle, "float32", heads), threads=1)


@cache
def demo() -> Bundle:
    return open_bundle(demo_folder())


@pytest.mark.slow
@pytest.mark.parametrize(
    "heads",
    [(cross(1, 2),), (cross(2, 3), cross(2, 0)), (cross(0, None),), (cross(2, 1, "read"),)],
    ids=["one", "two", "all", "read"],
)
def test_links_are_those_of_torch(heads: tuple[AlignmentHead, ...]) -> None:
    bundle = demo()
    ours = ExportAligner(engine(bundle, heads), bundle.vocab)
    theirs = Aligner.of(bundle, heads)
    translator = Translator(ours.engine, bundle.vocab, SearchOptions(beam_size=2))
    written = [sentence.segments for sentence in translator.sentences(TEXTS)]
    found = ours.links_of(TEXTS, written)
    assert found == theirs.links_of(TEXTS, written)
    assert all(found)


@pytest.mark.parametrize("heads", [(cross(1, 2),), (cross(2, 3), cross(2, 0)), (cross(0, None),)])
def test_what_each_word_gave_is_what_it_gave_in_torch_even_to_targets_that_no_search_would_choose(
    heads: tuple[AlignmentHead, ...],
) -> None:
    bundle = demo()
    pairs: list[TokenPair] = [tokenize_pair(bundle.vocab, *pair) for pair in zip(TEXTS, TARGETS, strict=True)]
    ours = ExportAligner(engine(bundle, heads), bundle.vocab).word_maps(pairs)
    theirs = Aligner.of(bundle, heads).word_maps(pairs)
    for here, there in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(here.words, there.words, atol=1e-5)
        np.testing.assert_allclose(here.eos, there.eos, atol=1e-5)


def test_other_heads_would_be_seen() -> None:
    bundle = demo()
    pairs = [tokenize_pair(bundle.vocab, TEXTS[2], TARGETS[2])]
    (one,) = ExportAligner(engine(bundle, (cross(1, 2),)), bundle.vocab).word_maps(pairs)
    (other,) = Aligner.of(bundle, (cross(1, 3),)).word_maps(pairs)
    assert np.abs(one.words - other.words).max() > 0.1


def test_an_empty_target_has_one_row() -> None:
    bundle = open_bundle(GOLDEN)
    source = bundle.vocab.source.encode(["two red dogs."]).ids.tolist()
    shown = engine(bundle, (cross(0, 1),)).attention([source, source], [[], [7, 8]])
    assert [weights.shape for weights in shown] == [(1, len(source)), (3, len(source))]
    for weights in shown:
        np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-6)


def test_an_export_without_heads_cannot_align() -> None:
    bundle = open_bundle(GOLDEN)
    with pytest.raises(ValueError, match="has no alignment head"):
        ExportAligner(engine(bundle, ()), bundle.vocab)


@pytest.fixture(scope="module")
def aligning(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A model whose stored head is measured by attention weights, so that its export returns them."""
    folder = tmp_path_factory.mktemp("aligning") / "model"
    shutil.copytree(demo_folder(), folder)
    store_alignment_heads(folder, (cross(0, 2, "read"),))
    return export_bundle(folder, "float32", TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, "Wo ist denn der Hund?"])
def test_a_trace_without_torch_is_the_alignment_head_of_a_trace_with_it(aligning: Bundle, target: str | None) -> None:
    bundle, (head,) = aligning, aligning.info.alignment_heads
    assert head.head is not None
    with_torch, without = Inspector.of(bundle).trace(TEXTS[0], target), trace_export(bundle, TEXTS[0], target)
    assert (without.source, without.target, without.free) == (with_torch.source, with_torch.target, target is None)
    assert without.log_probabilities == pytest.approx(with_torch.log_probabilities, abs=1e-4)
    ((name, weights),) = without.attention.items()
    assert name == f"{head.layer}.{head.head}"
    np.testing.assert_allclose(weights, with_torch.attention[head.layer][[head.head]], atol=1e-5)
    assert moses(without, choose(without)) == moses(with_torch, choose(with_torch))


@pytest.mark.slow
def test_inspect_and_align_show_the_alignment_head_where_torch_is_not_installed(
    aligning: Bundle, tmp_path: Path
) -> None:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("Where is the dog?\n")
    target.write_text("Wo ist der Hund?\n")
    model, files = str(aligning.folder), ["--source", str(source), "--target", str(target)]
    inspected = without_torch(
        "inspect", "Where is the dog?", "--target", "Wo ist der Hund?", "--model", model, "--moses", "-"
    )
    aligned = without_torch("align", model, *files)
    expected = Aligner.of(aligning).links(["Where is the dog?"], ["Wo ist der Hund?"])
    assert inspected.stdout == aligned.stdout == f"{to_moses(expected[0])}\n", inspected.stderr + aligned.stderr
    for command in (["inspect", "One.", "--model", model, "--layer", "0"], ["align", model, *files, "--layer", "0"]):
        refused = without_torch(*command)
        assert refused.returncode == 2
        assert "--layer" in refused.stderr


def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.modules['torch'] = None; sys.argv[0] = 'dragoman'"
    code += "; from dragoman.cli.main import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
