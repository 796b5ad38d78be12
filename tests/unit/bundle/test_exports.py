"""Exports in a bundle: stored whole or not at all, and no damage to them, by chance or by intent, goes unseen."""

import hashlib
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.bundle import Bundle, Export, ExportCheck, open_bundle, write_bundle, writing
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.bundle.file_names import MANIFEST
from dragoman.bundle.info import ExportStore
from dragoman.bundle.writing import store_alignment_heads, store_export
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.export.ctranslate2 import weights_file
from dragoman.export.layout import find_layout_error
from dragoman.export.model_bin import write_model_bin
from dragoman.export.variables import variables
from dragoman.io import hashed_json
from dragoman.io.durable import DamageError, FileInfo, hash_file

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
PROOF = ExportCheck(texts=5, identical=5, largest_difference=1e-6, mean_difference=1e-7, held_out=True)


def described(content: bytes, store: ExportStore = "float32", kept: bool = True) -> Export:
    sha256 = hashlib.sha256(content).hexdigest()
    file = FileInfo(file=f"ctranslate2.{store}.{sha256[:8]}.bin", sha256=sha256, num_bytes=len(content))
    return Export(store=store, file=file, kept=kept, proof=PROOF)


def exported(folder: Path, store: ExportStore = "float32", kept: bool = True) -> Bundle:
    content = weights_file(open_bundle(folder), store)
    return store_export(folder, described(content, store, kept), content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle with an export in float32 and one in int8, both kept."""
    copy = Path(shutil.copytree(GOLDEN, tmp_path / "model"))
    exported(copy)
    exported(copy, "int8")
    return copy


def files(folder: Path) -> list[str]:
    body = json.loads((folder / MANIFEST).read_text())["manifest"]
    return [MANIFEST, *(info["file"] for info in body["files"])]


def kept_file(folder: Path, store: str = "float32") -> Path:
    (path,) = folder.glob(f"ctranslate2.{store}.*.bin")
    return path


def refused(folder: Path, file: str) -> None:
    with pytest.raises(DamageError, match="copy the whole bundle again") as error:
        open_bundle(folder)
    assert str(error.value).startswith(f"{folder / file}: ")
    assert "\n" not in str(error.value)


def test_what_is_stored_is_there_beside_the_rest_which_stays(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(GOLDEN, tmp_path / "model"))
    before = {path.name: hash_file(path) for path in copy.iterdir() if path.name != MANIFEST}
    sha256 = open_bundle(copy).sha256
    bundle = exported(copy)
    (export,) = bundle.exports
    assert (copy / export.file.file).read_bytes() == weights_file(bundle)
    assert export.proof == PROOF
    assert bundle.sha256 != sha256
    assert {name: hash_file(copy / name) for name in before} == before


def test_the_model_has_the_same_hash_however_it_is_exported(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(GOLDEN, tmp_path / "model"))
    before = open_bundle(copy)
    exported(copy)
    after = exported(copy, "int8")
    assert after.model_sha256 == before.model_sha256
    assert before.model_sha256 not in (before.sha256, after.sha256)


def test_the_model_has_the_same_hash_whatever_its_card_says(tmp_path: Path) -> None:
    old = open_bundle(GOLDEN)
    sizes = {**old.card.sizes, "training seconds": 1234}
    card = old.card.model_copy(update={"command": "dragoman train --out elsewhere", "sizes": sizes, "notes": ("x",)})
    new = write_bundle(tmp_path / "a", old.info, old.weights(), old.vocab, card)
    assert new.sha256 != old.sha256
    assert new.model_sha256 == old.model_sha256


def test_another_model_has_another_hash(tmp_path: Path) -> None:
    old = open_bundle(GOLDEN)
    other = old.info.model_copy(update={"search": {**old.info.search, "beam_size": 7}})
    louder = {name: array * 1.01 for name, array in old.weights().items()}
    searching = write_bundle(tmp_path / "a", other, old.weights(), old.vocab, old.card)
    weighing = write_bundle(tmp_path / "b", old.info, louder, old.vocab, old.card)
    assert len({old.model_sha256, searching.model_sha256, weighing.model_sha256}) == 3


def test_one_of_the_same_kind_is_replaced_and_others_stay(folder: Path) -> None:
    content = weights_file(open_bundle(folder), "int16")
    odd = described(content, "int8")
    bundle = store_export(folder, odd, content)
    assert [export.store for export in bundle.exports] == ["float32", "int8"]
    assert kept_file(folder, "int8").name == odd.file.file
    assert len(list(folder.glob("ctranslate2.*"))) == 2


def test_one_that_is_only_described_leaves_no_file(folder: Path) -> None:
    bundle = exported(folder, "float32", kept=False)
    assert [(export.store, export.kept) for export in bundle.exports] == [("int8", True), ("float32", False)]
    assert not list(folder.glob("ctranslate2.float32.*"))
    assert CTranslate2Engine.load(bundle).export.kept is False


def test_a_new_bundle_in_its_place_has_none(folder: Path) -> None:
    old = open_bundle(folder)
    bundle = write_bundle(folder, old.info, old.weights(), old.vocab, old.card)
    assert bundle.exports == ()
    assert not list(folder.glob("ctranslate2.*"))


def test_heads_that_are_stored_later_leave_exports_alone(folder: Path) -> None:
    before = open_bundle(folder).exports
    bundle = store_alignment_heads(folder, (AlignmentHead(layer="decoder.layers.0.cross_attention", head=1),))
    assert bundle.exports == before
    assert CTranslate2Engine.load(bundle).export in before


@pytest.mark.parametrize("step", [1, 2])
def test_broken_off_at_any_write_the_bundle_is_what_it_was(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(GOLDEN, tmp_path / "model"))
    before, writes, write = open_bundle(copy).sha256, 0, writing.write_durably

    def failing(*given: Any) -> FileInfo:
        nonlocal writes
        writes += 1
        if writes == step:
            raise OSError(28, "No space left on device")
        return write(*given)

    monkeypatch.setattr(writing, "write_durably", failing)
    with pytest.raises(OSError, match="No space left"):
        exported(copy)
    assert open_bundle(copy).sha256 == before
    assert open_bundle(copy).exports == ()
    monkeypatch.setattr(writing, "write_durably", write)
    assert len(exported(copy).exports) == 1


def test_a_hundred_single_bit_flips_are_all_found_and_named(folder: Path) -> None:
    random, flips, names = np.random.default_rng(5), 0, files(folder)
    assert sum(name.startswith("ctranslate2.") for name in names) == 2
    while flips < 100:
        for file in names:
            content = bytearray((folder / file).read_bytes())
            bit = int(random.integers(0, 8 * len(content)))
            content[bit // 8] ^= 1 << bit % 8
            (folder / file).write_bytes(content)
            refused(folder, file)
            content[bit // 8] ^= 1 << bit % 8
            (folder / file).write_bytes(content)
            flips += 1
    open_bundle(folder)


def test_truncated_empty_and_deleted_files_are_found_and_named(folder: Path) -> None:
    random = np.random.default_rng(6)
    for store in ("float32", "int8"):
        path = kept_file(folder, store)
        content = path.read_bytes()
        for size in [0, *random.integers(1, len(content), 9).tolist()]:
            path.write_bytes(content[:size])
            refused(folder, path.name)
        path.unlink()
        refused(folder, path.name)
        path.write_bytes(content)
    open_bundle(folder)


def test_without_verification_a_flip_goes_unseen(folder: Path) -> None:
    """That the tests above can fail at all."""
    path = kept_file(folder)
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    path.write_bytes(content)
    CTranslate2Engine.load(open_bundle(folder, verify=False))
    refused(folder, path.name)


def test_an_export_of_another_bundle_is_found_and_named(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(GOLDEN, tmp_path / "other"))
    old = open_bundle(other)
    weights = {name: array * 1.01 for name, array in old.weights().items()}
    write_bundle(other, old.info, weights, old.vocab, old.card)
    exported(other)
    assert kept_file(other).stat().st_size == kept_file(folder).stat().st_size
    shutil.copy(kept_file(other), kept_file(folder))
    refused(folder, kept_file(folder).name)
    shutil.copy(kept_file(folder, "int8"), kept_file(folder))
    refused(folder, kept_file(folder).name)


def test_the_manifest_of_a_bundle_without_the_file_is_found(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(GOLDEN, tmp_path / "other"))
    shutil.copy(folder / MANIFEST, other / MANIFEST)
    refused(other, kept_file(folder).name)


class Canary:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def sealed(folder: Path, content: bytes | None = None, **changes: Any) -> None:
    """As whoever means harm would do it: everything fits everything. `changes` are of the float32 export's record."""
    path = kept_file(folder)
    if content is not None:
        path.write_bytes(content)
    body = json.loads((folder / MANIFEST).read_text())["manifest"]
    data = path.read_bytes()
    true = {"file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "num_bytes": len(data)}
    body["files"] = [true if info["file"] == path.name else info for info in body["files"]]
    body["exports"][0] |= {"file": true, **changes}
    (folder / MANIFEST).write_bytes(hashed_json.render(body))


def linked(folder: Path) -> None:
    path = kept_file(folder)
    path.rename(folder.parent / "outside")
    path.symlink_to(folder.parent / "outside")


def unanswered(folder: Path) -> None:
    body = json.loads((folder / MANIFEST).read_text())["manifest"]
    body["files"] = [info for info in body["files"] if not info["file"].startswith("ctranslate2.float32")]
    (folder / MANIFEST).write_bytes(hashed_json.render(body))


def renamed(name: str) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        (folder.parent / "secret").write_bytes(b"")
        file = {"file": name, "sha256": hashlib.sha256().hexdigest(), "num_bytes": 0}
        sealed(folder, file=file)

    return attack


def absurd(folder: Path) -> None:
    path = kept_file(folder)
    body = json.loads((folder / MANIFEST).read_text())["manifest"]
    for info in [*body["files"], body["exports"][0]["file"]]:
        if info["file"] == path.name:
            info["num_bytes"] = 1 << 60
    (folder / MANIFEST).write_bytes(hashed_json.render(body))


WHEN_OPENED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file outside the folder": (linked, r"ctranslate2\.float32.*: the file is a symbolic link"),
    "a file that the manifest does not answer for": (unanswered, r"does not list ctranslate2\.float32"),
    "a size that cannot be": (absurd, r"ctranslate2\.float32.*: the file has \d+ bytes instead of 1152921504606846976"),
    "a path that goes up": (renamed("../secret"), r"manifest\.json: exports\.0\.file\.file: String should match"),
    "a path from the root": (renamed("/etc/hostname"), r"manifest\.json: exports\.0\.file\.file: String should match"),
    "another file than it answers for": (renamed("README.md"), r"does not list README\.md"),
    "an engine that does not exist": (lambda f: sealed(f, engine="pickle"), r"manifest\.json: exports\.0\.engine"),
    "a key we do not know": (lambda f: sealed(f, run="rm"), r"manifest\.json: exports\.0\.run: Extra inputs"),
}


@pytest.mark.parametrize("name", WHEN_OPENED)
def test_a_hostile_record_is_refused_when_the_bundle_is_opened(name: str, folder: Path) -> None:
    attack, said = WHEN_OPENED[name]
    attack(folder)
    with pytest.raises(ValueError, match=said) as error:
        open_bundle(folder)
    assert "\n" not in str(error.value)


def string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


HEAD = struct.pack("<I", 6) + string("TransformerSpec") + struct.pack("<I", 7)


def one_array(*dims: int, kind: int = 0, num_bytes: int = 8) -> bytes:
    sizes = struct.pack(f"<B{len(dims)}I", len(dims), *dims)
    return HEAD + struct.pack("<I", 1) + string("a") + sizes + struct.pack("<BI", kind, num_bytes) + bytes(12)


def written(**changes: Any) -> Callable[[Bundle], bytes]:
    """The true file, but for some arrays."""

    def content(bundle: Bundle) -> bytes:
        named = variables(bundle.info.model, bundle.weights())
        return write_model_bin(named | {name: change(named[name]) for name, change in changes.items()}, {})

    return content


HOSTILE: dict[str, bytes | Callable[[Bundle], bytes]] = {
    "a pickle": pickle.dumps(Canary(Path("canary"))),
    "nothing": b"",
    "more arrays than bytes": HEAD + struct.pack("<I", 2**32 - 1),
    "a shape beyond all memory": one_array(2**31, 2**31),
    "more bytes than there are": one_array(2**30 - 1, num_bytes=2**32 - 4),
    "a type that does not exist": one_array(2, kind=77),
    "no heads": written(**{"encoder/num_heads": lambda _: np.array(0, np.int16)}),
    "a table of too few words": written(**{"encoder/embeddings_0/weight": lambda array: array[:5]}),
    "a matrix that is too narrow": written(**{"encoder/layer_0/ffn/linear_0/weight": lambda array: array[:, :5]}),
    "an array too many": lambda bundle: write_model_bin(
        variables(bundle.info.model, bundle.weights()) | {"decoder/start_from": np.array(1, np.int8)}, {}
    ),
    "something after the end": lambda bundle: weights_file(bundle) + b"!",
    "another store than it says": lambda bundle: weights_file(bundle, "int8"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_before_ctranslate2_sees_it(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = HOSTILE[name]
    sealed(folder, made if isinstance(made, bytes) else made(open_bundle(folder)))
    bundle = open_bundle(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("ctranslate2.Translator", None)
    with pytest.raises(DamageError, match="copy the whole bundle again") as error:
        CTranslate2Engine.load(bundle)
    assert str(error.value).startswith(f"{kept_file(folder)}: ")
    assert not (folder / "canary").exists()


@pytest.mark.parametrize("store", ["float32", "int16", "int8"])
def test_a_true_file_is_not_refused(store: ExportStore, folder: Path) -> None:
    bundle = open_bundle(folder)
    heads = (AlignmentHead(layer="decoder.layers.0.cross_attention", head=1),)
    export = described(b"", store).model_copy(update={"alignment_heads": heads})
    assert find_layout_error(bundle, export, weights_file(bundle, store, heads)) is None
    assert find_layout_error(bundle, described(b"", store), weights_file(bundle, store, heads)) is not None


def test_sealing_alone_is_accepted(folder: Path) -> None:
    """So that what the tests above refuse is refused for what it is."""
    sealed(folder)
    assert CTranslate2Engine.load(open_bundle(folder)).export.kept
