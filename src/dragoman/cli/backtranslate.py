"""`dragoman backtranslate`: make synthetic training pairs from monolingual target text."""

from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dragoman.cli.command import ModelArgument, ToOption, model_folder, out_option

if TYPE_CHECKING:
    from collections.abc import Sequence

CORPUS: Final = "corpus.yaml"
TAG: Final = "<bt>"
_PLACE: Final = "data:\n  train:\n"


def backtranslate(
    model: ModelArgument,
    shards: Annotated[str, typer.Option(metavar="GLOB", help="Target-language files as a quoted glob: 'mono/*.de'.")],
    out: Annotated[Path, out_option("Folder for the synthetic sources and corpus.yaml.")],
    to: ToOption = None,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of worker processes; default: half the cores.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, metavar="N", help="Beam size; default: the model's own.")] = None,
    field: Annotated[str, typer.Option(metavar="NAME", help="Field to translate in Parquet or JSON lines.")] = "text",
    weight: Annotated[float, typer.Option(min=0.0, metavar="X", help="Passes over synthetic pairs per epoch.")] = 1.0,
) -> None:
    """Back-translate target-language text into synthetic training pairs for a recipe.

    MODEL translates from the target language to the source language.
    Each file is translated into a file of the same name in DIR, as by dragoman translate --shards; the same command
    resumes an interrupted run. DIR/corpus.yaml lists the pairs for data.train of a recipe. A tag before every
    source lets the model tell synthetic sentences from real sentences (Caswell et al., 2019).

        dragoman backtranslate de-en/ --shards 'mono/*.de' --out synthetic/
    """
    from dragoman.bulk.find_shards import find_shards
    from dragoman.bulk.shard_manifest import load_manifest
    from dragoman.cli.translate_run import run_shards
    from dragoman.io.durable import write_durably
    from dragoman.translation.translate_request import TranslateRequest

    if weight == 0.0:
        raise ValueError("--weight 0 would leave the pairs out: give a weight above 0")
    found = [shard for shard in find_shards(shards, out) if isinstance(shard, Path)]
    if not found:
        raise ValueError(f"--shards {shards} is not local: copy the files to a local folder")
    folder = model_folder(model)
    request = TranslateRequest(
        folder, to=to, shards=shards, out=out, workers=workers, field=field, beam=beam, split=False
    )
    run_shards(request)
    manifests = {shard: load_manifest(out / shard.name) for shard in found}
    filled = [shard for shard, manifest in manifests.items() if manifest and manifest.rows]
    if not filled:
        raise ValueError(f"--shards {shards} matches only empty files: give files with text")
    for empty in sorted({*found} - {*filled}):
        print(f"{empty} is empty and not listed in {CORPUS}")
    write_durably(out / CORPUS, describe_corpora(filled, out, field, weight).encode())
    print(f"to train on the pairs, copy the entries below train: in {out / CORPUS} to data.train of a recipe")


def describe_corpora(shards: "Sequence[Path]", out: Path, field: str, weight: float) -> str:
    """Return the synthetic pairs as YAML for a recipe: translations as source, original texts as target."""
    import yaml

    corpora = [_corpus(shard, out / shard.name, field, weight) for shard in shards]
    entries = yaml.safe_dump(corpora, allow_unicode=True, sort_keys=False, width=1000)
    # Indented as in a recipe, so that it can be copied.
    return f"# Synthetic pairs by back-translation, for a recipe beside real pairs.\n{_PLACE}" + indent(entries, "    ")


def _corpus(shard: Path, made: Path, field: str, weight: float) -> dict[str, object]:
    from dragoman.data.corpus import CorpusConfig
    from dragoman.io.streams import uncompressed_suffix

    if uncompressed_suffix(made.name) in (".parquet", ".jsonl", ".ndjson"):
        files = {"source": str(made.absolute()), "source_field": "translation", "target_field": field}
    else:
        files = {"source": str(made.absolute()), "target": str(shard.absolute())}
    corpus: dict[str, object] = {"name": f"back-{shard.name}", **files, "tag": TAG, "weight": weight}
    CorpusConfig.model_validate(corpus)
    return corpus
