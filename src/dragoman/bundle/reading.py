"""Opening a bundle: every file is compared with the manifest before anything of it is loaded."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open

from dragoman.bundle.card import Card
from dragoman.bundle.info import (
    CARD,
    CONFIG,
    LARGEST,
    MANIFEST,
    NEXT_MANIFEST,
    VOCABULARIES,
    WEIGHTS,
    BundleInfo,
    BundleManifest,
    Export,
)
from dragoman.config import Config
from dragoman.data import hashed
from dragoman.data.durable import DamageError, damage, digest, verify
from dragoman.data.vocab import Vocab
from dragoman.models.cost import parameters

MEND: Final = "copy the whole bundle again from where it came"

_OF_A_RUN: Final = ("log.jsonl", "prepared")
"""What a training leaves in its folder before there is a model."""

ConfigT = TypeVar("ConfigT", bound=Config)


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files are what was written."""

    folder: Path
    info: BundleInfo
    card: Card
    sha256: str
    """Of the manifest, which holds the hash of every other file: the identity of the bundle, its exports included."""
    model_sha256: str
    """Of what decides the translations alone: it stays when an export is added, or the card is written anew."""
    exports: tuple[Export, ...] = ()
    """The same model for other engines."""

    @cached_property
    def vocab(self) -> Vocab:
        """Read at its first use."""
        vocab, model = Vocab.load(self.folder), self.info.model
        sizes, expected = (vocab.source.size, vocab.target.size), (model.source_vocabulary, model.target_vocabulary)
        if sizes != expected:
            raise ValueError(f"{self.folder}: the vocabulary has {sizes} ids, but the model {expected}; {MEND}")
        return vocab

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Every parameter by name, in float32 however it is stored; a matrix that is used twice comes once."""
        with safe_open(self.folder / WEIGHTS, framework="numpy") as file:
            return {name: file.get_tensor(name).astype(np.float32, copy=False) for name in file.keys()}  # noqa: SIM118


def open_bundle(folder: Path | str, verify: bool = True) -> Bundle:
    """Opens a bundle, or the one in the folder `bundle` of a run.

    Sizes are always compared with the manifest; without `verify`, hashes are not, and damage that keeps a file's size
    goes unseen.
    """
    folder = _home(Path(folder))
    name = current_manifest(folder)
    manifest = read_manifest(folder, name)
    _check_files(folder, manifest, verify)
    info, card = _parsed(folder / CONFIG, BundleInfo), _parsed(folder / CARD, Card)
    _check_weights(folder / WEIGHTS, info)
    return Bundle(folder, info, card, digest(folder / name), _model_digest(manifest), manifest.exports)


def current_manifest(folder: Path) -> str:
    """The manifest that holds: of a change that was broken off, the old one until the new config.json is there."""
    if not (folder / NEXT_MANIFEST).is_file():
        return MANIFEST
    files = read_manifest(folder, NEXT_MANIFEST).files
    there = any(info.file == CONFIG and damage(folder, info) is None for info in files)
    return NEXT_MANIFEST if there else MANIFEST


def demo_folder() -> Path:
    """The small model that comes with dragoman."""
    folder = Path(str(files("dragoman") / "demo"))
    if not (folder / MANIFEST).is_file():
        raise ValueError(
            "this installation of dragoman has no demo model; train one of your own: dragoman train --help"
        )
    return folder


def _home(folder: Path) -> Path:
    """Where the bundle is: a run keeps it in a folder of its own."""
    if not folder.is_dir():
        what = "this is a file, not a model's folder" if folder.is_file() else "there is no such folder"
        raise ValueError(f"{folder}: {what}; dragoman train makes one")
    if (folder / MANIFEST).is_file():
        return folder
    if (folder / "bundle").is_dir():
        folder = folder / "bundle"
    elif any((folder / name).exists() for name in _OF_A_RUN):
        raise ValueError(
            f"{folder} is a run that did not finish, without a model yet: the command that began it goes on with it"
        )
    elif (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} holds a recipe, but no model yet: train it with dragoman train")
    if not (folder / MANIFEST).is_file():
        wrong = "the file is missing, so this is not a whole bundle"
        raise DamageError(folder / MANIFEST, wrong, "give the folder that dragoman train has made")
    return folder


def read_manifest(folder: Path, name: str) -> BundleManifest:
    """The manifest of this name, if it is one, and whole."""
    path = folder / name
    _refuse_link(folder, name)
    body = hashed.read(path, MEND, LARGEST[name])
    if body.get("kind") != "bundle":
        raise ValueError(f"{folder}: this is a prepared folder, not a model; dragoman train makes a model of it")
    if body.get("format_version") != 1:
        version = body.get("format_version")
        raise ValueError(f"{path}: format {version} is not known here; install a newer dragoman to use this bundle")
    try:
        return BundleManifest.model_validate(body)
    except ValidationError as error:
        raise DamageError(path, _one_line(error), MEND) from error


def _check_files(folder: Path, manifest: BundleManifest, hashes: bool) -> None:
    names = {info.file for info in manifest.files}
    missing = sorted({CONFIG, CARD, WEIGHTS} - names)
    if missing or {name for name in names if name.startswith("vocab.")} not in VOCABULARIES:
        what = missing[0] if missing else "one vocabulary"
        raise DamageError(folder / MANIFEST, f"the manifest does not answer for {what}", MEND)
    unanswered = [export.file for export in manifest.exports if export.kept and export.file not in manifest.files]
    if unanswered:
        raise DamageError(folder / MANIFEST, f"the manifest does not answer for {unanswered[0].file}", MEND)
    for info in manifest.files:
        _refuse_link(folder, info.file)
        if info.num_bytes > LARGEST.get(info.file, info.num_bytes):
            raise DamageError(folder / info.file, f"{info.num_bytes:,} bytes are too many for this file", MEND)
    verify(folder, manifest.files, hashes, MEND)


def _model_digest(manifest: BundleManifest) -> str:
    """By the hashes of weights, vocabulary and config.json."""
    names = {CONFIG, WEIGHTS}.union(*VOCABULARIES)
    rows = sorted(f"{info.sha256} {info.file}\n" for info in manifest.files if info.file in names)
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def _refuse_link(folder: Path, name: str) -> None:
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise DamageError(folder / name, "the file is a link that leads out of the bundle", MEND)


def _parsed(path: Path, kind: type[ConfigT]) -> ConfigT:
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise DamageError(path, _one_line(error), MEND) from error


def _check_weights(path: Path, info: BundleInfo) -> None:
    """Looks at the header alone: what is stored must be as much as the model of the config has."""
    try:
        with safe_open(path, framework="numpy") as file:
            slices = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118
            stored = sum(prod(part.get_shape()) for part in slices)
            types = {part.get_dtype() for part in slices}
    except SafetensorError as error:
        raise DamageError(path, f"it cannot be read as safetensors ({error})", MEND) from error
    if not types <= {"F32", "F16"}:
        raise DamageError(path, f"weights are F32 or F16, not {', '.join(sorted(types))}", MEND)
    if stored != parameters(info.model):
        expected = parameters(info.model)
        raise DamageError(path, f"it holds {stored:,} numbers, but the model of {CONFIG} has {expected:,}", MEND)


def _one_line(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]
