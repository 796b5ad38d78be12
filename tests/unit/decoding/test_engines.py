"""Which engine is used: the fast one wherever it does what is asked, the other with the reason said."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import Bundle, Export, open_bundle
from dragoman.bundle.writing import store_export
from dragoman.decoding import engines
from dragoman.decoding.engines import Engine, open_engine, search
from dragoman.decoding.options import SearchOptions
from dragoman.export.ctranslate2 import weights_file

GOLDEN = Path(__file__).parents[2] / "golden"
PLAIN = SearchOptions(beam_size=2)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """With an export."""
    folder = Path(shutil.copytree(GOLDEN / "v1", tmp_path_factory.mktemp("exported") / "model"))
    content = weights_file(open_bundle(folder))
    return store_export(folder, Export.untried(content, kept=False), content)


def test_left_to_itself_it_is_ctranslate2(bundle: Bundle) -> None:
    for name in ("auto", "ctranslate2"):
        engine, reason = open_engine(bundle, PLAIN, name)
        assert (engine.name, reason) == ("ctranslate2", None)
        assert isinstance(engine, Engine)


def test_torch_is_used_when_it_is_asked_for(bundle: Bundle) -> None:
    engine, reason = open_engine(bundle, PLAIN, "torch")
    assert (engine.name, reason) == ("torch", None)


WHY_TORCH: dict[str, tuple[str, dict[str, Any], str]] = {
    "a model without an export": ("v1", {}, "this model has no export yet: dragoman export "),
    "a recurrent model": ("v1-recurrent", {}, "CTranslate2 has no recurrent models"),
    "another way to stop": ("", {"stop": "safe"}, "stop: safe is for torch alone; CTranslate2 stops by count"),
    "a shortest length": ("", {"min_length": 3}, "min_length: 3 is for torch alone"),
}


@pytest.mark.parametrize("name", WHY_TORCH)
def test_what_ctranslate2_cannot_do_is_done_by_torch_and_the_reason_said(name: str, bundle: Bundle) -> None:
    model, options, said = WHY_TORCH[name]
    asked = open_bundle(GOLDEN / model) if model else bundle
    engine, reason = open_engine(asked, SearchOptions(beam_size=2, **options))
    assert engine.name == "torch"
    assert (reason or "").startswith(said)
    with pytest.raises(ValueError, match=f"the ctranslate2 engine cannot be used: {said}"):
        open_engine(asked, SearchOptions(beam_size=2, **options), "ctranslate2")


def test_whole_numbers_are_not_for_torch(bundle: Bundle) -> None:
    with pytest.raises(ValueError, match=r"--compute int8 is for the ctranslate2 engine, and this is torch$"):
        open_engine(bundle, PLAIN, "torch", compute="int8")
    with pytest.raises(ValueError, match="and this is torch: CTranslate2 has no recurrent models"):
        open_engine(open_bundle(GOLDEN / "v1-recurrent"), PLAIN, compute="int16")
    assert open_engine(bundle, PLAIN, "torch", compute="float32").engine.name == "torch"


def test_threads_are_a_whole_number_from_one_on(bundle: Bundle) -> None:
    for name in ("torch", "ctranslate2"):
        for threads in (0, -1):
            with pytest.raises(ValueError, match=f"^threads {threads}: give a whole number, 1 or more$"):
                open_engine(bundle, PLAIN, name, threads)


def test_without_torch_the_message_says_what_to_install(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    assert open_engine(bundle, PLAIN).engine.name == "ctranslate2"
    with pytest.raises(ValueError, match=r"^the torch engine is not installed: pip install 'dragoman\[train\]'"):
        open_engine(bundle, PLAIN, "torch")
    with pytest.raises(ValueError, match=r"has no export yet: .*, and the torch engine is not installed"):
        open_engine(open_bundle(GOLDEN / "v1"), PLAIN)


def test_threads_are_torchs_when_it_is_torch(bundle: Bundle) -> None:
    before = torch.get_num_threads()
    try:
        open_engine(bundle, PLAIN, "torch", threads=before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_results_come_in_the_order_of_their_sources(bundle: Bundle) -> None:
    texts = ["two red dogs.", "ten", "four green women.", "old houses."]
    rows = bundle.vocab.source.encode(texts).rows()
    for name in ("torch", "ctranslate2"):
        engine = open_engine(bundle, PLAIN, name).engine
        found = search(engine, rows, PLAIN)
        assert [result.best.tokens for result in found] == [search(engine, [r], PLAIN)[0].best.tokens for r in rows]
        assert bundle.vocab.target.decode(found[0].best.tokens) == "zwei rote Hunde."
