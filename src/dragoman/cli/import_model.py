"""`dragoman import`: import a Marian model of OPUS-MT or Hugging Face, after a comparison with its own formulas."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from dragoman.cli.command import complete_path, option, out_option, split_languages
from dragoman.cli.verbosity import print_note

if TYPE_CHECKING:
    from dragoman.translation.import_check import ImportedModel


def _complete_package(incomplete: str) -> list[str]:
    return complete_path(incomplete, (".zip",))


def import_model(
    package: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|ZIP",
            help="Hugging Face folder of a Marian model, or OPUS-MT package: folder or zip.",
            autocompletion=_complete_package,
        ),
    ],
    out: Annotated[Path, out_option("New folder for the imported model.")],
    to: Annotated[
        str | None, option("CODE", "Import only this target language of a model with several: deu for >>deu<<.")
    ] = None,
    languages: Annotated[
        str | None, option("CODE,CODE", "Source and target language, as in en,de; default: as in the package.")
    ] = None,
    licence: Annotated[str | None, option("TEXT", "Licence of the model; default: as in the package.")] = None,
    positions: Annotated[
        str | None,
        option("hf|marian", "Sinusoids: of transformers (default for its folders) or Marian (default for .npz)."),
    ] = None,
) -> None:
    """Import a Marian model, such as those of OPUS-MT, as a model folder.

    The weights, the vocabulary and the search options are converted; translations are those of the original. Before the
    folder is written, CTranslate2's scores are compared with the original's formulas. No torch is needed, except for
    weights in a .bin file. A model that cannot be imported is refused with the reason.

        dragoman import opus-mt-en-de/ --out base/

        dragoman import opus-2020-02-26.zip --languages en,de --out base/
    """
    from dragoman.cli.progress import show_progress
    from dragoman.decoding.checks import check_choice
    from dragoman.pretrained.marian_model import Positions
    from dragoman.translation.import_check import ImportRequest
    from dragoman.translation.import_check import import_model as run_import

    check_choice("--positions", positions, get_args(Positions))
    codes = split_languages(languages, fewest=1)
    request = ImportRequest(package, out, positions, to, codes, licence)  # type: ignore[arg-type]
    with show_progress() as progress:
        imported = run_import(request, progress)
    print(_describe(imported, out))
    if doubt := _describe_doubt(imported, out):
        print_note(doubt)
    if imported.bundle.card.licence is None:
        print_note("note: the package does not say under which licence the model is: give --licence if you know it")


def _describe(imported: "ImportedModel", out: Path) -> str:
    bundle, check = imported.bundle, imported.check
    lines = [
        f"{check.texts} sentences of random tokens: ids and translations are the original's; the log-probability of a "
        f"token differs by {check.largest_difference:.1g} at most",
        f"imported: {out}: {bundle.info.model.summary}",
    ]
    if len(imported.tags) == 1:
        lines.append(f"every source begins with {imported.tags[0]}")
    languages = bundle.info.target_languages
    if languages:
        lines.append(f"{len(languages)} target languages: {', '.join(languages)}")
    if bundle.info.alignment_heads:
        lines.append(f"word alignment: {_describe_heads(imported)}")
    to = f" --to {languages[0]}" if languages else ""
    return "\n".join([*lines, f"to use it: dragoman translate {out}{to} 'A text.'"])


def _describe_heads(imported: "ImportedModel") -> str:
    heads, check = imported.bundle.info.alignment_heads, imported.head_check
    numbers = " and ".join(str(head.head) for head in heads)
    named = f"{heads[0].layer}, head{'s' * (len(heads) > 1)} {numbers}, which the package names"
    if check is None:
        return f"{named}; the languages have too few tokens in common to confirm it"
    confirmed = "confirmed: " if check.is_confirmed else ""
    return f"{named}; {confirmed}it finds {check.found} of {check.tokens} copied tokens"


def _describe_doubt(imported: "ImportedModel", out: Path) -> str | None:
    """Return a note if the alignment heads that the package names do not align."""
    check = imported.head_check
    if check is None or check.is_confirmed:
        return None
    other = f"{check.best.layer}, head {check.best.head}, finds {check.found_by_best}"
    fix = f"choose a head with dragoman align {out} --search --store"
    return f"note: the alignment head that the package names does not align copied tokens, and {other}: {fix}"
