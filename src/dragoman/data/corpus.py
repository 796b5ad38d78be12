"""Sentence pairs, chunk by chunk, from wherever and however they are kept."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.packed import unpacked_suffix
from dragoman.data.records import Pairs, read_jsonl, read_parquet, read_text, read_tsv
from dragoman.data.stream import STANDARD_INPUT

Format = Literal["text", "tsv", "jsonl", "parquet"]

CHUNK_BYTES: Final = 16 << 20
"""A chunk closes with the pair that takes it past this, however few pairs it has."""

_SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}


class CorpusConfig(Config):
    """Where the sentence pairs of one corpus are."""

    name: str = Field("train", description="what reports call it")
    source: str = Field(
        description="a path, an address fsspec can open, or - for standard input; .gz and .zst are unpacked"
    )
    target: str | None = Field(None, description="the other side, of a text corpus; other formats carry both")
    format: Literal["auto", "text", "tsv", "jsonl", "parquet"] = Field("auto", description="auto: by the suffix")
    source_field: str | int | None = Field(
        None,
        description="the source's column (TSV: from 0, or a name if the first line holds names) or key; "
        "outer.inner reaches into objects. Else 0 (TSV) or source",
    )
    target_field: str | int | None = Field(None, description="the same of the target. Else 1 (TSV) or target")
    weight: float = Field(1.0, gt=0.0, allow_inf_nan=False, description="how many times an epoch goes through it")
    tag: str | None = Field(
        None,
        pattern=r"^\S+$",
        description="a word put before each source sentence, by which a model can tell this corpus: made by "
        "back-translation, of another domain. Of training corpora alone",
    )

    @model_validator(mode="after")
    def _fits(self) -> "CorpusConfig":
        kept_as = self.kept_as
        if kept_as == "text" and self.target is None:
            raise ValueError(
                f"{self.source}: a text corpus needs a target; a file with both sides is named .tsv, .jsonl or .parquet"
            )
        if kept_as != "text" and self.target is not None:
            raise ValueError(f"{self.source}: {kept_as} carries both sides: leave out target {self.target}")
        if kept_as == "text" and (self.source_field, self.target_field) != (None, None):
            raise ValueError(f"{self.source}: text has no fields; say format: tsv or jsonl, or leave the fields out")
        if self.source == self.target:
            raise ValueError(f"{self.source}: source and target are the same file")
        if kept_as != "text" and self.fields[0] == self.fields[1]:
            raise ValueError(f"{self.source}: source and target are the same field {self.fields[0]!r}")
        if self.source == STANDARD_INPUT and kept_as not in ("tsv", "jsonl"):
            raise ValueError("standard input carries both sides: say format: tsv or jsonl")
        return self

    @property
    def kept_as(self) -> Format:
        """The format, given or known by the suffix."""
        if self.format != "auto":
            return self.format
        return _SUFFIXES.get(unpacked_suffix(self.source), "text") if self.target is None else "text"

    @property
    def fields(self) -> tuple[str, str]:
        """The names of the two fields, given or usual."""
        usual = ("0", "1") if self.kept_as == "tsv" else ("source", "target")
        given = (self.source_field, self.target_field)
        source, target = (str(name if name is not None else other) for name, other in zip(given, usual, strict=True))
        return source, target


@dataclass(frozen=True)
class Chunk:
    """Pairs in a row, raw: bytes as they stand in the files, without their newlines."""

    index: int
    first_line: int
    """Of the corpus, from 0."""
    source: pa.LargeBinaryArray
    target: pa.LargeBinaryArray
    unterminated: bool = False
    """Its last line ends a file without a newline."""

    def __len__(self) -> int:
        return len(self.source)


def read_chunks(corpus: CorpusConfig, lines_per_chunk: int) -> Iterator[Chunk]:
    """The corpus in order. Where a chunk ends depends on nothing but the pairs."""
    if lines_per_chunk < 1:
        raise ValueError(f"a chunk needs at least 1 line, not {lines_per_chunk}")
    return _gather(_read(corpus), lines_per_chunk)


def check_corpora(corpora: Sequence[CorpusConfig]) -> None:
    """Raise if corpora that are to be used together cannot be told apart, or one has its sides swapped."""
    names = [corpus.name for corpus in corpora]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} corpora are named {name!r}: give each its own name")
    targets = {corpus.target: corpus for corpus in corpora if corpus.target is not None}
    for corpus in corpora:
        if corpus.source in targets:
            other = targets[corpus.source]
            raise ValueError(
                f"{corpus.source} is the source of {corpus.name!r} and the target of {other.name!r}: "
                "one of them has its sides swapped"
            )


def _read(corpus: CorpusConfig) -> Iterator[Pairs]:
    match corpus.kept_as:
        case "text":
            assert corpus.target is not None
            return read_text(corpus.source, corpus.target)
        case "tsv":
            return read_tsv(corpus.source, *corpus.fields)
        case "jsonl":
            return read_jsonl(corpus.source, *corpus.fields)
        case "parquet":
            return read_parquet(corpus.source, *corpus.fields)


def _gather(pieces: Iterable[Pairs], lines_per_chunk: int) -> Iterator[Chunk]:
    """Pairs as they come from blocks of bytes, in chunks."""
    index = first_line = num_lines = num_bytes = 0
    held: list[Pairs] = []
    for piece in pieces:
        sizes = np.cumsum(_num_bytes(piece))
        start = 0
        while start < len(sizes):
            before = int(sizes[start - 1]) if start else 0
            full = int(np.searchsorted(sizes, before + CHUNK_BYTES - num_bytes)) + 1
            end = min(full, start + lines_per_chunk - num_lines, len(sizes))
            held.append(_slice(piece, start, end))
            num_lines, num_bytes, start = num_lines + end - start, num_bytes + int(sizes[end - 1]) - before, end
            if num_lines == lines_per_chunk or num_bytes >= CHUNK_BYTES:
                yield _chunk(index, first_line, held)
                index, first_line, num_lines, num_bytes, held = index + 1, first_line + num_lines, 0, 0, []
    if held:
        yield _chunk(index, first_line, held)


def _num_bytes(piece: Pairs) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    sizes = pc.add(pc.binary_length(piece.source), pc.binary_length(piece.target)).to_numpy(zero_copy_only=False)
    assert isinstance(sizes, np.ndarray)
    return sizes


def _slice(piece: Pairs, start: int, end: int) -> Pairs:
    ends = piece.unterminated and end == len(piece.source)
    return Pairs(piece.source[start:end], piece.target[start:end], ends)


def _chunk(index: int, first_line: int, held: list[Pairs]) -> Chunk:
    source, target = (pa.concat_arrays(side) for side in zip(*((p.source, p.target) for p in held), strict=True))
    return Chunk(index, first_line, _compact(source), _compact(target), held[-1].unterminated)


def _compact(text: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Without the bytes of neighbours that a slice of a block still holds, so that a chunk sent to another process
    takes only its own.
    """
    _, offsets, letters = text.buffers()
    bounds = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    own = letters.slice(int(bounds[0]), int(bounds[-1] - bounds[0])) if letters is not None else pa.py_buffer(b"")
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(text), [None, pa.py_buffer(bounds - bounds[0]), own])
