"""Write a model as a package of Argos Translate: a zip with a CTranslate2 model and one SentencePiece model."""

import io
import json
from collections.abc import Mapping
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from dragoman.bundle import Bundle
from dragoman.export.ctranslate2 import WEIGHTS, settings_files
from dragoman.text.language_names import language_name

_PACKAGE_VERSION: Final = "1.0"
_ARGOS_VERSION: Final = "1.11"
"""The version of Argos Translate that the packages were tried with."""

_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
"""The date of every file: the same model gives the same bytes."""


def find_argos_obstacle(bundle: Bundle) -> str | None:
    """Return the reason why Argos Translate cannot use a model that CTranslate2 can use, or None."""
    info, vocab = bundle.info, bundle.vocab
    if vocab.languages:
        return "every source begins with a language tag, which Argos Translate does not add: use --as ctranslate2"
    if info.source_language is None or info.target_language is None:
        return "Argos Translate needs the codes of both languages: give --languages, as in en,de"
    if not np.isin(vocab.target.byte_values, [-1, *vocab.source.byte_values]).all():
        return "Argos Translate decodes with the source vocabulary, which lacks the bytes of the target's"
    return None


def find_underscores(bundle: Bundle) -> list[str]:
    """Return the tokens of the target with an underscore, which Argos Translate turns into a space."""
    target = bundle.vocab.target
    names = [target.piece(int(token)) for token in np.flatnonzero(target.byte_values < 0)]
    return [name for name in names if "_" in name]


def package_name(bundle: Bundle) -> str:
    """Return the name of a package as Argos Translate builds it, such as translate-en_de-1_0."""
    codes = f"{bundle.info.source_language}_{bundle.info.target_language}"
    return f"translate-{codes}-{_PACKAGE_VERSION.replace('.', '_')}"


def argos_package(bundle: Bundle, weights: bytes, others: Mapping[str, bytes]) -> bytes:
    """Return the content of an .argosmodel file; `others` are further files, such as README.md, by name."""
    source, target = bundle.info.source_language, bundle.info.target_language
    assert source is not None
    assert target is not None
    metadata = {
        "package_version": _PACKAGE_VERSION,
        "argos_version": _ARGOS_VERSION,
        "from_code": source,
        "from_name": language_name(source),
        "to_code": target,
        "to_name": language_name(target),
    }
    model = {**settings_files(bundle), WEIGHTS: weights}
    files = {
        "metadata.json": (json.dumps(metadata, indent=2) + "\n").encode(),
        "sentencepiece.model": bundle.vocab.source.proto,
        **{f"model/{name}": content for name, content in model.items()},
        **others,
    }
    written, folder = io.BytesIO(), package_name(bundle)
    with ZipFile(written, "w") as archive:
        for name, content in files.items():
            archive.writestr(ZipInfo(f"{folder}/{name}", _LONG_AGO), content, ZIP_DEFLATED)
    return written.getvalue()
