"""`dragoman prepare`: clean text files and encode them as shards for training."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from dragoman.cli.command import FieldsOption, out_option
from dragoman.cli.train import Pairs, Sources, Targets


def prepare(
    out: Annotated[Path | None, out_option("Folder for the prepared data.")] = None,
    source: Sources = None,
    target: Targets = None,
    pairs: Pairs = None,
    fields: FieldsOption = None,
    weight: Annotated[
        list[float] | None,
        Option(metavar="X", help="Passes per epoch, one --weight for each --source and each --pairs; default: 1."),
    ] = None,
    held_out_source: Annotated[
        list[str] | None, Option(metavar="FILE", help="Source text of a test set to keep out of training (repeatable).")
    ] = None,
    held_out_target: Annotated[
        list[str] | None, Option(metavar="FILE", help="Translations of --held-out-source (repeatable).")
    ] = None,
    held_out_pairs: Annotated[
        list[str] | None, Option(metavar="FILE", help="Pairs of a test set to keep out of training (repeatable).")
    ] = None,
    vocabulary: Annotated[
        int | None, Option(min=5, metavar="N", help="Vocabulary size; default: by corpus size.")
    ] = None,
    separate: Annotated[bool, Option("--separate", help="Learn separate source and target vocabularies.")] = False,
    keep_text: Annotated[bool, Option("--keep-text", help="Store text as well as ids, for subword sampling.")] = False,
    workers: Annotated[int, Option(min=1, metavar="N", help="Number of worker processes.")] = 2,
    ray: Annotated[bool, Option("--ray", help="Run on Ray, at $RAY_ADDRESS or else locally.")] = False,
    verify: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Check the SHA-256 of all files of a prepared folder, and do nothing else."),
    ] = None,
) -> None:
    """Clean text files, learn subwords, and write shards ready for training.

    Give --source and --target, or --pairs, once for each corpus. The problems of sentence pairs, such as an empty side,
    are counted, printed as a table and written to DIR/report.json. The same command resumes after an interruption.

        dragoman prepare --source a.en --target a.de --out prepared/

        dragoman prepare --pairs memory.tmx --held-out-pairs test.csv --out prepared/

        dragoman prepare --verify prepared/
    """
    from contextlib import nullcontext

    from rich.console import Console

    from dragoman.cli.progress import show_progress
    from dragoman.data.corpus import corpora_from_files
    from dragoman.data.manifest import Prepared
    from dragoman.data.prepare import PrepareConfig, load_reports
    from dragoman.data.prepare import prepare as run
    from dragoman.io.processes import in_processes
    from dragoman.io.ray_tasks import cluster, in_cluster
    from dragoman.text.vocab import Vocab, VocabConfig

    console = Console(highlight=False)
    if verify is not None:
        if source or target or pairs or out:
            raise ValueError("--verify checks a finished folder: leave out --source, --target, --pairs and --out")
        with show_progress() as progress:
            manifest = Prepared.open(verify, progress=progress).manifest
        console.print(f"{verify}: {len(manifest.files)} files, none damaged", soft_wrap=True, markup=False)
        return
    if out is None:
        raise ValueError("no folder for the prepared data: give --out DIR")
    if not source and not pairs:
        raise ValueError("no text to prepare: give --source and --target, or --pairs")
    if separate and not vocabulary:
        raise ValueError("--separate needs the size of each vocabulary: add --vocabulary N")
    train_fields = fields if pairs or not held_out_pairs else None
    held_out_fields = fields if held_out_pairs else None
    config = PrepareConfig(
        corpora=corpora_from_files("train", source or [], target or [], weight or [], pairs or [], train_fields),
        held_out=corpora_from_files(
            "held-out", held_out_source or [], held_out_target or [], (), held_out_pairs or [], held_out_fields
        ),
        vocabulary=VocabConfig(size=vocabulary, joint=not separate) if vocabulary else None,
        keep_text=keep_text,
    )
    with show_progress() as progress, cluster(workers) if ray else nullcontext():
        prepared = run(config, out, workers, progress, in_cluster if ray else in_processes)
    for name, report in load_reports(out).items():
        console.print(f"[bold]{name}[/bold]")
        console.print(report.table() if report.counts else f"{report.pairs:,} pairs read; no problems found")
    vocab = Vocab.load(out)
    kind = "for both sides" if vocab.joint else f"and {vocab.target.size:,}, one for each side"
    shards = sum(len(corpus.shards) for corpus in prepared.manifest.corpora)
    stayed = prepared.manifest.counts["stayed"]
    console.print(f"{stayed:,} pairs, {shards} shard{'s' * (shards != 1)}; subwords: {vocab.source.size:,} {kind}")
    console.print(f"to see a batch: dragoman peek {shlex.quote(str(out))} 0", soft_wrap=True)
