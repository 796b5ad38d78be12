"""Writing a bundle: beside its place, and given its name only when it is whole."""

import ctypes
import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from dragoman.bundle.card import Card
from dragoman.bundle.info import (
    CARD,
    CONFIG,
    EXPORTED,
    MANIFEST,
    NEXT_MANIFEST,
    README,
    VOCABULARIES,
    WEIGHTS,
    BundleInfo,
    BundleManifest,
    Export,
    Store,
)
from dragoman.bundle.reading import Bundle, current_manifest, open_bundle, read_manifest
from dragoman.config import Config
from dragoman.data import hashed
from dragoman.data.alignment import AlignmentHead
from dragoman.data.durable import UNFINISHED, FileInfo, sync_folder, write_durably
from dragoman.data.vocab import Vocab

_OURS: Final = {MANIFEST, NEXT_MANIFEST, CONFIG, CARD, README, WEIGHTS}.union(*VOCABULARIES)


def write_bundle(
    folder: Path,
    info: BundleInfo,
    weights: Mapping[str, NDArray[Any]],
    vocab: Vocab,
    card: Card,
    store: Store = "float32",
) -> Bundle:
    """Writes the bundle and opens it. A bundle that is already there stays until the new one is whole.

    `weights` holds each parameter once, as `weights_of` gives them. Files that are no part of a bundle are kept.
    """
    folder = folder.resolve()
    _refuse_other_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left_over in folder.parent.glob(f".{folder.name}.*{UNFINISHED}"):  # of a run that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    beside = _beside(folder)
    beside.mkdir()
    try:
        _fill(beside, info, _stored(weights, store), vocab, card)
        open_bundle(beside).vocab  # noqa: B018
        _put(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return open_bundle(folder, verify=False)


def store_alignment_heads(folder: Path, heads: tuple[AlignmentHead, ...]) -> Bundle:
    """Has the bundle say where to look for alignments; no heads, and it says nothing. Other files stay untouched.

    config.json and the manifest that answers for it cannot change in one step, so the new manifest comes first, under
    a name of its own: readers go by it from the moment that the new config.json is there. Then it gets its name.
    """
    bundle = open_bundle(folder)
    folder = bundle.folder
    _finish(folder)
    manifest = read_manifest(folder, MANIFEST)
    config = _json(bundle.info.model_copy(update={"alignment_heads": heads}))
    entry = FileInfo(file=CONFIG, sha256=hashlib.sha256(config).hexdigest(), num_bytes=len(config))
    files = tuple(entry if info.file == CONFIG else info for info in manifest.files)
    _write(folder / NEXT_MANIFEST, _manifest(files, manifest.exports))
    _write(folder / CONFIG, config)
    _finish(folder)
    return open_bundle(folder)


def store_export(folder: Path, export: Export, content: bytes) -> Bundle:
    """Adds an export to a bundle, in place of one of the same kind.

    Its file has a name of its own, made from its hash, so the old manifest holds until the new one has its place.
    """
    bundle = open_bundle(folder)
    folder = bundle.folder
    _finish(folder)
    manifest = read_manifest(folder, MANIFEST)
    if export.kept:
        written = _write(folder / export.file.file, content)
        assert written == export.file, "what is described is what is written"
    others = tuple(old for old in manifest.exports if (old.engine, old.store) != (export.engine, export.store))
    exports = (*others, export)
    files = tuple(info for info in manifest.files if not info.file.startswith(EXPORTED))
    files += tuple(kept.file for kept in exports if kept.kept)
    _write(folder / MANIFEST, _manifest(files, exports))
    for path in folder.glob(f"{EXPORTED}*"):
        if path.name not in {info.file for info in files}:
            path.unlink()
    return open_bundle(folder)


def _finish(folder: Path) -> None:
    """A change that has come as far as its config.json is brought to its end."""
    if current_manifest(folder) == NEXT_MANIFEST:
        (folder / NEXT_MANIFEST).replace(folder / MANIFEST)
        sync_folder(folder)


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{UNFINISHED}")


def _refuse_other_folder(folder: Path) -> None:
    """Someone's files are never taken for an old bundle."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if there and CARD not in there and not {MANIFEST, CONFIG} <= there:
        raise ValueError(f"{folder}: the folder is not empty and holds no bundle; give another")


def _stored(weights: Mapping[str, NDArray[Any]], store: Store) -> dict[str, NDArray[Any]]:
    with np.errstate(over="ignore"):  # found below, by name
        stored = {name: np.ascontiguousarray(array, dtype=store) for name, array in weights.items()}
    for name, array in stored.items():
        if not np.isfinite(array).all():
            mend = (
                "store float32" if np.isfinite(weights[name]).all() else "the training has diverged: use an earlier one"
            )
            raise ValueError(f"{name} holds numbers that are not finite as {store}; {mend}")
    return stored


def _fill(folder: Path, info: BundleInfo, weights: dict[str, NDArray[Any]], vocab: Vocab, card: Card) -> None:
    files = [
        _write(folder / WEIGHTS, save(weights)),
        _write(folder / CONFIG, _json(info)),
        _write(folder / CARD, _json(card)),
        _write(folder / README, card.readme(info).encode()),
        *vocab.save(folder),
    ]
    _write(folder / MANIFEST, _manifest(tuple(files)))


def _manifest(files: tuple[FileInfo, ...], exports: tuple[Export, ...] = ()) -> bytes:
    return hashed.render(BundleManifest(files=files, exports=exports).model_dump(mode="json"))


def _write(path: Path, content: bytes) -> FileInfo:
    return write_durably(path, lambda sink: sink.write(content))


def _json(config: Config) -> bytes:
    return (config.model_dump_json(indent=2) + "\n").encode()


def _put(beside: Path, folder: Path) -> None:
    """Gives the new bundle its name; what was there goes where the new one was written."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in _OURS and not path.name.startswith(EXPORTED):
                copy = shutil.copytree if path.is_dir() else shutil.copy2
                copy(path, beside / path.name)
        if not _exchange(beside, folder):
            old = _beside(folder)
            folder.rename(old)
            beside.rename(folder)
            shutil.rmtree(old)
    else:
        beside.rename(folder)
    sync_folder(folder.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Two folders change names in one step, where the system can do that: there is no moment without a bundle."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
