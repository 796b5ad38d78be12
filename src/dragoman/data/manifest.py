"""A prepared folder and its manifest, which lists corpora, settings and the hash of every file."""

from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from dragoman.config import Config
from dragoman.data.shards import ShardInfo
from dragoman.io import hashed_json
from dragoman.io.durable import DamageError, FileInfo, verify_files, write_durably

MANIFEST: Final = "manifest.json"


class PreparedCorpus(Config):
    """A corpus in a prepared folder: its name, weight and shards."""

    name: str = Field(description="name of the corpus")
    weight: float = Field(1.0, gt=0.0, description="passes over the corpus per epoch")
    num_pairs: int = Field(ge=0, description="number of pairs in all shards")
    num_added: int = Field(0, ge=0, description="number of these pairs that augmentation added")
    shards: tuple[ShardInfo, ...] = Field(description="shards of the corpus, in order")


class Manifest(Config):
    """The corpora, files, settings and counts of a prepared folder."""

    format_version: Literal[1] = Field(1, description="version of the folder format")
    corpora: tuple[PreparedCorpus, ...] = Field(description="corpora, in order")
    vocabulary: tuple[FileInfo, ...] = Field(description="vocabulary files")
    settings: dict[str, JsonValue] = Field({}, description="configuration, and size and modification time of inputs")
    counts: dict[str, int] = Field({}, description="number of pairs read and kept")

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """All files that the manifest lists."""
        return (*self.vocabulary, *(shard for corpus in self.corpora for shard in corpus.shards))

    def save(self, folder: Path) -> FileInfo:
        """Write the manifest. Write all other files first: a folder with a manifest is complete."""
        return write_durably(folder / MANIFEST, hashed_json.render(self.model_dump(mode="json")))

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
        if body.get("format_version") != 1:
            raise ValueError(f"{path}: unknown format version {body.get('format_version')}; {_OTHER_VERSION}")
        try:
            return Manifest.model_validate(body)
        except ValidationError as error:
            raise ValueError(f"{path}: invalid manifest ({error}); {_OTHER_VERSION}") from error


class Prepared(NamedTuple):
    """A prepared folder whose files have been verified."""

    folder: Path
    manifest: Manifest

    @staticmethod
    def open(folder: Path, verify: bool = True) -> "Prepared":
        """Read the manifest and check the size and, with `verify`, the SHA-256 of every file.

        Hashing reads all files; without `verify`, only damage that changes the size of a file is detected.
        """
        manifest = Manifest.load(folder)
        verify_files(folder, manifest.files, hashed=verify)
        return Prepared(folder, manifest)


_OTHER_VERSION: Final = "prepare the folder again with this version of dragoman"
