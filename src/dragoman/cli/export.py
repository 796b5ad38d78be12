"""`dragoman export`: export a trained model for CTranslate2 or another program, after a comparison of both."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast, get_args

from dragoman.cli.command import ModelArgument, model_folder, option, out_option, split_languages
from dragoman.cli.verbosity import print_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.bundle import Bundle, ExportCheck
    from dragoman.bundle.info import ExportStore

_MB: Final = 1e6
_MANY: Final = 0.2
"""Share of changed translations above which a warning is shown."""

_USES: Final = {
    "transformers": "to use it: AutoModelForSeq2SeqLM.from_pretrained({!r})",
    "argos": "to use it: argostranslate.package.install_from_path({!r})",
    "ctranslate2": "to use it: ctranslate2.Translator({!r})",
}


def export(
    model: ModelArgument,
    store: Annotated[
        list[str] | None,
        option("TYPE", "Weight type to export: float32 (default), int16 or int8 (--as argos: default); repeatable."),
    ] = None,
    texts: Annotated[str | None, option("FILE", "Source sentences for the check with torch; default: dev set.")] = None,
    out: Annotated[Path | None, out_option("New folder for --as.")] = None,
    derived: Annotated[bool, option(None, "Store no file: convert the model at every start.", "--derived")] = False,
    as_: Annotated[
        str | None,
        option("transformers|argos|ctranslate2", "Write the model for this program, into the folder --out.", "--as"),
    ] = None,
    languages: Annotated[
        str | None, option("CODE,CODE", "Source and target language for --as, as in en,de; default: as in the model.")
    ] = None,
) -> None:
    """Export a model for faster translation, or for another program.

    Without --as, the model's folder gets a version for CTranslate2: `dragoman translate` then uses CTranslate2, which
    is several times as fast and needs no torch. Before the export, torch and CTranslate2 translate the same sentences.
    In float32 all translations must be equal, or nothing is exported; int8 and int16 round the weights, so the number
    of changed translations is printed. `dragoman train` exports float32 automatically.

        dragoman export run/ --store int8

    With --as, the model itself stays as it is, and --out gets the files of another program: a Marian or Pegasus model
    for transformers, an .argosmodel for Argos Translate and LibreTranslate, or a model for CTranslate2 alone. A model
    that the program cannot use is refused with the reason.

        dragoman export run/ --as transformers --out for-transformers/
    """
    if as_ is not None:
        _export_as(model, as_, out, store or [], texts, languages, derived)
        return
    if languages is not None:
        raise ValueError("--languages is for --as: give --as, or leave it out")
    if out is not None:
        raise ValueError("--out is for --as: give --as ctranslate2 for a folder of CTranslate2, or leave it out")
    stores = _check_options(store or ["float32"])
    from dragoman.bundle import open_bundle, refuse_demo
    from dragoman.cli.progress import show_progress
    from dragoman.export.obstacles import find_obstacle
    from dragoman.translation.export_check import export_bundle

    bundle = open_bundle(model_folder(model))
    refuse_demo(bundle.folder, "export a model of your own, or give --as")
    if reason := find_obstacle(bundle.info.model):
        raise ValueError(f"{bundle.folder}: this model cannot be exported: {reason}")
    sentences, origin = _sentences(bundle, texts)
    torch_only = find_torch_only_option(bundle)
    for kind in stores:
        with show_progress() as progress:
            exported = export_bundle(bundle.folder, kind, sentences, not derived, progress)
        print(describe_check(kind, exported.exports[-1].proof, origin))
        print(_describe_file(exported, derived))
        if kind != "float32" and torch_only is None:
            print(f"to use {kind}: dragoman translate {model} --compute {kind}")
    if torch_only is not None:
        print(f"note: this model searches with {torch_only}, which only torch supports, so torch is still used")


def _export_as(
    model: str, as_: str, out: Path | None, stores: list[str], texts: str | None, languages: str | None, derived: bool
) -> None:
    """Check the options of --as, write the folder, and print what was checked."""
    from importlib.util import find_spec

    from dragoman.bundle import open_bundle
    from dragoman.bundle.info import ExportStore
    from dragoman.cli.progress import show_progress
    from dragoman.decoding.checks import check_choice
    from dragoman.translation.export_formats import ExportFormat, ExportFormatRequest, export_as

    check_choice("--as", as_, get_args(ExportFormat))
    if out is None:
        raise ValueError(f"--as {as_} writes a folder: give it as --out")
    if derived:
        raise ValueError("--derived is for exports into the model's own folder: leave it out with --as")
    for name in stores:
        check_choice("--store", name, get_args(ExportStore))
    if len(set(stores)) > 1:
        raise ValueError(f"--as takes one weight type, not {len(set(stores))}: give a single --store")
    kind, store = cast("ExportFormat", as_), cast("ExportStore | None", stores[0] if stores else None)
    if texts is not None and kind == "transformers":
        raise ValueError("--texts is for a comparison with torch: leave it out with --as transformers")
    bundle = open_bundle(model_folder(model))  # with all target languages
    is_compared = kind != "transformers" and find_spec("torch") is not None
    sentences, origin = _sentences(bundle, texts) if is_compared else ((), "")
    request = ExportFormatRequest(kind, out, store, split_languages(languages), sentences)
    with show_progress() as progress:
        exported = export_as(bundle, request, progress)
    if exported.check is None:
        print_note("note: not compared with torch, which is not installed: pip install 'dragoman[train]'")
    elif kind == "transformers":
        print(describe_formulas(exported.check))
    else:
        origin = "an earlier check" if exported.is_earlier else origin
        print(describe_check(exported.store, exported.check, origin))
    for warning in exported.warnings:
        print_note(f"warning: {warning}")
    print(f"exported: {exported.path} ({exported.num_bytes / _MB:,.1f} MB); {_USES[kind].format(str(exported.path))}")


def _check_options(stores: list[str]) -> "list[ExportStore]":
    """Check the options, and return the weight types without duplicates."""
    from importlib.util import find_spec

    from dragoman.bundle.info import ExportStore
    from dragoman.decoding.checks import check_choice

    for name in stores:
        check_choice("--store", name, get_args(ExportStore))
    if find_spec("torch") is None:
        raise ValueError("torch is needed to check an export, and is not installed: pip install 'dragoman[train]'")
    return cast("list[ExportStore]", list(dict.fromkeys(stores)))


def _sentences(bundle: "Bundle", texts: str | None) -> "tuple[Sequence[str], str]":
    """Return the sentences to compare with torch, and a description of their origin."""
    from dragoman.translation.export_check import ENOUGH

    if texts is not None:
        from dragoman.evaluation.text_files import read_text

        lines = [line for line in read_text(texts).lines if line.strip()]
        if not lines:
            raise ValueError(f"--texts {texts} has no text: give a file with one sentence per line")
        return lines, texts
    try:
        lines = _read_dev_set(bundle.folder.parent)
    except (ValueError, OSError):  # the run is there, but the text it was trained beside is not
        lines = []
    return (lines[:ENOUGH], "the dev set") if lines else ((), "made-up text (give --texts for real sentences)")


def _read_dev_set(run: Path) -> list[str]:
    if not (run / "recipe.yaml").is_file():
        return []
    from dragoman.experiment.held_out import mix_sources, read_pairs
    from dragoman.recipes.recipe import load_recipe

    return mix_sources([read_pairs(dev) for dev in load_recipe(run / "recipe.yaml").data.dev_sets])


def describe_formulas(check: "ExportCheck") -> str:
    """Return a text that compares the files for transformers with CTranslate2."""
    return (
        f"transformers' formulas translate {check.identical:,} of {check.texts:,} sentences of random tokens as "
        f"CTranslate2 does;\nthe log-probability of a token differs by {check.largest_difference:.1g} at most"
    )


def describe_check(store: str, check: "ExportCheck", origin: str) -> str:
    """Return a text that compares the translations of an export with those of torch."""
    changed = check.texts - check.identical
    warning = f"\nwarning: {changed:,} translations changed, more than a fifth: review some before using this export"
    return (
        f"{store}: {check.identical:,} of {check.texts:,} sentences of {origin} are translated as by torch; "
        f"the log-probability\nof a token differs by {check.mean_difference:.1g} in the mean, by "
        f"{check.largest_difference:.1g} at most{warning if changed > _MANY * check.texts else ''}"
    )


def _describe_file(bundle: "Bundle", derived: bool) -> str:
    from dragoman.models.cost import FLOAT32, parameters

    export = bundle.exports[-1]
    size = f"{export.file.num_bytes / _MB:,.1f} MB"
    if export.store != "float32" and not derived:
        exact = [other.file.num_bytes for other in bundle.exports if other.store == "float32"]
        num_bytes = exact[0] if exact else FLOAT32 * parameters(bundle.info.model)
        size += f" instead of {num_bytes / _MB:,.1f} MB in float32, and loaded faster"
    what = f"no file, converted at every start ({size})" if derived else f"{export.file.file} ({size})"
    return f"exported: {bundle.folder}: {what}; the bundle's hash is now {bundle.sha256[:12]}"


def find_torch_only_option(bundle: "Bundle") -> str | None:
    """Return the model's search option that only torch supports, or None."""
    from dragoman.decoding.options import SearchOptions

    shortest = SearchOptions.model_validate(bundle.info.search).min_length
    return f"min_length: {shortest}" if shortest > 1 else None
