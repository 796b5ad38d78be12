"""A prepared folder: what was prepared, from what, and the hash of every file in it, so that damage has a name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, JsonValue, ValidationError

from dragoman.config import Config
from dragoman.data import hashed
from dragoman.data.durable import DamageError, FileInfo, write_durably
from dragoman.data.durable import verify as verify_files
from dragoman.data.shards import Shard, ShardInfo

MANIFEST: Final = "manifest.json"


class PreparedCorpus(Config):
    """One corpus of a prepared folder."""

    name: str = Field(description="what the corpus is called")
    weight: float = Field(1.0, gt=0.0, description="how often its batches come, against once for 1")
    num_pairs: int = Field(ge=0, description="pairs in all its shards")
    shards: tuple[ShardInfo, ...] = Field(description="its shards, in order")


class Manifest(Config):
    """Everything there is to know of a prepared folder short of the sentences themselves."""

    format_version: Literal[1] = Field(1, description="which layout of the folder this is")
    corpora: tuple[PreparedCorpus, ...] = Field(description="the corpora, in order")
    vocabulary: tuple[FileInfo, ...] = Field(description="the files of the vocabulary")
    settings: dict[str, JsonValue] = Field({}, description="what the folder was prepared with")
    counts: dict[str, int] = Field({}, description="what became of the lines that were read")

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """Every file that the manifest answers for."""
        return (*self.vocabulary, *(shard for corpus in self.corpora for shard in corpus.shards))

    def save(self, folder: Path) -> FileInfo:
        """Writes the manifest; last, because a folder with a manifest is a finished one."""
        content = hashed.render(self.model_dump(mode="json"))
        return write_durably(folder / MANIFEST, lambda sink: sink.write(content))

    @staticmethod
    def load(folder: Path) -> "Manifest":
        """Reads the manifest back; refuses one whose hash is not its own."""
        path = folder / MANIFEST
        if not path.is_file():
            if not folder.is_dir():
                raise ValueError(f"{folder}: there is no such folder; dragoman prepare makes one")
            if (folder / "prepared").is_dir():
                raise ValueError(f"{folder}: this is the folder of a run; did you mean {folder / 'prepared'}?")
            raise DamageError(path, "the file is missing, so this is not a finished prepared folder")
        body = hashed.read(path)
        if body.get("format_version") != 1:
            raise ValueError(f"{path}: format {body.get('format_version')} is not known here; {_OTHER_VERSION}")
        try:
            return Manifest.model_validate(body)
        except ValidationError as error:
            raise ValueError(f"{path}: {error}; {_OTHER_VERSION}") from error


@dataclass(frozen=True)
class Prepared:
    """A prepared folder that has been looked over."""

    folder: Path
    manifest: Manifest

    @staticmethod
    def open(folder: Path, verify: bool = True) -> "Prepared":
        """Reads the manifest and compares every file with it: its size always, its sha256 when `verify` is set.

        Hashing reads the whole folder once. Without it, damage that keeps a file's size goes unseen.
        """
        manifest = Manifest.load(folder)
        verify_files(folder, manifest.files, hashed=verify)
        return Prepared(folder, manifest)

    def shard(self, corpus: int, shard: int) -> Shard:
        """Opens shard number `shard` of corpus number `corpus`, both counted from 0."""
        return Shard(self.folder / self.manifest.corpora[corpus].shards[shard].file)


_OTHER_VERSION: Final = "it was written by another version of dragoman: prepare the folder again with this one"
