"""`dragoman export`: a trained model for CTranslate2, tried against torch before it is called exported."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast, get_args

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.bundle import Bundle, Export
    from dragoman.bundle.info import ExportStore

_MB: Final = 1e6
_MANY: Final = 0.2
"""Of the sentences: where more come out otherwise, a model has changed."""


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or of a run.")],
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE",
            help="How to keep the matrices: float32 (the default) gives what torch gives; int16 and int8 are smaller, "
            "faster and a little less exact. May be given several times.",
        ),
    ] = None,
    texts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Source sentences to try it on, one a line; without it, a run's own dev set is taken."
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write a folder for CTranslate2 itself as well, to use without dragoman."),
    ] = None,
    derived: Annotated[
        bool,
        typer.Option("--derived", help="Do not keep the file: describe it, and make it anew at every start."),
    ] = False,
) -> None:
    """Make a trained model fast: keep it for CTranslate2 too, inside its own folder.

    dragoman translate then uses CTranslate2, which is several times as fast and needs no torch. Before that, both
    translate the same sentences. In float32 they must write the same, or nothing is exported; int8 and int16 are
    rounded, and how many sentences come out otherwise is told. `dragoman train` has done this already, for float32.

        dragoman export run/ --store int8

        dragoman export run/ --to folder-for-ctranslate2/
    """
    stores = _stores(store or ["float32"])
    _refuse_mistakes(stores, to)
    from dragoman.bundle import open_bundle

    bundle = open_bundle(model)
    _refuse_model(bundle)
    sentences, whose = _sentences(bundle, texts)
    alone = _torchs_alone(bundle)
    for kind in stores:
        exported = _exported(bundle, kind, sentences, not derived)
        print(_told(exported.exports[-1], whose))
        print(_where(exported, derived))
        if kind != "float32" and alone is None:
            print(f"use it with: dragoman translate {model} --compute {kind}")
    if to is not None:
        from dragoman.export.ctranslate2 import write_folder

        write_folder(bundle, to, stores[0])
        print(f"{to}: for ctranslate2.Translator({str(to)!r}), with the vocabulary for SentencePiece beside it")
    if alone is not None:
        print(f"note: this model is meant to search with {alone}, which is torch's alone, so torch is still used")


def _stores(names: list[str]) -> "list[ExportStore]":
    """Each kind once, in the order given."""
    from dragoman.bundle.info import ExportStore

    known = get_args(ExportStore)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"--store {unknown[0]}: matrices are kept as {', '.join(known[:-1])} or {known[-1]}")
    return cast("list[ExportStore]", list(dict.fromkeys(names)))


def _refuse_mistakes(stores: "list[ExportStore]", to: Path | None) -> None:
    from importlib.util import find_spec

    if to is not None and len(stores) > 1:
        raise ValueError(f"--to takes one export, and here are {len(stores)}: give one --store with it")
    if to is not None and to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f"--to {to}: give a folder that is new or empty")
    if find_spec("torch") is None:
        raise ValueError("an export is compared with torch, which is not installed: pip install 'dragoman[train]'")


def _refuse_model(bundle: "Bundle") -> None:
    from dragoman.export.refusal import why_not

    reason = why_not(bundle.info.model)
    if reason:
        raise ValueError(f"{bundle.folder}: this model stays with torch: {reason}")


def _sentences(bundle: "Bundle", texts: str | None) -> "tuple[Sequence[str], str]":
    """What to try it on, and where that is from."""
    from dragoman.decoding.proof import ENOUGH

    if texts is not None:
        from dragoman.evaluation.text import read_text

        lines = [line for line in read_text(texts).lines if line.strip()]
        if not lines:
            raise ValueError(f"--texts {texts}: there is no sentence in it")
        return lines, texts
    try:
        lines = _held_out(bundle.folder.parent)
    except (ValueError, OSError):  # the run is there, but the text it was trained beside is not
        lines = []
    return (lines[:ENOUGH], "the dev set") if lines else ((), "made-up text (give --texts for real ones)")


def _held_out(run: Path) -> list[str]:
    """What a run has kept from training."""
    if not (run / "recipe.yaml").is_file():
        return []
    from dragoman.experiment.recipe import load_recipe
    from dragoman.experiment.run import pairs_of

    dev = load_recipe(run / "recipe.yaml").data.dev
    return list(pairs_of(dev).source) if dev else []


def _exported(bundle: "Bundle", store: "ExportStore", sentences: "Sequence[str]", keep: bool) -> "Bundle":
    from dragoman.cli.progress import shown
    from dragoman.decoding.proof import export_bundle

    with shown() as progress:
        return export_bundle(bundle.folder, store, sentences, keep, progress)


def _told(export: "Export", whose: str) -> str:
    """What was compared, and how it came out."""
    proof = export.proof
    others = proof.texts - proof.identical
    warning = f"\nwarning: {others:,} come out otherwise, more than a fifth: read some of them before you use it"
    return (
        f"{export.store}: {proof.identical:,} of {proof.texts:,} sentences of {whose} become what torch makes of them; "
        f"the log-probability\nof a token differs by {proof.mean_difference:.1g} in the mean, by "
        f"{proof.largest_difference:.1g} at most{warning if others > _MANY * proof.texts else ''}"
    )


def _where(bundle: "Bundle", derived: bool) -> str:
    export = bundle.exports[-1]
    size = f"{export.file.num_bytes / _MB:,.1f} MB"
    if export.store != "float32" and not derived:
        size += f" instead of {_plain_size(bundle) / _MB:,.1f} MB in float32, and loaded faster"
    what = f"described, and made anew at every start ({size})" if derived else f"{export.file.file} ({size})"
    return f"exported: {bundle.folder}: {what}; the bundle's hash is now {bundle.sha256[:12]}"


def _plain_size(bundle: "Bundle") -> int:
    """Bytes of the same model in float32."""
    from dragoman.models.cost import parameters

    kept = [export.file.num_bytes for export in bundle.exports if export.store == "float32"]
    return kept[0] if kept else 4 * parameters(bundle.info.model)


def _torchs_alone(bundle: "Bundle") -> str | None:
    """What of the search that the model is meant to have CTranslate2 cannot do; None if it can do all of it."""
    from dragoman.decoding.engines import torchs_alone
    from dragoman.decoding.options import SearchOptions

    alone = torchs_alone(SearchOptions.model_validate(bundle.info.search))
    return alone[0] if alone else None
