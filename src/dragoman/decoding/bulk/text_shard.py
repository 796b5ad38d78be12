"""A shard of plain text: a line is a row. Lines keep their order, their number and the way they end."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.data.durable import Sink
from dragoman.decoding.bulk.packing import packed, read_lines
from dragoman.decoding.bulk.rows import Columns, Counts, Translate, in_step


def translate_text(shard: Path, sink: Sink, _: Columns, translate: Translate) -> Counts:
    """Writes a translation for each line."""
    rows = 0
    with packed(shard, sink) as writer:
        for end, (translation,) in in_step(_lines(shard), translate):
            writer.write(f"{translation}{end}".encode())
            rows += 1
    return Counts(rows, 0)


def _lines(shard: Path) -> Iterator[tuple[str, list[str | None]]]:
    for line in read_lines(shard):
        yield line.end, [line.text]
