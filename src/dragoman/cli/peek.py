"""`dragoman peek`: what the model will really see in any batch."""

from pathlib import Path
from typing import Annotated

import typer


def peek(
    folder: Annotated[Path, typer.Argument(help="A prepared folder.")],
    index: Annotated[
        int, typer.Argument(min=0, metavar="BATCH", help="Which batch, counted from 0 over all epochs.")
    ] = 0,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of a batch, both sides, padding included.")] = 4096,
    seed: Annotated[int, typer.Option(help="The seed of the order.")] = 1,
    rows: Annotated[int, typer.Option(min=1, help="How many of its pairs to show.")] = 4,
) -> None:
    """Show one batch as the model will see it: text, pieces, ids, lengths and padding."""
    from rich.console import Console

    from dragoman.data.batches import Reader
    from dragoman.data.manifest import Prepared
    from dragoman.data.order import BatchConfig
    from dragoman.data.vocab import PAD, Vocab

    prepared = Prepared.open(folder, verify=False)
    vocab = Vocab.load(folder)
    reader = Reader.of(prepared, BatchConfig(tokens=tokens), seed)
    batch = reader(index)
    num_batches = reader.course.num_batches
    console = Console(highlight=False, markup=False, soft_wrap=True)
    positions = batch.source.size + batch.target.size
    padding = 1.0 - ((batch.source != PAD).sum() + (batch.target != PAD).sum()) / positions
    console.print(
        f"batch {index:,}: number {index % num_batches:,} of {num_batches:,} in epoch {index // num_batches:,}, "
        f"from {batch.corpus}\n"
        f"{len(batch.lines)} pairs, {batch.source.shape[1]} source + {batch.target.shape[1]} target tokens each, "
        f"{positions:,} in all, {padding:.1%} padding"
    )
    for row, line in enumerate(batch.lines[:rows].tolist()):
        console.print(f"\nline {line + 1:,}")
        for name, subwords, ids in (("source", vocab.source, batch.source), ("target", vocab.target, batch.target)):
            real = [token for token in ids[row].tolist() if token != PAD]
            console.print(f"  {name}  {subwords.decode(real)}")
            console.print(f"  pieces  {' '.join(subwords.piece(token) for token in real)}")
            console.print(f"  ids     {' '.join(map(str, real))}")
