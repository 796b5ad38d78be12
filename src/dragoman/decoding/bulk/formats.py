"""What a shard holds, by its name, and the function that translates such a one."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from dragoman.data.durable import Sink
from dragoman.data.packed import PACKED, unpacked_suffix
from dragoman.decoding.bulk.rows import Columns, Counts, Translate

Format = Callable[[Path, Sink, Columns, Translate], Counts]
"""Reads a shard and writes its translation."""

OTHERS: Final = {
    ".csv": "write it as JSON lines or Parquet",
    ".tsv": "write it as JSON lines or Parquet",
    ".json": "write one object a line, and name it .jsonl",
    ".arrow": "write it as Parquet",
    ".feather": "write it as Parquet",
    ".html": "extract its text",
    ".xml": "extract its text",
    ".pdf": "extract its text",
    ".docx": "extract its text",
    ".zip": "unpack it",
    ".bz2": "pack it as .gz or .zst",
    ".xz": "pack it as .gz or .zst",
}
"""What is neither Parquet nor JSON lines nor plain text, and what to do with it."""


def format_of(shard: Path) -> Format:
    """By the end of its name; what has no ending that is known is text, and is looked at before it is believed."""
    inner = unpacked_suffix(shard)
    if inner == ".parquet":
        if shard.suffix in PACKED:
            raise ValueError(f"{shard}: Parquet is packed inside: unpack it")
        from dragoman.decoding.bulk.parquet_shard import translate_parquet

        return translate_parquet
    if inner in OTHERS:
        raise ValueError(f"{shard}: a shard is Parquet, JSON lines or plain text, and this is {inner}; {OTHERS[inner]}")
    if inner in (".jsonl", ".ndjson"):
        from dragoman.decoding.bulk.jsonl_shard import translate_jsonl

        return translate_jsonl
    from dragoman.decoding.bulk.text_shard import translate_text

    return translate_text


def refuse_unreadable(shards: Iterable[Path]) -> None:
    """Raise before anything is begun if a shard is of no kind that is known, or what it needs is not installed."""
    for shard in shards:
        format_of(shard)
        if shard.suffix == ".zst":
            import pyarrow  # noqa: F401  # to read it
            import zstandard  # noqa: F401  # to write it
