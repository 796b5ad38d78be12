"""What CTranslate2 is given: it works with nothing but itself and SentencePiece, and the bundle stays as it is."""

import json
import shutil
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import sentencepiece

from dragoman.bundle import open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.decoding.options import EngineOptions
from dragoman.export.ctranslate2 import exportable_heads, pieces, settings_files, weights_file
from dragoman.io.durable import hash_file
from dragoman.translation.export_formats import ExportFormatRequest, export_as
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
STORES: list[ExportStore] = ["float32", "int16", "int8"]


@pytest.mark.parametrize("store", STORES)
def test_a_folder_works_with_ctranslate2_and_sentencepiece_alone(store: ExportStore, tmp_path: Path) -> None:
    bundle = open_bundle(GOLDEN / "v1")
    export_as(bundle, ExportFormatRequest("ctranslate2", tmp_path / "plain", store))
    translator = ctranslate2.Translator(str(tmp_path / "plain"), compute_type=store)
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "plain" / "vocab.model"))
    texts = ["two red dogs.", "ten old houses.", "four green women."][: 2 if store == "int8" else 3]
    rows = [subwords.encode(text, out_type=str) for text in texts]
    found = translator.translate_batch(rows, beam_size=3, max_input_length=0)
    written = [subwords.decode(result.hypotheses[0]) for result in found]
    assert written == ["zwei rote Hunde.", "zehn alte Häuser.", "vier grüne Frauen."][: len(texts)]
    assert written == Translator.load(bundle, EngineOptions("torch")).translate(texts)


def test_the_folder_holds_what_is_needed_and_no_more(tmp_path: Path) -> None:
    bundle = open_bundle(GOLDEN / "v1")
    export_as(bundle, ExportFormatRequest("ctranslate2", tmp_path))
    names = ["README.md", "config.json", "model.bin", "shared_vocabulary.json", "vocab.model"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert (tmp_path / "model.bin").read_bytes() == weights_file(bundle, "float32", exportable_heads(bundle))
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["layer_norm_epsilon"] == bundle.info.model.norm_epsilon
    assert (settings["add_source_eos"], settings["add_source_bos"]) == (True, False)


@pytest.mark.parametrize("store", STORES)
def test_making_it_changes_neither_the_weights_nor_the_files(store: ExportStore, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "v1", tmp_path / "model"))
    before = {path.name: hash_file(path) for path in folder.iterdir()}
    bundle = open_bundle(folder)
    weights = bundle.weights()
    kept = {name: array.copy() for name, array in weights.items()}
    object.__setattr__(bundle, "weights", lambda: weights)
    assert weights_file(bundle, store) == weights_file(open_bundle(folder), store)
    assert all(np.array_equal(array, kept[name]) for name, array in weights.items())
    assert {path.name: hash_file(path) for path in folder.iterdir()} == before


def test_vocabularies_are_one_file_or_two() -> None:
    joint, separate = open_bundle(GOLDEN / "v1"), open_bundle(GOLDEN / "v1-recurrent").vocab
    assert json.loads(settings_files(joint)["shared_vocabulary.json"]) == pieces(joint.vocab.source)
    assert pieces(joint.vocab.source)[:4] == [joint.vocab.source.piece(token) for token in range(4)]
    object.__setattr__(joint, "vocab", separate)
    files = settings_files(joint)
    assert sorted(files) == ["config.json", "source_vocabulary.json", "target_vocabulary.json"]
    assert json.loads(files["target_vocabulary.json"]) == pieces(separate.target)


def test_a_piece_that_is_there_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    subwords = open_bundle(GOLDEN / "v1").vocab.source
    names = tuple("x" if token in (5, 7) else str(token) for token in range(subwords.size))
    monkeypatch.setattr(type(subwords), "pieces", names)
    with pytest.raises(ValueError, match="the token 'x' more than once"):
        pieces(subwords)


def test_what_it_cannot_express_says_why() -> None:
    with pytest.raises(ValueError, match="cannot export this model: CTranslate2 has no recurrent models"):
        weights_file(open_bundle(GOLDEN / "v1-recurrent"))
