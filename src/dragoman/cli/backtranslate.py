"""`dragoman backtranslate`: text of the target language alone becomes pairs to train on."""

from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

CORPUS: Final = "corpus.yaml"
TAG: Final = "<bt>"
_PLACE: Final = "data:\n  train:\n"


def backtranslate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model from your target language back into the source language.")
    ],
    shards: Annotated[
        str, typer.Option(metavar="PATTERN", help="Files of target text, in quotes: 'mono/*.de'; as for translate.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the synthetic sources go.")],
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes; else one for two cores.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, metavar="N", help="Beam size; else the model's own.")] = None,
    field: Annotated[
        str, typer.Option(metavar="NAME", help="The field of Parquet and JSON lines to translate.")
    ] = "text",
    weight: Annotated[
        float, typer.Option(min=0.0, metavar="W", help="How many times an epoch goes through these pairs.")
    ] = 1.0,
) -> None:
    """Translate text of the target language back, and write down how to train on the pairs.

    Each file becomes one of the same name in FOLDER, as with dragoman translate --shards: killed, the same command goes
    on. FOLDER/corpus.yaml then names the pairs for data.train of a recipe, with a tag before every source, so that the
    model can tell made sentences from found ones (Caswell et al., 2019).

        dragoman backtranslate de-en/ --shards 'mono/*.de' --out synthetic/
    """
    from dragoman.cli.translate_shards import translate_shards
    from dragoman.data.durable import write_durably
    from dragoman.decoding.bulk.finding import find_shards

    if weight == 0.0:
        raise ValueError("--weight 0 would leave the pairs out: give a weight above 0")
    found = find_shards(shards, out)
    translate_shards(Path(model), shards, out, workers, column=field, beam=beam, split=False)
    filled = [shard for shard in found if _num_rows(out / shard.name)]
    if not filled:
        raise ValueError(f"{shards}: there is not one line in it, so there is nothing to train on")
    for empty in sorted({*found} - {*filled}):
        print(f"{empty} holds nothing, and is left out of {CORPUS}")
    content = described(filled, out, field, weight).encode()
    write_durably(out / CORPUS, lambda sink: sink.write(content))
    print(f"{out / CORPUS} says how to train on them: copy what stands below train: to data.train of a recipe")


def _num_rows(made: Path) -> int:
    from dragoman.decoding.bulk.manifest import load

    manifest = load(made)
    return manifest.rows if manifest else 0


def described(shards: "Sequence[Path]", out: Path, field: str, weight: float) -> str:
    """The pairs as a part of a recipe: what was made is the source, what was found the target."""
    import yaml

    corpora = [_corpus(shard, out / shard.name, field, weight) for shard in shards]
    entries = yaml.safe_dump(corpora, allow_unicode=True, sort_keys=False, width=1000)
    # As it stands in a recipe, spaces and all, so that it can be copied.
    return (
        f"# Synthetic pairs by back-translation, to stand in a recipe beside those that people made.\n{_PLACE}"
        + indent(entries, "    ")
    )


def _corpus(shard: Path, made: Path, field: str, weight: float) -> dict[str, object]:
    from dragoman.data.corpus import CorpusConfig
    from dragoman.data.packed import unpacked_suffix

    if unpacked_suffix(made.name) in (".parquet", ".jsonl", ".ndjson"):
        files = {"source": str(made.absolute()), "source_field": "translation", "target_field": field}
    else:
        files = {"source": str(made.absolute()), "target": str(shard.absolute())}
    corpus: dict[str, object] = {"name": f"back-{shard.name}", **files, "tag": TAG, "weight": weight}
    CorpusConfig.model_validate(corpus)
    return corpus
