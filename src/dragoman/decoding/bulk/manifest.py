"""The manifest of a translated shard: what it was made from, how, and what it must be. With it, a shard is finished."""

from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field, ValidationError

from dragoman.config import Config
from dragoman.data import hashed
from dragoman.data.durable import DamageError, FileInfo, damage, write_durably
from dragoman.decoding.bulk.settings import Settings

SUFFIX: Final = ".manifest.json"
MEND: Final = "give the same command again: it does only what is missing or damaged"


class ShardManifest(Config):
    """Holds nothing that is different the next time, so that it too is the same byte for byte."""

    format_version: Literal[1] = Field(1, description="which layout this is")
    kind: Literal["translated"] = Field("translated", description="told apart from other manifests")
    input: FileInfo = Field(description="the shard that was translated")
    output: FileInfo = Field(description="what came of it")
    rows: int = Field(ge=0, description="rows of both")
    nulls: int = Field(ge=0, description="of which so many held nothing, and so many translations hold nothing")
    sentences: int = Field(ge=0, description="what the texts were cut into: so often was something searched for")
    settings: Settings = Field(description="how it was translated")

    def save(self, folder: Path) -> None:
        """Last: a shard with a manifest is a finished one."""
        content = hashed.render(self.model_dump(mode="json"))
        write_durably(manifest_of(folder / self.output.file), lambda sink: sink.write(content))


class Standing(NamedTuple):
    """How far a shard is."""

    manifest: ShardManifest | None
    """There if it is finished."""
    wrong: str | None = None
    """Why one that was finished is not so any more."""


def manifest_of(output: Path) -> Path:
    """Where the manifest of a translated shard stands."""
    return output.with_name(output.name + SUFFIX)


def standing(shard: Path, out: Path) -> Standing:
    """Reads both files to their end: a shard is finished if its input and its output are what the manifest says."""
    try:
        manifest = load(out / shard.name)
    except DamageError:
        return Standing(None, "its manifest is damaged")
    if manifest is None:
        return Standing(None)
    if manifest.output.file != shard.name or manifest.input.file != shard.name:
        return Standing(None, "its manifest is that of another shard")
    if wrong := damage(out, manifest.output):
        return Standing(None, f"its translation is not what it was: {wrong}")
    if damage(shard.parent, manifest.input):
        return Standing(None, "it has changed since it was translated")
    return Standing(manifest)


def load(output: Path) -> ShardManifest | None:
    """The manifest of a translated shard, if there is one."""
    path = manifest_of(output)
    if not path.is_file():
        return None
    body = hashed.read(path, MEND)
    if body.get("format_version") != 1:
        version = body.get("format_version")
        raise ValueError(f"{path}: format {version} is not known here; install a newer dragoman, or give another --out")
    try:
        return ShardManifest.model_validate(body)
    except ValidationError as error:
        raise DamageError(path, "it is not the manifest of a translated shard", MEND) from error
