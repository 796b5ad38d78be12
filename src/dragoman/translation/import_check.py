"""Import a model trained elsewhere, after a comparison of CTranslate2 with the original's formulas in NumPy.

Three things are compared on sentences of random tokens: the ids of a text, the log-probabilities of its greedy
translation, and that no other token is more probable there. Needs no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from dragoman.bundle import Bundle, BundleInfo, Card, Export, ExportCheck, open_bundle, write_bundle
from dragoman.bundle.writing import store_export
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.engine import Engine, search
from dragoman.decoding.options import SearchOptions
from dragoman.export.ctranslate2 import exportable_heads, weights_file
from dragoman.io.durable import check_new_folder, write_folder_durably
from dragoman.io.progress import Progress, ignore_progress
from dragoman.pretrained.conversion import ConvertedModel, convert, map_ids
from dragoman.pretrained.formats import choose_tags, read_package
from dragoman.pretrained.head_check import HeadCheck, check_heads
from dragoman.pretrained.marian_model import MarianModel, Positions
from dragoman.pretrained.reference import ReferenceModel
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import EOS

ENOUGH: Final = 24
"""The number of sentences to compare: each takes about a second with a model of the paper's base size."""

LARGEST_DIFFERENCE: Final = 1e-3
"""The largest allowed difference of a token's log-probability. The order of additions alone gives 1e-5."""


@dataclass(frozen=True)
class ImportRequest:
    """All options of `dragoman import`."""

    package: Path
    out: Path
    positions: Positions | None = None
    """The kind of sinusoidal positions; None: transformers' for Hugging Face folders, Marian's for .npz."""
    to: str | None = None
    """The only target language to import of a model with language tags, such as deu; None: all."""
    languages: tuple[str, ...] | None = None
    """The codes of the source and, unless there are several, the target language; None: those of the package."""
    licence: str | None = None
    """The licence of the model; None: that of the package."""


class ImportedModel(NamedTuple):
    """An imported model and the result of the comparison."""

    bundle: Bundle
    check: ExportCheck
    tags: Sequence[str]
    """The language tags, of which one begins every source."""
    head_check: HeadCheck | None
    """The check of the alignment heads; None: the package names none, or the languages have no common tokens."""


def import_model(request: ImportRequest, progress: Progress = ignore_progress) -> ImportedModel:
    """Import a model, compare it with the original's formulas, and write it as a bundle with an export.

    Raise ValueError if the model cannot be imported or the comparison fails; then nothing is written.
    """
    check_new_folder(request.out)
    progress("read the package", 0, None)
    model = read_package(request.package, request.positions)
    tags = choose_tags(request.package, model, request.to)
    try:
        converted = convert(model, tags)
    except ValueError as error:
        raise ValueError(f"{request.package}: cannot import this model: {error}") from error
    info = BundleInfo(
        model=converted.config,
        search=SearchOptions.model_validate(model.search).model_dump(mode="json"),
        **_languages(request, model, converted.vocab.languages),
        alignment_heads=converted.alignment_heads,
    )
    with write_folder_durably(request.out) as beside:
        bundle = write_bundle(beside, info, converted.weights, converted.vocab, _card(request, model, tags))
        heads = exportable_heads(bundle)
        content = weights_file(bundle, "float32", heads)
        export = Export.unchecked(content, heads=heads)
        check = check_import(bundle, export, content, model, converted, progress)
        store_export(bundle.folder, export.model_copy(update={"proof": check}), content)
        progress("confirm the alignment heads", 0, None)
        head_check = check_heads(model, model.alignment_heads, tags[0] if tags else None)
    return ImportedModel(open_bundle(request.out.resolve()), check, tags, head_check)


def check_import(
    bundle: Bundle,
    export: Export,
    content: bytes,
    model: MarianModel,
    converted: ConvertedModel,
    progress: Progress,
) -> ExportCheck:
    """Compare CTranslate2 with the original's formulas; raise ValueError if ids, scores or translations differ."""
    engine = CTranslate2Engine.of(bundle, export, content)
    check = compare_with_formulas(bundle, engine, model, converted, True, progress)
    if wrong := find_difference(check):
        raise ValueError(f"{bundle.folder}: {wrong}: report a bug")
    return check


def compare_with_formulas(
    bundle: Bundle,
    engine: Engine,
    model: MarianModel,
    converted: ConvertedModel,
    is_masked: bool,
    progress: Progress,
) -> ExportCheck:
    """Compare an engine of the bundle with the formulas of a Marian model on sentences of random tokens.

    Of a model with several target languages, each language gets its share of the sentences.
    `converted` has the ids of the Marian model. With `is_masked`, the bundle gives no probability to padding and BOS.
    Raise ValueError if the ids of a text differ.
    """
    reference, never = ReferenceModel(model), model.target.never
    texts = list(filter(None, map(clean_line, model.source.made_up_sentences(ENOUGH))))
    languages = bundle.vocab.languages or (None,)
    rows = []
    for text, language in zip(texts, cycle(languages), strict=False):
        row = bundle.vocab.to(language).source.encode([text]).ids.tolist()
        rows.append(row)
        if map_ids(row, converted.source_order) != model.source.encode(text, f">>{language}<<" if language else None):
            raise ValueError(f"{bundle.folder}: the ids of {text!r} differ from the Marian model's: report a bug")
    found = search(engine, rows, SearchOptions(beam_size=1))
    targets = [result.best.tokens for result in found]
    differences, num_identical = list[float](), 0
    for done, (row, target, scores) in enumerate(zip(rows, targets, engine.score(rows, targets), strict=True), 1):
        wanted = map_ids([*target, EOS], converted.target_order)
        theirs = reference.log_probabilities(map_ids(row, converted.source_order), wanted, never if is_masked else ())
        chosen = theirs[np.arange(len(wanted)), wanted]
        differences += np.nan_to_num(np.abs(chosen - np.array(scores)), nan=np.inf).tolist()
        free = len(wanted) - int(found[done - 1].best.cut)  # where the length limit forces the end, others are better
        theirs[:, never] = -np.inf
        num_identical += bool((theirs.max(axis=1)[:free] - chosen[:free] < LARGEST_DIFFERENCE).all())
        progress("compare with Marian's formulas", done, len(rows))
    return ExportCheck(
        texts=len(rows),
        identical=num_identical,
        largest_difference=max(differences, default=np.inf),
        mean_difference=sum(differences) / max(1, len(differences)),
        held_out=False,
    )


def find_difference(check: ExportCheck) -> str | None:
    """Return a description of the difference from Marian's formulas that exceeds the tolerance, or None."""
    if check.largest_difference > LARGEST_DIFFERENCE:
        return f"a token's log-probability differs from Marian's formulas by {check.largest_difference:.2g}"
    if check.identical < check.texts:
        return f"only {check.identical} of {check.texts} translations are those of Marian's formulas"
    return None


def _languages(request: ImportRequest, model: MarianModel, tagged: Sequence[str]) -> dict[str, Any]:
    """Return the languages of the bundle; those of several language tags are the target languages."""
    source, *targets = request.languages or model.languages
    if len(tagged) < 2 and not targets:
        raise ValueError(f"--languages {source} is not a pair: give two codes, as in en,de")
    if len(tagged) < 2:
        # The name of a package of several languages is that of a family of languages.
        target = tagged[0] if tagged and not request.languages else targets[0]
        return {"source_language": source, "target_language": target}
    if request.languages and targets:
        named = ",".join(request.languages)
        fix = f"give --languages {source} for the source, or --to CODE to import one language"
        raise ValueError(f"--languages {named}: this model has {len(tagged)} target languages: {fix}")
    return {"source_language": source, "target_languages": tuple(tagged)}


def _card(request: ImportRequest, model: MarianModel, tags: Sequence[str]) -> Card:
    origin = model.origin
    notes = [
        f"Imported from {origin.name} ({origin.kind}): {origin.file}, SHA-256 {origin.sha256}.",
        f"Positions: as in {'transformers' if model.positions == 'hf' else 'Marian'} (--positions {model.positions}).",
    ]
    if len(tags) == 1:
        notes.append(f"Every source begins with the language tag {tags[0]}.")
    licence = request.licence or origin.licence
    if licence is None:
        notes.append("The package does not say under which licence the model is.")
    return Card(title=origin.name, licence=licence, notes=tuple(notes), sizes=_sizes(model))


def _sizes(model: MarianModel) -> dict[str, int]:
    return {"source tokens": len(model.source.tokens), "target tokens": len(model.target.tokens)}
