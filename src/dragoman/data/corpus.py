"""Corpora: their configuration, and reading their sentence pairs in chunks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64
from numpy import ndarray
from pydantic import Field, ValidationError, model_validator

from dragoman.config import Config
from dragoman.data.corpus_formats import (
    RawPairs,
    find_column_languages,
    is_language_code,
    read_csv,
    read_jsonl,
    read_parquet,
    read_text,
    read_tsv,
)
from dragoman.data.translation_memories import (
    SOURCE,
    TARGET,
    find_unit_languages,
    normal_code,
    read_po,
    read_tmx,
    read_xliff,
)
from dragoman.io.streams import STANDARD_INPUT, file_identity, is_same_file, uncompressed_suffix

Format = Literal["text", "tsv", "csv", "jsonl", "parquet", "tmx", "xliff", "po"]

CHUNK_BYTES: Final = 16 << 20
"""Maximum size of a chunk in bytes: the pair that reaches this size is the last of its chunk."""

_SUFFIXES: Final[dict[Format, str]] = {
    "tsv": ".tsv .tab",
    "csv": ".csv",
    "jsonl": ".jsonl .ndjson .json",
    "parquet": ".parquet",
    "tmx": ".tmx",
    "xliff": ".xlf .xliff .sdlxliff .mqxliff .mxliff",
    "po": ".po",
}
_READERS: Final = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "tmx": read_tmx,
    "xliff": read_xliff,
    "po": read_po,
}
LANGUAGE: Final = r"^[\w-]+$"
"""The pattern of a language code, such as fr, pt-BR or cmn_Hans."""

_FORMATS: Final = ".tmx, .xlf, .po, .csv, .tsv, .jsonl or .parquet"


class CorpusConfig(Config):
    """A corpus: its files, their format, and the weight of the corpus in an epoch."""

    name: str = Field("train", description="name of the corpus in reports")
    source: str = Field(
        description="source file, or a file of pairs: path, fsspec URL or - for standard input; .gz and .zst allowed"
    )
    target: str | None = Field(None, description="target file of a text corpus; leave out for other formats")
    format: Literal["auto", "text", "tsv", "csv", "jsonl", "parquet", "tmx", "xliff", "po"] = Field(
        "auto", description="auto: by file extension"
    )
    source_field: str | int | None = Field(
        None,
        description="source column (name, or index from 0), key (outer.inner) or language; default: by header, 0 (TSV) "
        "or source",
    )
    target_field: str | int | None = Field(
        None, description="target column, key or language; default: by header, 1 (TSV) or target"
    )
    weight: float = Field(1.0, gt=0.0, allow_inf_nan=False, description="passes over the corpus per epoch")
    links: str | None = Field(
        None, description="file of word links in Moses format (0-0 1-2), a line per pair, for guided alignment"
    )
    tag: str | None = Field(None, pattern=r"^\S+$", description="word added before each source to mark the corpus")
    source_language: str | None = Field(
        None, pattern=LANGUAGE, description="source language, if it is not that of the recipe"
    )
    target_language: str | None = Field(
        None,
        pattern=LANGUAGE,
        description="target language, if it is not that of the recipe; each source begins with its tag",
    )

    @model_validator(mode="after")
    def _fits(self) -> "CorpusConfig":
        if error := self._find_error():
            raise ValueError(f"{self.source}: {error}")
        return self

    def _find_error(self) -> str:
        is_text, (source, target) = self.file_format == "text", self.fields
        if is_text and self.target is None:
            return f"a text corpus needs a target: add a target file, or give a file of pairs ({_FORMATS})"
        if not is_text and self.target is not None:
            return f"a {self.file_format} file contains source and target: remove target {self.target}"
        if is_text and (self.source_field, self.target_field) != (None, None):
            return "text has no fields: set format, or remove source_field and target_field"
        if self.target is not None and is_same_file(self.source, self.target):
            return "source and target are the same file: give two different files"
        if not is_text and source == target:
            return f"source and target are the same field {source!r}: give two different fields"
        is_possible = self.source != STANDARD_INPUT or self.file_format not in ("text", "parquet")
        return "" if is_possible else "standard input must contain source and target: set format to tsv or jsonl"

    @property
    def file_format(self) -> Format:
        """The configured file format; for `auto`, the format that the file extension indicates."""
        if self.format != "auto":
            return self.format
        suffix = uncompressed_suffix(self.source) if self.target is None else ""
        return next((name for name, suffixes in _SUFFIXES.items() if suffix in suffixes.split()), "text")

    @property
    def fields(self) -> tuple[str, str]:
        """The source and target fields: the configured names, or the defaults of the file format."""
        usual = ("0", "1") if self.file_format == "tsv" else ("source", "target")
        source, target = self.source_field, self.target_field
        return str(usual[0] if source is None else source), str(usual[1] if target is None else target)


@dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of a corpus as raw bytes, without newlines."""

    index: int
    first_line: int
    """The line number of the first pair in the corpus, from 0."""
    source: pa.LargeBinaryArray
    target: pa.LargeBinaryArray
    unterminated: bool = False
    """True if the last line is the end of the file and has no newline."""
    links: pa.LargeBinaryArray | None = None
    """The word links of each pair, if there is a file of them."""

    def __len__(self) -> int:
        return len(self.source)


def read_chunks(corpus: CorpusConfig, lines_per_chunk: int) -> Iterator[Chunk]:
    """Yield the chunks of a corpus in order; the same pairs give the same chunks in every file format."""
    if corpus.target is not None:
        return _gather(read_text(corpus.source, corpus.target), lines_per_chunk)
    return _gather(_READERS[corpus.file_format](corpus.source, *corpus.fields), lines_per_chunk)


def check_corpora(corpora: Sequence[CorpusConfig]) -> None:
    """Raise ValueError if two corpora have the same name, or if a file is both a source and a target.

    Corpora of different target languages may share files in this way.
    """
    for name, count in Counter(corpus.name for corpus in corpora).items():
        if count > 1:
            raise ValueError(f"{count} corpora are named {name!r}: give each corpus a different name")
    targets = {file_identity(corpus.target): corpus for corpus in corpora if corpus.target is not None}
    for corpus in corpora:
        other = targets.get(file_identity(corpus.source))
        if other and other.target_language == corpus.target_language:  # else the model translates in both directions
            sides = f"the source of {corpus.name!r} and the target of {other.name!r}"
            raise ValueError(f"{corpus.source} is {sides}: swap source and target in one of the two")


def find_languages(corpus: CorpusConfig) -> tuple[str, str] | None:
    """Return the language codes that a file of pairs names, or None if it does not name two languages.

    Codes are without regions (en for en-US), unless the two differ in nothing else.
    """
    fields, file_format = corpus.fields, corpus.file_format
    if corpus.source == STANDARD_INPUT or file_format == "text":
        return None
    if {corpus.source_field, corpus.target_field} == {None}:
        fields = _named_languages(corpus) or fields
    codes = [normal_code(field.rpartition(".")[2]) for field in fields]
    names_languages = file_format in ("tmx", "xliff", "po") and not {SOURCE, TARGET} & {*codes}
    if not (names_languages or all(map(is_language_code, codes))):
        return None
    short = [code.partition("-")[0] for code in codes]
    return (codes[0], codes[1]) if short[0] == short[1] else (short[0], short[1])


def _named_languages(corpus: CorpusConfig) -> tuple[str, str] | None:
    match corpus.file_format:
        case "tmx" | "xliff" | "po" as file_format:
            return find_unit_languages(corpus.source, file_format)
        case "csv" | "tsv" as file_format:
            return find_column_languages(corpus.source, file_format == "csv")
        case _:
            return None


def corpora_from_files(
    name: str,
    sources: Sequence[str] = (),
    targets: Sequence[str] = (),
    weights: Sequence[float] = (),
    pairs: Sequence[str] = (),
    fields: str | None = None,
) -> tuple[CorpusConfig, ...]:
    """Return a corpus for each source file, with the target file at the same position, and for each file of pairs.

    `fields` are the columns, keys or languages of the files of pairs, as in `en,de`. There is a weight for each corpus.
    """
    if targets and len(targets) != len(sources):
        raise ValueError(f"{len(sources)} --source but {len(targets)} --target: give a --target for each --source")
    num_corpora = len(sources) + len(pairs)
    if weights and len(weights) != num_corpora:
        each = f"{num_corpora} --source and --pairs" if pairs else f"{len(sources)} --source"
        fix = "give a --weight for each --source" + (" and each --pairs" if pairs else "")
        raise ValueError(f"{each} but {len(weights)} --weight: {fix}")
    if fields is not None and not pairs:
        raise ValueError(f"--fields {fields} selects fields of --pairs: add --pairs FILE, or leave out --fields")
    described = [{"source": path} | ({"target": targets[i]} if targets else {}) for i, path in enumerate(sources)]
    described += [_describe_pairs(path, fields) for path in pairs]
    corpora = []
    for i, files in enumerate(described):
        values: dict[str, object] = {"name": name if i == 0 else f"{name}-{i + 1}", **files}
        values |= {"weight": weights[i]} if weights else {}
        try:
            corpora.append(CorpusConfig.model_validate(values))
        except ValidationError as error:
            raise ValueError("; ".join(_error_message(problem) for problem in error.errors())) from error
    return tuple(corpora)


def _describe_pairs(path: str, fields: str | None) -> dict[str, str]:
    if not any(uncompressed_suffix(path) in suffixes.split() for suffixes in _SUFFIXES.values()):
        wrong = f"--pairs {path}: the file extension names no format of pairs"
        raise ValueError(f"{wrong}: give {_FORMATS}, or text files with --source and --target")
    if fields is None:
        return {"source": path}
    source, separator, target = fields.partition(",")
    if not (source and separator and target) or "," in target:
        raise ValueError(f"--fields {fields}: give the names of source and target, as in --fields en,de")
    return {"source": path, "source_field": source, "target_field": target}


def _error_message(problem: Mapping[str, Any]) -> str:
    """Return the message of a custom validator, or pydantic's message with the option and its value."""
    ours = problem.get("ctx", {}).get("error")
    return str(ours) if ours else f"--{problem['loc'][0]} {problem['input']}: {problem['msg']}"


class ChunkCutter:
    """Decides where chunks end: after `lines_per_chunk` pairs, or after the pair that reaches CHUNK_BYTES."""

    def __init__(self, lines_per_chunk: int) -> None:
        self.lines_per_chunk = lines_per_chunk
        self.num_lines = self.num_bytes = 0

    def cut(self, sizes: Int64[ndarray, " pairs"]) -> Iterator[tuple[int, int, bool]]:
        """Yield parts of a block of pairs as (start, end, whether a chunk ends there).

        `sizes` are the cumulative sizes of the pairs in bytes.
        """
        start = 0
        while start < len(sizes):
            before = int(sizes[start - 1]) if start else 0
            full = int(np.searchsorted(sizes, before + CHUNK_BYTES - self.num_bytes)) + 1
            end = min(full, start + self.lines_per_chunk - self.num_lines, len(sizes))
            self.num_lines += end - start
            self.num_bytes += int(sizes[end - 1]) - before
            is_last = self.num_lines == self.lines_per_chunk or self.num_bytes >= CHUNK_BYTES
            if is_last:
                self.num_lines = self.num_bytes = 0
            yield start, end, is_last
            start = end


def _gather(blocks: Iterable[RawPairs], lines_per_chunk: int) -> Iterator[Chunk]:
    """Join blocks of pairs into chunks of at most `lines_per_chunk` pairs, and yield the chunks."""
    index = first_line = 0
    cutter = ChunkCutter(lines_per_chunk)
    held: list[RawPairs] = []
    for block in blocks:
        both = pc.add(pc.binary_length(block.source), pc.binary_length(block.target))
        sizes = np.cumsum(both.to_numpy(zero_copy_only=False))
        for start, end, is_last in cutter.cut(sizes):
            ends = block.unterminated and end == len(sizes)
            held.append(RawPairs(block.source[start:end], block.target[start:end], ends))
            if is_last:
                chunk = _chunk(index, first_line, held)
                yield chunk
                index, first_line, held = index + 1, first_line + len(chunk), []
    if held:
        yield _chunk(index, first_line, held)


def _chunk(index: int, first_line: int, held: list[RawPairs]) -> Chunk:
    """Return a chunk with copies of the pairs: slices would keep whole blocks in memory."""
    sources, targets, unterminated = zip(*held, strict=True)
    return Chunk(index, first_line, pa.concat_arrays(sources), pa.concat_arrays(targets), unterminated[-1])
