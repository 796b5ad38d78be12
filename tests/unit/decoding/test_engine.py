"""Which engine is used: the fast one wherever it can, the other with the reason."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import Bundle, Export, open_bundle
from dragoman.bundle.writing import store_export
from dragoman.decoding import engine
from dragoman.decoding.engine import Engine, open_engine, search
from dragoman.decoding.options import EngineOptions, SearchOptions
from dragoman.export.ctranslate2 import weights_file

GOLDEN = Path(__file__).parents[2] / "golden"
PLAIN = SearchOptions(beam_size=2)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """With an export."""
    folder = Path(shutil.copytree(GOLDEN / "v1", tmp_path_factory.mktemp("exported") / "model"))
    content = weights_file(open_bundle(folder))
    return store_export(folder, Export.unchecked(content, kept=False), content)


def test_left_to_itself_it_is_ctranslate2(bundle: Bundle) -> None:
    for name in ("auto", "ctranslate2"):
        engine, search_options, reason, warning = open_engine(bundle, PLAIN, EngineOptions(name))
        assert (engine.name, search_options, reason, warning) == ("ctranslate2", PLAIN, None, None)
        assert isinstance(engine, Engine)


def test_torch_is_used_when_it_is_named(bundle: Bundle) -> None:
    opened = open_engine(bundle, PLAIN, EngineOptions("torch"))
    assert (opened.engine.name, opened.reason) == ("torch", None)


WHY_TORCH: dict[str, tuple[str, dict[str, Any], str]] = {
    "a model without an export": ("v1", {}, "this model has no export: run dragoman export "),
    "a recurrent model": ("v1-recurrent", {}, "CTranslate2 has no recurrent models"),
    "a shortest length": ("", {"min_length": 3}, "min_length: 3 is supported by the torch engine only"),
}


@pytest.mark.parametrize("name", WHY_TORCH)
def test_torch_does_what_ctranslate2_cannot_with_the_reason(name: str, bundle: Bundle) -> None:
    model, options, reason = WHY_TORCH[name]
    requested = open_bundle(GOLDEN / model) if model else bundle
    opened = open_engine(requested, SearchOptions(beam_size=2, **options))
    assert opened.engine.name == "torch"
    assert (opened.reason or "").startswith(reason)
    with pytest.raises(ValueError, match=f"the ctranslate2 engine cannot be used: {reason}"):
        open_engine(requested, SearchOptions(beam_size=2, **options), EngineOptions("ctranslate2"))


@pytest.mark.parametrize("stop", ["safe", "never"])
@pytest.mark.parametrize("name", ["auto", "ctranslate2"])
def test_ctranslate2_stops_by_count_and_warns(stop: str, name: str, bundle: Bundle) -> None:
    opened = open_engine(bundle, SearchOptions(beam_size=2, stop=stop), EngineOptions(name))
    assert (opened.engine.name, opened.search, opened.reason) == ("ctranslate2", PLAIN, None)
    assert f"stop: {stop}" in (opened.warning or "")
    kept = open_engine(bundle, SearchOptions(beam_size=2, stop=stop), EngineOptions("torch"))
    assert (kept.search.stop, kept.warning) == (stop, None)


def test_sampling_needs_torch(bundle: Bundle) -> None:
    assert open_engine(bundle, PLAIN, is_sampling=True).engine.name == "torch"
    with pytest.raises(ValueError, match="cannot be used: sampling"):
        open_engine(bundle, PLAIN, EngineOptions("ctranslate2"), is_sampling=True)


def test_whole_numbers_are_not_for_torch(bundle: Bundle) -> None:
    with pytest.raises(ValueError, match=r"compute int8 does not work with the torch engine: use float32$"):
        open_engine(bundle, PLAIN, EngineOptions("torch", compute="int8"))
    with pytest.raises(ValueError, match=r"the torch engine \(CTranslate2 has no recurrent models"):
        open_engine(open_bundle(GOLDEN / "v1-recurrent"), PLAIN, EngineOptions(compute="int16"))
    assert open_engine(bundle, PLAIN, EngineOptions("torch", compute="float32")).engine.name == "torch"


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_are_a_whole_number_from_one_on(threads: int) -> None:
    with pytest.raises(ValueError, match=f"^threads {threads} is not a positive integer"):
        EngineOptions(threads=threads)


def test_without_torch_the_message_says_what_to_install(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda _: None)
    assert open_engine(bundle, PLAIN).engine.name == "ctranslate2"
    with pytest.raises(ValueError, match=r"^torch is not installed: pip install 'dragoman\[train\]'"):
        open_engine(bundle, PLAIN, EngineOptions("torch"))
    with pytest.raises(ValueError, match=r"torch is not installed, and .*has no export"):
        open_engine(open_bundle(GOLDEN / "v1"), PLAIN)


def test_threads_are_torchs_when_it_is_torch(bundle: Bundle) -> None:
    before = torch.get_num_threads()
    try:
        open_engine(bundle, PLAIN, EngineOptions("torch", threads=before + 1))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_results_come_in_the_order_of_their_sources(bundle: Bundle) -> None:
    texts = ["two red dogs.", "ten", "four green women.", "old houses."]
    rows = bundle.vocab.source.encode(texts).rows()
    for name in ("torch", "ctranslate2"):
        loaded = open_engine(bundle, PLAIN, EngineOptions(name)).engine
        found = search(loaded, rows, PLAIN)
        assert [result.best.tokens for result in found] == [search(loaded, [r], PLAIN)[0].best.tokens for r in rows]
        assert bundle.vocab.target.decode(found[0].best.tokens) == "zwei rote Hunde."
