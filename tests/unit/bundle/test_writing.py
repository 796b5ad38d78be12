"""Writing a bundle: whole or not at all, over an old one too, and never over anything else."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.bundle import Bundle, BundleInfo, Card, open_bundle, write_bundle, writing
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.file_names import CONFIG, MANIFEST, NEXT_MANIFEST, WEIGHTS
from dragoman.bundle.writing import store_alignment_heads
from dragoman.io.durable import UNFINISHED, hash_file

GOLDEN = open_bundle(Path(__file__).parents[2] / "golden" / "v1")
FILES = {"README.md", "card.json", "config.json", "manifest.json", "model.safetensors", "vocab.model"}


def write(folder: Path, card: Card = GOLDEN.card, **options: Any) -> Bundle:
    return write_bundle(folder, GOLDEN.info, GOLDEN.weights(), GOLDEN.vocab, card, **options)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    bundle = write(tmp_path / "run" / "bundle")
    assert names(tmp_path / "run") == {"bundle"}
    assert names(bundle.folder) == FILES
    assert (bundle.info, bundle.card) == (GOLDEN.info, GOLDEN.card)
    for name, array in bundle.weights().items():
        np.testing.assert_array_equal(array, GOLDEN.weights()[name])
    assert bundle.vocab.sha256 == GOLDEN.vocab.sha256


def test_the_same_model_has_the_same_bytes(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one"), write(tmp_path / "other")
    assert one.sha256 == other.sha256
    for name in FILES:
        assert hash_file(one.folder / name) == hash_file(other.folder / name)


def test_half_precision_takes_half_the_space_and_comes_back_as_float32(tmp_path: Path) -> None:
    single, half = write(tmp_path / "single"), write(tmp_path / "half", store="float16")
    sizes = [(bundle.folder / WEIGHTS).stat().st_size for bundle in (single, half)]
    assert sizes[0] - sizes[1] == pytest.approx(2 * 18_320, abs=100)
    for name, array in half.weights().items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, GOLDEN.weights()[name], rtol=2**-11, atol=2**-25)


def test_a_number_too_large_for_half_precision_is_refused_by_name(tmp_path: Path) -> None:
    weights = GOLDEN.weights()
    weights["encoder.embedding.tokens.weight"][7, 3] = 1e5
    with pytest.raises(ValueError, match=r"encoder\.embedding\.tokens\.weight has .* in float16: store float32"):
        write_bundle(tmp_path / "b", GOLDEN.info, weights, GOLDEN.vocab, GOLDEN.card, "float16")
    assert names(tmp_path) == set()


def test_weights_that_are_nan_are_refused(tmp_path: Path) -> None:
    weights = GOLDEN.weights()
    weights["encoder.embedding.tokens.weight"][7, 3] = np.nan
    with pytest.raises(ValueError, match="diverged"):
        write_bundle(tmp_path / "b", GOLDEN.info, weights, GOLDEN.vocab, GOLDEN.card)


def test_weights_that_are_not_all_there_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    weights = GOLDEN.weights()
    weights.popitem()
    with pytest.raises(ValueError, match=r"but the model in config\.json has 18,320"):
        write_bundle(tmp_path / "b", GOLDEN.info, weights, GOLDEN.vocab, GOLDEN.card)
    assert names(tmp_path) == set()


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    other = open_bundle(GOLDEN.folder.with_name("v1-recurrent")).vocab
    with pytest.raises(ValueError, match=r"the vocabulary sizes are \(285, 285\), but the model has \(300, 300\)"):
        write_bundle(tmp_path / "b", GOLDEN.info, GOLDEN.weights(), other, GOLDEN.card)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("at_once", [True, False], ids=["exchanged", "renamed"])
def test_a_new_bundle_takes_the_place_of_an_old_one(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not at_once:
        monkeypatch.setattr(writing, "_exchange", lambda *_: False)
    write(tmp_path / "b")
    (tmp_path / "b" / "notes.txt").write_text("mine")
    (tmp_path / "b" / "mine").mkdir()
    bundle = write(tmp_path / "b", Card(title="new"))
    assert open_bundle(tmp_path / "b").card.title == bundle.card.title == "new"
    assert names(tmp_path) == {"b"}
    assert names(tmp_path / "b") == FILES | {"notes.txt", "mine"}


def test_the_exchange_is_made_in_one_step_here(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not writing._exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this system cannot exchange two folders")
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == ({"b"}, {"a"})


@pytest.mark.parametrize("fails_at", ["save", "_json", "hashed_json.render", "open_bundle", "_exchange"])
def test_whatever_fails_on_the_way_the_old_bundle_stays(
    fails_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = write(tmp_path / "b")

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(f"dragoman.bundle.writing.{fails_at}", fails)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / "b", Card(title="new"))
    assert open_bundle(tmp_path / "b").sha256 == old.sha256
    assert names(tmp_path) == {"b"}


def test_what_a_killed_run_left_behind_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".b.0123abcd.incomplete").mkdir()
    (tmp_path / ".b.0123abcd.incomplete" / WEIGHTS).write_bytes(b"half")
    (tmp_path / ".c.0123abcd.incomplete").mkdir()
    write(tmp_path / "b")
    assert names(tmp_path) == {"b", ".c.0123abcd.incomplete"}


def test_a_damaged_bundle_can_be_written_anew(tmp_path: Path) -> None:
    write(tmp_path / "b")
    (tmp_path / "b" / MANIFEST).unlink()
    assert open_bundle(write(tmp_path / "b").folder).info == GOLDEN.info


@pytest.mark.parametrize("there", [{"a.txt"}, {MANIFEST, "vocab.model"}, {"config.json", WEIGHTS}], ids=sorted)
def test_a_folder_that_holds_something_else_is_left_alone(there: set[str], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in there:
        (tmp_path / "b" / name).write_text("mine")
    with pytest.raises(ValueError, match="neither empty nor a bundle; give another folder"):
        write(tmp_path / "b")
    assert {path.name: path.read_text() for path in (tmp_path / "b").iterdir()} == dict.fromkeys(there, "mine")


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    write(tmp_path / "b")
    assert names(tmp_path / "b") == FILES


def test_a_bundle_behind_a_link_is_replaced_where_it_is(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN.folder, tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", Card(title="new"))
    assert (tmp_path / "link").is_symlink()
    assert open_bundle(tmp_path / "real").card.title == "new"


def test_the_version_that_wrote_it_is_kept(tmp_path: Path) -> None:
    info = BundleInfo(model=GOLDEN.info.model, dragoman="0.0.9")
    bundle = write_bundle(tmp_path / "b", info, GOLDEN.weights(), GOLDEN.vocab, Card())
    assert "written by dragoman 0.0.9" in (bundle.folder / "README.md").read_text(encoding="utf-8")


HEADS = (
    AlignmentHead(layer="decoder.layers.0.cross_attention", head=1, rows="read", measure="norm"),
    AlignmentHead(layer="decoder.layers.1.cross_attention", head=None),
)


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN.folder, tmp_path / "golden"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_alignment_heads_are_stored_and_nothing_else_is_touched(golden: Path) -> None:
    before = contents(golden)
    bundle = store_alignment_heads(golden, HEADS)
    assert bundle.info.alignment_heads == HEADS
    assert bundle.info.model_copy(update={"alignment_heads": ()}) == GOLDEN.info
    assert open_bundle(golden) == bundle
    assert bundle.sha256 == hash_file(golden / MANIFEST) != GOLDEN.sha256
    after = contents(golden)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {CONFIG, MANIFEST}


def test_a_bundle_whose_heads_are_taken_away_again_has_its_old_bytes(golden: Path) -> None:
    before = contents(golden)
    store_alignment_heads(golden, HEADS)
    store_alignment_heads(golden, ())
    assert contents(golden) == before
    assert b"alignment" not in before[CONFIG]


def test_the_heads_of_a_run_are_stored_in_its_bundle(golden: Path) -> None:
    (golden.parent / "run").mkdir()
    golden.rename(golden.parent / "run" / "bundle")
    assert store_alignment_heads(golden.parent / "run", HEADS).folder == golden.parent / "run" / "bundle"
    assert names(golden.parent / "run") == {"bundle"}


def test_heads_are_written_with_a_new_bundle_too(tmp_path: Path) -> None:
    info = GOLDEN.info.model_copy(update={"alignment_heads": HEADS})
    write_bundle(tmp_path / "b", info, GOLDEN.weights(), GOLDEN.vocab, GOLDEN.card)
    assert open_bundle(tmp_path / "b").info.alignment_heads == HEADS


def killed(monkeypatch: pytest.MonkeyPatch, golden: Path, at: str, heads: tuple[AlignmentHead, ...] = HEADS) -> None:
    """Stores heads, and is killed just before the new file of this name gets its name."""
    replace = Path.replace

    def replaced(self: Path, target: Path) -> Path:
        if target.name == at:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replaced)
        with pytest.raises(KeyboardInterrupt):
            store_alignment_heads(golden, heads)


@pytest.mark.parametrize(
    ("at", "is_new"),
    [(NEXT_MANIFEST, False), (CONFIG, False), (MANIFEST, True)],
    ids=["before all", "before the config", "between the config and the manifest"],
)
def test_whenever_it_is_killed_the_old_bundle_or_the_new_one_is_there(
    at: str, is_new: bool, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(monkeypatch, golden, at)
    bundle = open_bundle(golden)
    assert bundle.info.alignment_heads == (HEADS if is_new else ())
    assert (bundle.sha256 == GOLDEN.sha256) is not is_new
    assert not [name for name in names(golden) if name.endswith(UNFINISHED)]
    killed(monkeypatch, golden, CONFIG if is_new else at, HEADS[1:])  # again, with others: what was there stays
    assert open_bundle(golden).info.alignment_heads == (HEADS if is_new else ())
    assert store_alignment_heads(golden, HEADS[:1]).info.alignment_heads == HEADS[:1]
    assert names(golden) == names(GOLDEN.folder)


def test_damage_is_found_while_a_change_is_half_done(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(monkeypatch, golden, MANIFEST)
    for name in (CONFIG, WEIGHTS, NEXT_MANIFEST):
        whole = (golden / name).read_bytes()
        (golden / name).write_bytes(whole[:-2] + bytes([whole[-2] ^ 1, whole[-1]]))
        with pytest.raises(ValueError, match=f"{name}: .*copy the whole bundle again"):
            open_bundle(golden)
        (golden / name).write_bytes(whole)
    assert open_bundle(golden).info.alignment_heads == HEADS


def test_a_new_bundle_leaves_nothing_of_a_change_that_was_broken_off(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(monkeypatch, golden, CONFIG)
    write(golden)
    assert NEXT_MANIFEST not in names(golden)


def test_heads_are_not_stored_in_a_damaged_bundle(golden: Path) -> None:
    config = (golden / CONFIG).read_bytes()
    (golden / CONFIG).write_bytes(config.replace(b'"de"', b'"dd"'))
    with pytest.raises(ValueError, match=r"config\.json: .*sha256 differs"):
        store_alignment_heads(golden, HEADS)
    assert names(golden) == names(GOLDEN.folder)
