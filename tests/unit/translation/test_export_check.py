"""An export is tried before it is one: what differs is refused and shown, and then nothing has changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle import Bundle, open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.options import EngineOptions
from dragoman.decoding.torch_engine import load_model
from dragoman.export.ctranslate2 import weights_file
from dragoman.io.durable import hash_file
from dragoman.translation import export_check
from dragoman.translation.export_check import export_bundle, made_up_sentences
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
TEXTS = ["two red dogs.", "ten old houses.", "four green women.", "three old tables.", "two red dogs.", ""]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "v1", tmp_path / "model"))


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hash_file(path) for path in folder.iterdir()}


def test_what_was_compared_is_in_the_record(folder: Path) -> None:
    (export,) = export_bundle(folder, "float32", TEXTS).exports
    assert (export.store, export.kept, export.engine) == ("float32", True, "ctranslate2")
    assert (export.proof.texts, export.proof.identical, export.proof.held_out) == (4, 4, True)
    assert 0.0 < export.proof.mean_difference < export.proof.largest_difference < 1e-4


def test_neither_weights_nor_other_files_change(folder: Path) -> None:
    model = load_model(open_bundle(folder))
    weights = {name: parameter.clone() for name, parameter in model.named_parameters()}
    before = contents(folder)
    for store in ("float32", "int16"):
        export_bundle(folder, store, TEXTS)
    after = contents(folder)
    assert {name for name in before if before[name] != after[name]} == {"manifest.json"}
    assert all(parameter.equal(weights[name]) for name, parameter in model.named_parameters())
    again = load_model(open_bundle(folder))
    assert all(parameter.equal(weights[name]) for name, parameter in again.named_parameters())


def test_what_is_tried_is_what_is_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []
    of = CTranslate2Engine.of

    def watched(bundle: Bundle, export: object, content: bytes, *others: object, **more: object) -> object:
        tried.append(content)
        return of(bundle, export, content, *others, **more)

    monkeypatch.setattr(CTranslate2Engine, "of", staticmethod(watched))
    (export,) = export_bundle(folder, "int16", TEXTS).exports
    assert tried == [(folder / export.file.file).read_bytes()]


def test_an_export_that_is_not_kept_is_made_anew(folder: Path) -> None:
    bundle = export_bundle(folder, "float32", TEXTS, keep=False)
    assert not list(folder.glob("ctranslate2.*"))
    assert not bundle.exports[0].kept
    translator = Translator.load(bundle, EngineOptions("torch"))
    engine = CTranslate2Engine.load(bundle)
    assert Translator(engine, bundle.vocab, translator.options).translate(TEXTS) == translator.translate(TEXTS)


@pytest.mark.parametrize("store", ["int16", "int8"])
def test_rounding_is_measured_and_recorded(folder: Path, store: ExportStore, request: pytest.FixtureRequest) -> None:
    if store == "int8":
        request.getfixturevalue("exact_int8")
    (export,) = export_bundle(folder, store, TEXTS).exports
    assert 0.0 < export.proof.mean_difference < 0.1
    assert export.proof.mean_difference < export.proof.largest_difference


def test_without_text_sentences_are_made_up_and_it_says_so(folder: Path) -> None:
    bundle = export_bundle(folder, "float32", ["", "  "])
    assert bundle.exports[0].proof.held_out is False
    assert bundle.exports[0].proof.texts > 100
    texts = made_up_sentences(bundle)
    assert texts == made_up_sentences(bundle)
    assert len(texts) == 200
    assert made_up_sentences(bundle, 3, seed=7) != texts[:3]


SPOILT = "decoder.layers.0.cross_attention.output.weight"


def spoilt(change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., bytes]:
    """A converter that makes a mistake in one matrix."""

    def converter(bundle: Bundle, *given: object) -> bytes:
        weights = bundle.weights()
        weights[SPOILT] = change(weights[SPOILT])
        broken = open_bundle(bundle.folder)
        object.__setattr__(broken, "weights", lambda: weights)
        return weights_file(broken, *given)

    return converter


REFUSED: dict[str, tuple[ExportStore, Callable[[np.ndarray], np.ndarray], str]] = {
    "slightly other weights": ("float32", lambda array: array * 2, r"differs by \d+.*, more than 0\.001"),
    "rows in another order": ("float32", lambda array: array[::-1].copy(), "more than 0.001"),
    "far too coarse": ("int8", lambda array: np.round(array), r"on average, more than 0\.1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_export_that_gives_something_else_is_refused_and_nothing_has_changed(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, change, error = REFUSED[name]
    monkeypatch.setattr(export_check, "weights_file", spoilt(change))
    before = contents(folder)
    with pytest.raises(
        ValueError, match=rf"the {store} export differs from torch: .*{error}.* becomes '.*', and with torch '"
    ):
        export_bundle(folder, store, TEXTS)
    assert contents(folder) == before
    assert open_bundle(folder).exports == ()


def test_weights_that_are_no_numbers_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_check, "weights_file", spoilt(lambda array: array * np.nan))
    with pytest.raises(ValueError, match="the model's scores are NaN"):
        export_bundle(folder, "float32", TEXTS)
    assert open_bundle(folder).exports == ()


def test_another_search_is_refused_even_where_the_model_is_right(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CTranslate2Engine, "_limit", lambda *_: 4)
    with pytest.raises(ValueError, match=r"only 0 of 4 translations are the same; 'two red dogs\.' becomes '"):
        export_bundle(folder, "float32", TEXTS)
    assert open_bundle(folder).exports == ()


def test_a_recurrent_model_says_why_not(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(GOLDEN / "v1-recurrent", tmp_path / "model"))
    with pytest.raises(ValueError, match="cannot export this model: CTranslate2 has no recurrent models"):
        export_bundle(copy)
