"""A prepared folder and its manifest, which lists corpora, settings and the hash of every file.

The length cells of all shards are in a table beside the manifest (cell_table.py). In folders of format 1, they are in
the manifest.
"""

from collections.abc import Sequence
from functools import partial
from operator import is_
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from dragoman.config import Config
from dragoman.data.cell_table import CellTable, write_cells
from dragoman.data.length_cells import CellCounts
from dragoman.data.shards import ShardInfo
from dragoman.io import hashed_json
from dragoman.io.durable import DamageError, FileInfo, verify_files, write_durably
from dragoman.io.progress import Progress, ignore_progress

MANIFEST: Final = "manifest.json"
CELLS: Final = "cells.arrow"


class PreparedCorpus(Config):
    """A corpus in a prepared folder: its name, weight and shards."""

    name: str = Field(description="name of the corpus")
    weight: float = Field(1.0, gt=0.0, description="passes over the corpus per epoch")
    target_language: str | None = Field(
        None, exclude_if=partial(is_, None), description="language whose tag begins each source, if there are several"
    )
    num_pairs: int = Field(ge=0, description="number of pairs in all shards")
    num_added: int = Field(0, ge=0, description="number of these pairs that augmentation added")
    shards: tuple[ShardInfo, ...] = Field(description="shards of the corpus, in order")


class Manifest(Config):
    """The corpora, files, settings and counts of a prepared folder."""

    format_version: Literal[1, 2] = Field(2, description="version of the folder format")
    corpora: tuple[PreparedCorpus, ...] = Field(description="corpora, in order")
    vocabulary: tuple[FileInfo, ...] = Field(description="vocabulary files")
    cells: FileInfo | None = Field(None, description="table of the length cells of all shards; absent in format 1")
    settings: dict[str, JsonValue] = Field({}, description="configuration, and the state of input files")
    counts: dict[str, int] = Field({}, description="number of pairs read and kept")

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """All files that the manifest lists."""
        return (*self.small_files, *self.shards)

    @property
    def small_files(self) -> tuple[FileInfo, ...]:
        """The files that every use of the folder reads as a whole."""
        return (*self.vocabulary, *([self.cells] if self.cells else []))

    @property
    def shards(self) -> list[ShardInfo]:
        """The shards of all corpora, in order."""
        return [shard for corpus in self.corpora for shard in corpus.shards]

    def save(self, folder: Path) -> FileInfo:
        """Write the table of cells and the manifest. Write shards first: a folder with a manifest is complete."""
        cells = [shard.cells for shard in self.shards if shard.cells is not None]
        assert len(cells) == len(self.shards), "a manifest is saved with the cells of all shards"
        body = self.model_dump(mode="json", exclude={"corpora": {"__all__": {"shards": {"__all__": {"cells"}}}}})
        table = write_cells(folder / CELLS, cells)
        return write_durably(folder / MANIFEST, hashed_json.render(body | {"cells": table.model_dump()}))

    @staticmethod
    def load(folder: Path) -> "Manifest":
        """Read the manifest of a prepared folder; raise DamageError if the manifest is missing or damaged."""
        path = folder / MANIFEST
        if not path.is_file():
            if not folder.is_dir():
                raise ValueError(f"{folder}: there is no such folder; give a folder that dragoman prepare has written")
            if (folder / "prepared").is_dir():
                raise ValueError(f"{folder}: this is the folder of a run; did you mean {folder / 'prepared'}?")
            raise DamageError(path, "the file is missing, so this is not a complete prepared folder")
        body = hashed_json.read(path)
        if body.get("format_version") not in (1, 2):
            raise ValueError(f"{path}: unknown format version {body.get('format_version')}; {_OTHER_VERSION}")
        try:
            return Manifest.model_validate(body)
        except ValidationError as error:
            raise ValueError(f"{path}: invalid manifest ({error}); {_OTHER_VERSION}") from error


class Prepared(NamedTuple):
    """A prepared folder whose manifest, vocabulary and cells have been verified; shards are verified when read."""

    folder: Path
    manifest: Manifest

    @staticmethod
    def open(folder: Path, verify: bool = True, progress: Progress = ignore_progress) -> "Prepared":
        """Read the manifest, and check the size of every file and the SHA-256 of vocabulary and cells.

        With `verify`, check the SHA-256 of the shards too, which reads them all. Without it, a reader of batches checks
        each shard when it first reads from the shard.
        """
        manifest = Manifest.load(folder)
        verify_files(folder, manifest.small_files)
        verify_files(folder, manifest.shards, hashed=verify, progress=progress)
        return Prepared(folder, manifest)

    def cells_of(self, corpus: int) -> Sequence[CellCounts]:
        """Return the length cells of each shard of a corpus."""
        shards = self.manifest.corpora[corpus].shards
        if self.manifest.cells is None:
            return [shard.cells for shard in shards if shard.cells is not None]
        first = sum(len(each.shards) for each in self.manifest.corpora[:corpus])
        return CellTable(self.folder / self.manifest.cells.file, first, len(shards))


_OTHER_VERSION: Final = "prepare the folder again with this version of dragoman"
