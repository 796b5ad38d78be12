"""`dragoman peek`: show one batch of prepared data."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def peek(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder written by dragoman prepare.")],
    index: Annotated[int, Argument(min=0, metavar="BATCH", help="Batch number, counted from 0 over all epochs.")] = 0,
    tokens: Annotated[int, Option(min=1, metavar="N", help="Batch size in tokens, padding included.")] = 4096,
    seed: Annotated[int, Option(metavar="N", help="Random seed for the batch order.")] = 1,
    rows: Annotated[int, Option(min=1, metavar="N", help="Show the first N sentence pairs of the batch.")] = 4,
) -> None:
    """Show one batch as the model sees it: text, subwords, ids, lengths and padding.

    The order of the batches depends on --tokens and --seed only: those of a recipe (training.batch.tokens and seed)
    give the batches of its training.

        dragoman peek prepared/ 0
    """
    from rich.console import Console

    from dragoman.data.batches import Reader
    from dragoman.data.manifest import Prepared
    from dragoman.data.order import BatchConfig
    from dragoman.text.vocab import PAD, Vocab

    prepared = Prepared.open(folder, verify=False)
    vocab = Vocab.load(folder)
    reader = Reader.of(prepared, BatchConfig(tokens=tokens), seed)
    batch = reader(index)
    num_batches = reader.plan.num_batches
    console = Console(highlight=False, markup=False, soft_wrap=True)
    positions = batch.source.size + batch.target.size
    padding = 1.0 - ((batch.source != PAD).sum() + (batch.target != PAD).sum()) / positions
    place = f"number {index % num_batches:,} of {num_batches:,} in epoch {index // num_batches:,}"
    lengths = f"{batch.source.shape[1]} source + {batch.target.shape[1]} target tokens each"
    console.print(f"batch {index:,}: {place}, from {batch.corpus}")
    console.print(f"{len(batch.lines)} pairs, {lengths}, {positions:,} in all, {padding:.1%} padding")
    for row, line in enumerate(batch.lines[:rows].tolist()):
        console.print(f"\nline {line + 1:,}")
        for name, subwords, ids in (("source", vocab.source, batch.source), ("target", vocab.target, batch.target)):
            real = [token for token in ids[row].tolist() if token != PAD]
            console.print(f"  {name}  {subwords.decode(real)}")
            console.print(f"  pieces  {' '.join(subwords.piece(token) for token in real)}")
            console.print(f"  ids     {' '.join(map(str, real))}")
