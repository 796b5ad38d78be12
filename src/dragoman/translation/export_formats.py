"""Export a model as a folder for another program: transformers, Argos Translate, or CTranslate2 alone.

Every export is checked before the folder gets its name. The files for transformers are read again, and their formulas
in NumPy are compared with CTranslate2. CTranslate2's weights are those that `dragoman export` has compared with torch;
others are compared now, if torch is installed. Writing needs no torch.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import yaml

from dragoman.bundle import Bundle, Export, ExportCheck
from dragoman.bundle.file_names import LICENCES, README
from dragoman.bundle.info import ExportStore
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.options import SearchOptions
from dragoman.export.argos import argos_package, find_argos_obstacle, find_underscores, package_name
from dragoman.export.ctranslate2 import exportable_heads, folder_files, weights_file
from dragoman.export.obstacles import find_obstacle
from dragoman.io.durable import check_new_folder, write_durably, write_folder_durably
from dragoman.io.progress import Progress, ignore_progress
from dragoman.pretrained.conversion import convert, convert_back
from dragoman.pretrained.conversion import find_obstacle as find_marian_obstacle
from dragoman.pretrained.formats import read_package
from dragoman.pretrained.hugging_face import ALIGNED, LAYER_NORM_EPSILON
from dragoman.pretrained.marian_model import MarianModel, cross_head
from dragoman.pretrained.write_hugging_face import hugging_face_files, loses_positions
from dragoman.translation.import_check import compare_with_formulas, find_difference

ExportFormat = Literal["transformers", "argos", "ctranslate2"]

_CTRANSLATE2_LIMIT: Final = 256
"""CTranslate2's default length limit of a translation, in tokens."""

_ARGOS_INPUT: Final = 1024
"""CTranslate2's default length limit of a source, in tokens; the rest of a longer one is left out."""

_IN_TRANSFORMERS: Final = """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("."), AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["{text}"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```"""
_IN_CTRANSLATE2: Final = """```python
import ctranslate2, sentencepiece

source, target = (sentencepiece.SentencePieceProcessor(model_file=name) for name in {names})
tokens = {tag}source.encode("A text.", out_type=str)
result = ctranslate2.Translator(".").translate_batch([tokens], max_decoding_length={limit})[0]
print(target.decode(result.hypotheses[0]))
```"""
_IN_ARGOS: Final = """```python
import argostranslate.package, argostranslate.translate

argostranslate.package.install_from_path("{name}.argosmodel")
print(argostranslate.translate.translate("A text.", "{source}", "{target}"))
```"""


@dataclass(frozen=True)
class ExportFormatRequest:
    """The options of `dragoman export --as`."""

    format: ExportFormat
    out: Path
    store: ExportStore | None = None
    """The data type of CTranslate2's matrices; None: int8 for Argos Translate, else float32."""
    languages: tuple[str, ...] | None = None
    """The codes of the source and the target language; None: those of the model."""
    texts: Sequence[str] = ()
    """Source sentences for a comparison with torch; empty: sentences of random tokens."""


@dataclass(frozen=True)
class FormatExport:
    """A written folder and the result of its check."""

    path: Path
    """The folder, or the .argosmodel file in it."""
    num_bytes: int
    store: ExportStore
    check: ExportCheck | None
    """None: torch, with which it would be compared, is not installed."""
    is_earlier: bool = False
    """True if the check was made when the model was exported into its own folder."""
    warnings: tuple[str, ...] = ()
    """Differences that the other program makes."""


def export_as(bundle: Bundle, request: ExportFormatRequest, progress: Progress = ignore_progress) -> FormatExport:
    """Write a model as a new folder for another program, and return what was checked.

    Raise ValueError if the other program cannot use the model, or if the check fails; then nothing is written.
    """
    check_new_folder(request.out)
    if request.languages:
        source, target = request.languages
        languages = {"source_language": source, "target_language": target}
        bundle = replace(bundle, info=bundle.info.model_copy(update=languages))
    write = {"transformers": _write_transformers, "argos": _write_argos, "ctranslate2": _write_ctranslate2}
    return write[request.format](bundle, request, progress)


def _refuse(bundle: Bundle, reason: str | None) -> None:
    if reason:
        raise ValueError(f"{bundle.folder}: this model cannot be exported: {reason}")


def _write_transformers(bundle: Bundle, request: ExportFormatRequest, progress: Progress) -> FormatExport:
    if request.store not in (None, "float32"):
        raise ValueError(f"--store {request.store} is for CTranslate2: leave it out, as transformers has float32")
    _refuse(bundle, find_marian_obstacle(bundle.info.model))
    progress("convert the weights", 0, None)
    search = SearchOptions.model_validate(bundle.info.search)
    penalty = {"formula": "length", "alpha": search.penalty.exponent}
    model = convert_back(bundle, {"beam_size": search.beam_size, "penalty": penalty})
    tags = _tags(bundle)
    use = _IN_TRANSFORMERS.format(text=" ".join([*tags[:1], "A text."]))
    files = {**hugging_face_files(model), **_others(bundle, use)}
    files[README] = _front_matter(bundle, model) + files[README]
    with write_folder_durably(request.out) as folder:
        _write(folder, files)
        check = _check_transformers(bundle, folder, tags, progress)
    warnings = []
    if tags:
        named = ", ".join(tags)
        warnings.append(f"transformers adds no language tag ({named}): write one first, as in '{tags[0]} A text.'")
    if loses_positions(model):
        warnings.append(
            "the positions are in model.safetensors, which transformers loads; its save_pretrained leaves them out"
        )
    return FormatExport(request.out, _size(files), "float32", check, False, tuple(warnings))


def _check_transformers(bundle: Bundle, folder: Path, tags: Sequence[str], progress: Progress) -> ExportCheck:
    """Read the folder, and compare its formulas, which are those of transformers, with CTranslate2."""
    content = weights_file(bundle)
    engine = CTranslate2Engine.of(bundle, Export.unchecked(content), content)
    model = read_package(folder)
    check = compare_with_formulas(bundle, engine, model, convert(model, tags), False, progress)
    if wrong := find_difference(check):
        epsilon = getattr(bundle.info.model, "norm_epsilon", None)
        reason = f"; transformers has a norm epsilon of {LAYER_NORM_EPSILON:g}, not {epsilon:g}"
        reason = reason if epsilon != LAYER_NORM_EPSILON else ""
        raise ValueError(f"{bundle.folder}: in transformers {wrong}{reason}: use --as ctranslate2")
    return check


def _write_ctranslate2(bundle: Bundle, request: ExportFormatRequest, progress: Progress) -> FormatExport:
    _refuse(bundle, find_obstacle(bundle.info.model))
    store = request.store or "float32"
    weights, check, is_earlier = _checked_weights(bundle, store, request.texts, progress)
    names, tags = tuple(bundle.vocab.files), _tags(bundle)
    limit = min(_CTRANSLATE2_LIMIT, bundle.info.model.position_limit or _CTRANSLATE2_LIMIT)
    use = _IN_CTRANSLATE2.format(names=(names * 2)[:2], tag=f"[{tags[0]!r}] + " if tags else "", limit=limit)
    files = {**folder_files(bundle, weights), **_others(bundle, use)}
    with write_folder_durably(request.out) as folder:
        _write(folder, files)
    warning = f"CTranslate2 adds no language tag: put one of {', '.join(tags)} before the tokens of every source"
    return FormatExport(request.out, _size(files), store, check, is_earlier, (warning,) if tags else ())


def _write_argos(bundle: Bundle, request: ExportFormatRequest, progress: Progress) -> FormatExport:
    _refuse(bundle, find_obstacle(bundle.info.model) or find_argos_obstacle(bundle))
    store = request.store or "int8"
    weights, check, is_earlier = _checked_weights(bundle, store, request.texts, progress)
    name, info = package_name(bundle), bundle.info
    use = _IN_ARGOS.format(name=name, source=info.source_language, target=info.target_language)
    content = argos_package(bundle, weights, _others(bundle, use))
    with write_folder_durably(request.out) as folder:
        write_durably(folder / f"{name}.argosmodel", content)
    warnings, underscores = [], find_underscores(bundle)
    if underscores:
        warnings.append(
            "Argos Translate writes a space for every underscore, so that file_name comes out as two words; "
            f"{len(underscores)} tokens of this vocabulary have one"
        )
    longest = info.model.position_limit
    if longest is not None and longest < _ARGOS_INPUT:
        warnings.append(f"Argos Translate fails on a sentence of more than {longest} tokens, the model's max_positions")
    path = request.out / f"{name}.argosmodel"
    return FormatExport(path, len(content), store, check, is_earlier, tuple(warnings))


def _checked_weights(
    bundle: Bundle, store: ExportStore, texts: Sequence[str], progress: Progress
) -> tuple[bytes, ExportCheck | None, bool]:
    """Return CTranslate2's weights and their comparison with torch: an earlier one, which the bundle has, or a new one.

    Without torch, weights that were not compared earlier have no comparison.
    """
    progress("convert the weights", 0, None)
    heads = exportable_heads(bundle)
    content = weights_file(bundle, store, heads)
    digest = hashlib.sha256(content).hexdigest()
    for export in bundle.exports:
        if export.file.sha256 == digest:
            return content, export.proof, True
    if find_spec("torch") is None:
        return content, None, False
    from dragoman.translation.export_check import check_export, made_up_sentences

    held_out = any(text.strip() for text in texts)
    sentences = texts if held_out else made_up_sentences(bundle)
    export = Export.unchecked(content, store, heads=heads)
    return content, check_export(bundle, export, content, sentences, held_out, progress), False


def _tags(bundle: Bundle) -> list[str]:
    """Return the language tags, of which one begins every source."""
    source = bundle.vocab.source
    return [source.piece(token) for token in source.tags.values()]


def _others(bundle: Bundle, use: str) -> dict[str, bytes]:
    """Return the model card and the texts of the licences by file name."""
    folder = bundle.folder / LICENCES
    licences = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return {
        README: bundle.card.readme(bundle.info, use).encode(),
        **{f"{LICENCES}/{path.name}": path.read_bytes() for path in licences},
    }


def _front_matter(bundle: Bundle, model: MarianModel) -> bytes:
    """Return the head of a README for Hugging Face, from which an import reads the licence and the alignment head."""
    head: dict[str, object] = {"library_name": "transformers", "pipeline_tag": "translation"}
    if bundle.card.licence:
        head["license"] = bundle.card.licence
    languages = [code for code in model.languages if code]
    if languages:
        head["language"] = languages
    if model.alignment_heads == (cross_head(model.shape.num_decoder_layers - 1),):
        head["tags"] = [ALIGNED]
    return f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000)}---\n\n".encode()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_durably(folder / name, content)


def _size(files: dict[str, bytes]) -> int:
    return sum(map(len, files.values()))
