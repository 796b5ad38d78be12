"""`dragoman translate --shards`: many files, one model, several processes; what is finished is never done again."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from dragoman.decoding.bulk.run import Bulk
    from dragoman.decoding.bulk.summary import Summary
    from dragoman.decoding.given import Compute, EngineName


def translate_shards(
    folder: Path,
    pattern: str,
    out: Path,
    workers: int | None = None,
    shard_index: str | None = None,
    ray: bool = False,
    column: str = "text",
    into: str = "translation",
    beam: int | None = None,
    threads: int | None = None,
    engine: "EngineName" = "auto",
    compute: "Compute | None" = None,
    split: bool = True,
    protect: bool = False,
) -> None:
    """Translate every file that `pattern` names, each into a file of the same name in `out`.

    `folder` is the model's (or a run's). `workers` processes share the files, by default two cores each; `threads` are
    those of one worker, by default its share of the cores. `shard_index` is "i/n", from 0: every n-th file from the
    i-th on. `column` and `into` are for Parquet and JSON lines: what is read, and what is added. `split` cuts texts
    into sentences, `protect` keeps placeholders, addresses and numbers as they are. What a user can mend is a
    ValueError, as everywhere; a shard whose workers died again and again ends the command with exit code 1.
    """
    from dragoman.decoding.bulk.run import Bulk

    asked = Bulk(
        *(folder, pattern, out, column, into, workers, threads, shard_index, ray),
        *(beam, engine, compute, split, protect),
    )
    try:
        summary = _carried_out(asked)
    except KeyboardInterrupt:
        print("stopped; the same command goes on with what is not finished", file=sys.stderr)
        raise typer.Exit(130) from None
    print(summary.text())
    if summary.unfinished:
        print(f"error: {summary.problems()}", file=sys.stderr)
        raise typer.Exit(1 if summary.lost else 2)


def _carried_out(asked: "Bulk") -> "Summary":
    from dragoman.cli.progress import shown
    from dragoman.decoding.bulk.run import carry_out

    with shown() as tell:
        return carry_out(asked, tell, lambda text: print(text, file=sys.stderr, flush=True))
