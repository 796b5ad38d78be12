"""Open a bundle; compare all files with the manifest before loading the model."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
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
from dragoman.bundle.file_names import CARD, CONFIG, LARGEST, MANIFEST, NEXT_MANIFEST, VOCABULARIES, WEIGHTS
from dragoman.bundle.info import BundleInfo, BundleManifest, Export
from dragoman.config import Config, describe_first
from dragoman.io import hashed_json
from dragoman.io.durable import DamageError, find_damage, hash_file, verify_files
from dragoman.models.cost import parameters
from dragoman.text.vocab import Vocab

_MOST_LANGUAGES: Final = 20
"""The number of languages that a message lists."""

FIX: Final = "copy the whole bundle again from its origin"

ConfigT = TypeVar("ConfigT", bound=Config)


@dataclass(frozen=True)
class Bundle:
    """An open bundle (model folder) whose files match the manifest."""

    folder: Path
    info: BundleInfo
    card: Card
    sha256: str
    """Hash of the manifest, which identifies the bundle with its exports."""
    model_sha256: str
    """Hash of config.json, the weights and the vocabulary, which adding an export does not change."""
    exports: tuple[Export, ...] = ()
    """Exports of the model for other engines."""
    language: str | None = None
    """The target language that `to` has chosen; its tag begins every source of a model with several."""

    def to(self, language: str | None) -> "Bundle":
        """Return the bundle with a chosen target language, as all that translates with a multilingual model needs.

        Raise ValueError if the model does not translate into this language, or if it translates into several languages
        and none is chosen.
        """
        known = self.info.targets
        if language is None and len(known) < 2:
            return self
        if language in known:
            return replace(self, language=language)
        if language is None:
            wrong = f"this model translates into {len(known)} languages"
            raise ValueError(f"{self.folder}: {wrong}: choose one with --to, or `to` in Python: {_list(known)}")
        if not known:
            fix = "leave out --to"
            raise ValueError(f"{self.folder}: this model does not name its target language: {fix}")
        fix = f"choose one of {_list(known)}" if len(known) > 1 else f"give --to {known[0]}, or leave it out"
        raise ValueError(f"{self.folder}: this model does not translate into {language!r}: {fix}")

    @cached_property
    def vocab(self) -> Vocab:
        """The vocabulary, loaded at the first access; its sources begin with the tag of the chosen language."""
        vocab, model = Vocab.load(self.folder), self.info.model
        sizes, expected = (vocab.source.size, vocab.target.size), (model.source_vocabulary, model.target_vocabulary)
        if sizes != expected:
            raise ValueError(f"{self.folder}: the vocabulary sizes are {sizes}, but the model has {expected}; {FIX}")
        if len(self.info.targets) > 1 and self.info.targets != vocab.languages:
            tags = ", ".join(vocab.languages) or "none"
            raise ValueError(f"{self.folder}: the vocabulary has other language tags than {CONFIG} ({tags}); {FIX}")
        return vocab.to(self.language)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the parameters by name, in float32; a shared matrix appears under a single name."""
        with safe_open(self.folder / WEIGHTS, framework="numpy") as file:
            return {name: file.get_tensor(name).astype(np.float32, copy=False) for name in file.keys()}  # noqa: SIM118


def open_bundle(folder: Path | str, verify: bool = True) -> Bundle:
    """Open a bundle, or the bundle of a run folder; the string "demo" opens the built-in model.

    A run that is not finished has a bundle with its best weights so far; `card.unfinished` describes them.

    File sizes are always compared with the manifest, hashes only with `verify`.
    """
    folder = _find_bundle(demo_folder() if folder == "demo" else Path(folder))
    name = current_manifest(folder)
    manifest = read_manifest(folder, name)
    _check_files(folder, manifest, verify)
    info, card = _read_config(folder / CONFIG, BundleInfo), _read_config(folder / CARD, Card)
    _check_weights(folder / WEIGHTS, info)
    return Bundle(folder, info, card, hash_file(folder / name), _model_digest(manifest), manifest.exports)


def _list(languages: Sequence[str]) -> str:
    return ", ".join(languages[:_MOST_LANGUAGES]) + (", ..." if len(languages) > _MOST_LANGUAGES else "")


def current_manifest(folder: Path) -> str:
    """Return the name of the valid manifest: NEXT_MANIFEST after an interrupted change, otherwise MANIFEST."""
    if not (folder / NEXT_MANIFEST).is_file():
        return MANIFEST
    files = read_manifest(folder, NEXT_MANIFEST).files
    there = any(info.file == CONFIG and find_damage(folder, info) is None for info in files)
    return NEXT_MANIFEST if there else MANIFEST


def demo_folder() -> Path:
    """Return the folder of the built-in model."""
    folder = Path(str(files("dragoman") / "demo"))
    if not (folder / MANIFEST).is_file():
        raise ValueError("this installation has no demo model: train a model with dragoman train")
    return folder


def is_demo(folder: Path) -> bool:
    """Return True if this is the folder of the built-in model, by whatever path."""
    built_in = Path(str(files("dragoman") / "demo"))
    return folder.is_dir() and built_in.is_dir() and folder.samefile(built_in)


def refuse_demo(folder: Path, fix: str = "align with --layer and --head instead") -> None:
    """Raise ValueError for the built-in model, which is part of the installation and serves all its users."""
    if is_demo(folder):
        raise ValueError(f"the built-in model `demo` cannot be changed: {fix}")


def is_model_folder(folder: Path) -> bool:
    """Return True if a folder has a model, or is that of a run that has one."""
    try:
        return _find_bundle(folder).is_dir()
    except (OSError, ValueError):
        return False


def _find_bundle(folder: Path) -> Path:
    """Return the bundle folder: the given folder or, of a run folder, its model or its best model so far."""
    if not folder.is_dir():
        what = "this is a file, not a model folder" if folder.is_file() else "there is no such folder"
        raise ValueError(f"{folder}: {what}; {_suggest_model(folder)}")
    if (folder / MANIFEST).is_file():
        return folder
    if (folder / "bundle").is_dir():
        folder = folder / "bundle"
    elif (folder / "best").is_dir():
        folder = folder / "best"
    elif (folder / "log.jsonl").exists() or (folder / "prepared").exists():
        raise ValueError(
            f"{folder} is a run without a model yet: wait for its first validation, or resume it with the same command"
        )
    elif (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} has a recipe, but no model: train the model with dragoman train")
    elif (folder / "source.spm").is_file():
        fix = f"import it with dragoman import {folder} --out base/, and give base/"
        raise ValueError(f"{folder} is a model of OPUS-MT or transformers: {fix}")
    if not (folder / MANIFEST).is_file():
        wrong = "the file is missing, so this is not a complete bundle"
        raise DamageError(folder / MANIFEST, wrong, "give a folder that dragoman train has written")
    return folder


def _suggest_model(folder: Path) -> str:
    """Return the nearest name of a folder, or of the built-in model, as a question; otherwise what to give."""
    folders = [path for path in folder.parent.iterdir() if path.is_dir()] if folder.parent.is_dir() else []
    names = {path.name: str(path) for path in folders} | {"demo": "demo"}
    near = [] if folder.exists() else get_close_matches(folder.name, names, n=1, cutoff=0.75)
    return f"did you mean {names[near[0]]}?" if near else "give a folder that dragoman train has written, or `demo`"


def unfinished_note(folder: Path) -> str | None:
    """Return a description of the weights of a run that is not finished; None for any other folder."""
    path = folder / "best" / CARD
    return _read_config(path, Card).unfinished if path.is_file() and not (folder / "bundle").is_dir() else None


def read_manifest(folder: Path, name: str) -> BundleManifest:
    """Read a manifest and verify its hash."""
    path = folder / name
    _refuse_link(folder, name)
    body = hashed_json.read(path, FIX, LARGEST[name])
    if body.get("kind") != "bundle":
        raise ValueError(f"{folder}: this is a prepared folder, not a model; give a bundle or a run folder")
    if body.get("format_version") != 1:
        version = body.get("format_version")
        raise ValueError(f"{path}: unknown format version {version}; install a newer dragoman to open this bundle")
    try:
        return BundleManifest.model_validate(body)
    except ValidationError as error:
        raise DamageError(path, describe_first(error.errors()), FIX) from error


def _check_files(folder: Path, manifest: BundleManifest, hashes: bool) -> None:
    names = {info.file for info in manifest.files}
    missing = sorted({CONFIG, CARD, WEIGHTS} - names)
    if {name for name in names if name.startswith("vocab.")} not in VOCABULARIES:
        missing.append("exactly one vocabulary")
    missing += [one.file.file for one in manifest.exports if one.kept and one.file not in manifest.files]
    if missing:
        raise DamageError(folder / MANIFEST, f"the manifest does not list {missing[0]}", FIX)
    for info in manifest.files:
        _refuse_link(folder, info.file)
        if info.num_bytes > LARGEST.get(info.file, info.num_bytes):
            raise DamageError(folder / info.file, f"the file has {info.num_bytes:,} bytes, which is too large", FIX)
    verify_files(folder, manifest.files, hashes, FIX)


def _model_digest(manifest: BundleManifest) -> str:
    """Return a hash over the hashes of the weights, the vocabulary and config.json."""
    names = {CONFIG, WEIGHTS}.union(*VOCABULARIES)
    rows = sorted(f"{info.sha256} {info.file}\n" for info in manifest.files if info.file in names)
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def _refuse_link(folder: Path, name: str) -> None:
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise DamageError(folder / name, "the file is a symbolic link to a file outside the bundle", FIX)


def _read_config(path: Path, kind: type[ConfigT]) -> ConfigT:
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise DamageError(path, describe_first(error.errors()), FIX) from error


def _check_weights(path: Path, info: BundleInfo) -> None:
    """Check the data types and the number of parameters in the header of the weights file."""
    try:
        with safe_open(path, framework="numpy") as file:
            slices = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118
            stored = sum(prod(part.get_shape()) for part in slices)
            types = {part.get_dtype() for part in slices}
    except SafetensorError as error:
        raise DamageError(path, f"not a valid safetensors file ({error})", FIX) from error
    if not types <= {"F32", "F16"}:
        raise DamageError(path, f"the weights must be F32 or F16, not {', '.join(sorted(types))}", FIX)
    if stored != parameters(info.model):
        expected = parameters(info.model)
        raise DamageError(path, f"the file has {stored:,} parameters, but the model in {CONFIG} has {expected:,}", FIX)
