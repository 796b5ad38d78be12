"""Write a bundle under a temporary name, and rename the folder when it is complete."""

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

from dragoman.bundle.alignment_head import Heads
from dragoman.bundle.card import Card
from dragoman.bundle.file_names import CARD, CONFIG, EXPORTED, MANIFEST, NEXT_MANIFEST, README, VOCABULARIES, WEIGHTS
from dragoman.bundle.info import BundleInfo, BundleManifest, Export, Store
from dragoman.bundle.reading import Bundle, current_manifest, open_bundle, read_manifest, refuse_demo
from dragoman.config import Config
from dragoman.io import hashed_json
from dragoman.io.durable import UNFINISHED, FileInfo, sync_folder, write_durably
from dragoman.text.vocab import Vocab

Weights = Mapping[str, NDArray[Any]]
"""The parameters by name, as `weights_of` returns them."""

_BUNDLE_FILES: Final = {MANIFEST, NEXT_MANIFEST, CONFIG, CARD, README, WEIGHTS}.union(*VOCABULARIES)


def write_bundle(
    folder: Path, info: BundleInfo, weights: Weights, vocab: Vocab, card: Card, store: Store = "float32"
) -> Bundle:
    """Write a bundle and open it. An existing bundle is replaced once the new bundle is complete.

    Other files in the folder are kept.
    """
    folder = folder.resolve()
    _refuse_other_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left_over in folder.parent.glob(f".{folder.name}.*{UNFINISHED}"):  # of a run that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    beside = _temporary(folder)
    beside.mkdir()
    try:
        _write_files(beside, info, _convert(weights, store), vocab, card)
        open_bundle(beside).vocab  # noqa: B018
        _rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return open_bundle(folder, verify=False)


def store_alignment_heads(folder: Path, heads: Heads) -> Bundle:
    """Store alignment heads in a bundle; an empty tuple removes them. Only config.json and the manifest change.

    The two files cannot be replaced in one step, so the new manifest is written first, under another name: readers use
    it as soon as the new config.json is in place. Then it is renamed.
    """
    bundle, manifest = _begin_change(folder)
    folder = bundle.folder
    refuse_demo(folder)
    config = _json(bundle.info.model_copy(update={"alignment_heads": heads}))
    entry = FileInfo(file=CONFIG, sha256=hashlib.sha256(config).hexdigest(), num_bytes=len(config))
    files = tuple(entry if info.file == CONFIG else info for info in manifest.files)
    write_durably(folder / NEXT_MANIFEST, _manifest(files, manifest.exports))
    write_durably(folder / CONFIG, config)
    _finish_change(folder)
    return open_bundle(folder)


def store_export(folder: Path, export: Export, content: bytes) -> Bundle:
    """Add an export to a bundle; an export with the same engine and data type is replaced.

    The file name contains the hash, so the old manifest is valid until the new manifest replaces it.
    """
    bundle, manifest = _begin_change(folder)
    folder = bundle.folder
    if export.kept:
        written = write_durably(folder / export.file.file, content)
        assert written == export.file, "what is described is what is written"
    others = tuple(old for old in manifest.exports if (old.engine, old.store) != (export.engine, export.store))
    exports = (*others, export)
    files = tuple(info for info in manifest.files if not info.file.startswith(EXPORTED))
    files += tuple(kept.file for kept in exports if kept.kept)
    write_durably(folder / MANIFEST, _manifest(files, exports))
    for path in folder.glob(f"{EXPORTED}*"):
        if path.name not in {info.file for info in files}:
            path.unlink()
    return open_bundle(folder)


def _begin_change(folder: Path) -> tuple[Bundle, BundleManifest]:
    bundle = open_bundle(folder)
    _finish_change(bundle.folder)
    return bundle, read_manifest(bundle.folder, MANIFEST)


def _finish_change(folder: Path) -> None:
    """Finish a change that was interrupted after writing config.json: rename the new manifest."""
    if current_manifest(folder) == NEXT_MANIFEST:
        (folder / NEXT_MANIFEST).replace(folder / MANIFEST)
        sync_folder(folder)


def _temporary(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{UNFINISHED}")


def _refuse_other_folder(folder: Path) -> None:
    """Raise ValueError if the folder is neither empty nor a bundle."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if there and CARD not in there and not {MANIFEST, CONFIG} <= there:
        raise ValueError(f"{folder}: the folder is neither empty nor a bundle; give another folder")


def _convert(weights: Weights, store: Store) -> dict[str, NDArray[Any]]:
    with np.errstate(over="ignore"):  # found below, by name
        stored = {name: np.ascontiguousarray(array, dtype=store) for name, array in weights.items()}
    for name, array in stored.items():
        if not np.isfinite(array).all():
            fix = "store float32" if np.isfinite(weights[name]).all() else "training diverged; use an older checkpoint"
            raise ValueError(f"{name} has values that are not finite in {store}: {fix}")
    return stored


def _write_files(folder: Path, info: BundleInfo, weights: dict[str, NDArray[Any]], vocab: Vocab, card: Card) -> None:
    files = [
        write_durably(folder / WEIGHTS, save(weights)),
        write_durably(folder / CONFIG, _json(info)),
        write_durably(folder / CARD, _json(card)),
        write_durably(folder / README, card.readme(info).encode()),
        *vocab.save(folder),
    ]
    write_durably(folder / MANIFEST, _manifest(tuple(files)))


def _manifest(files: tuple[FileInfo, ...], exports: tuple[Export, ...] = ()) -> bytes:
    return hashed_json.render(BundleManifest(files=files, exports=exports).model_dump(mode="json"))


def _json(config: Config) -> bytes:
    return (config.model_dump_json(indent=2) + "\n").encode()


def _rename(beside: Path, folder: Path) -> None:
    """Move the new bundle to its final name; an old bundle gets the temporary name."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in _BUNDLE_FILES and not path.name.startswith(EXPORTED):
                copy = shutil.copytree if path.is_dir() else shutil.copy2
                copy(path, beside / path.name)
        if not _exchange(beside, folder):
            old = _temporary(folder)
            folder.rename(old)
            beside.rename(folder)
            shutil.rmtree(old)
    else:
        beside.rename(folder)
    sync_folder(folder.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically; return False if the operating system does not support this."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
