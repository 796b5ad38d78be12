"""`dragoman prepare`: from text files to a folder of encoded, shuffled, hashed shards."""

import shlex
from pathlib import Path
from typing import Annotated

import typer


def prepare(
    source: Annotated[
        list[str], typer.Option(metavar="FILE", help="Source text, or a TSV, JSON lines or Parquet file.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the prepared folder goes.")],
    target: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Target text, line by line beside it.")
    ] = None,
    weight: Annotated[list[float] | None, typer.Option(help="How often an epoch goes through each corpus.")] = None,
    held_out_source: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Development or test source, to be kept out of training.")
    ] = None,
    held_out_target: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Its target.")] = None,
    vocabulary: Annotated[int | None, typer.Option(min=5, metavar="N", help="Subwords; else chosen by size.")] = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="One vocabulary for each side, not one for both.")
    ] = False,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Keep sentences too, for subword sampling.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes to work in.")] = 2,
    ray: Annotated[bool, typer.Option("--ray", help="Work on a Ray cluster that shares the folders.")] = False,
) -> None:
    """Clean text files, learn subwords, and write shards ready for training.

    Give --source and --target once for each corpus. What is wrong with a pair is counted by name, in a table here and
    in report.json in the folder. Killed at any moment, the same command goes on where it was.
    """
    from contextlib import nullcontext

    from rich.console import Console

    from dragoman.cli.corpora import corpora_of
    from dragoman.cli.progress import shown
    from dragoman.data.cluster import cluster, in_cluster
    from dragoman.data.prepare import PrepareConfig, load_reports
    from dragoman.data.prepare import prepare as run
    from dragoman.data.vocab import Vocab
    from dragoman.data.vocab_training import VocabConfig
    from dragoman.data.workers import in_processes

    if separate and not vocabulary:
        raise ValueError("--separate needs the size of each vocabulary: give --vocabulary N")
    config = PrepareConfig(
        corpora=corpora_of("train", source, target or [], weight or []),
        held_out=corpora_of("held-out", held_out_source or [], held_out_target or []),
        vocabulary=VocabConfig(size=vocabulary, joint=not separate) if vocabulary else None,
        keep_text=keep_text,
    )
    with shown() as progress, cluster(workers) if ray else nullcontext():
        prepared = run(config, out, workers, progress, in_cluster if ray else in_processes)
    console = Console(highlight=False)
    for name, report in load_reports(out).items():
        console.print(f"[bold]{name}[/bold]")
        console.print(report.table() if report.counts else f"{report.pairs:,} pairs read; nothing is wrong with them")
    vocab = Vocab.load(out)
    kind = "for both sides" if vocab.joint else f"and {vocab.target.size:,}, one for each side"
    shards = sum(len(corpus.shards) for corpus in prepared.manifest.corpora)
    pairs = prepared.manifest.counts["stayed"]
    console.print(f"{pairs:,} pairs, {shards} shard{'s' * (shards != 1)}; subwords: {vocab.source.size:,} {kind}")
    console.print(f"look at what the model will see: dragoman peek {shlex.quote(str(out))} 0", soft_wrap=True)
