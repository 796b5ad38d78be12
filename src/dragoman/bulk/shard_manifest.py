"""The manifest of a translated shard: input, output and settings. A shard with a manifest is finished."""

from operator import not_
from typing import Final, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from dragoman.bulk.staging import write_output
from dragoman.bundle.info import ExportStore
from dragoman.config import Config
from dragoman.decoding.options import Compute, SamplingOptions
from dragoman.io import hashed_json
from dragoman.io.durable import DamageError, FileInfo, find_damage
from dragoman.io.remote_path import AnyPath

SUFFIX: Final = ".manifest.json"
FIX: Final = "run the same command again: it translates only missing or damaged shards"


class BulkSettings(Config):
    """The settings that determine the bytes of a translation, shared by all shards of a folder."""

    model: str = Field(pattern=r"^[0-9a-f]{64}$", description="hash of the model: weights, vocabulary and config.json")
    dragoman: str = Field(description="version of dragoman")
    engine: str = Field(description="name of the engine")
    engine_version: str = Field(description="version of the engine, which may affect translations")
    compute: Compute = Field(description="compute type of the engine's matrix products")
    store: ExportStore | None = Field(None, description="weight type of the export's matrices; null for torch")
    search: dict[str, JsonValue] = Field(description="all search options")
    sampling: SamplingOptions | None = Field(None, description="sampling options; null for beam search")
    split: bool = Field(description="true if texts were split into sentences")
    protect: bool = Field(description="true if placeholders, addresses, code, emoji and numbers were protected")
    column: str = Field(description="name of the translated field")
    into: str = Field(description="name of the added field")
    to: str | None = Field(None, exclude_if=not_, description="target language, if the model translates into several")
    glossary: str | None = Field(None, exclude_if=not_, description="hash of the glossary's terms; null without one")

    def differences(self, other: "BulkSettings") -> list[str]:
        """Return a description of each setting that differs, with both values."""
        ours, theirs = self._flat(), other._flat()
        return [
            f"{name} {_format_value(theirs.get(name))} there and {_format_value(ours.get(name))} here"
            for name in ours | theirs
            if ours.get(name) != theirs.get(name)
        ]

    def _flat(self) -> dict[str, object]:
        """Return all settings by name, with one entry per search option."""
        fields = self.model_dump(mode="json")
        return {**fields.pop("search"), **fields}


def _format_value(value: object) -> str:
    """Format a value for a message; a hash is shortened to its first digits."""
    text = str(value)
    return text[:12] if len(text) == 64 and " " not in text else text


class ShardManifest(Config):
    """The manifest of a translated shard, byte for byte the same in every run."""

    format_version: Literal[1] = Field(1, description="version of the file format")
    kind: Literal["translated"] = Field("translated", description="kind of manifest: a translated shard")
    input: FileInfo = Field(description="the shard that was translated")
    output: FileInfo = Field(description="the translated file")
    rows: int = Field(ge=0, description="rows of input and output")
    nulls: int = Field(ge=0, description="rows without text (null) in input and output")
    sentences: int = Field(ge=0, description="sentences in all texts")
    untranslated: int = Field(0, ge=0, exclude_if=not_, description="sentences with text that was kept")
    unused_terms: int = Field(0, ge=0, exclude_if=not_, description="glossary terms of the texts that were not used")
    settings: BulkSettings = Field(description="settings of the translation")

    def save(self, folder: AnyPath) -> None:
        """Write the manifest. It is written last, because it marks the shard as finished."""
        content = hashed_json.render(self.model_dump(mode="json"))
        write_output(manifest_path(folder / self.output.file), content)


class ShardStatus(NamedTuple):
    """The status of a shard: finished, not translated yet, or to be translated again."""

    manifest: ShardManifest | None
    """The manifest of a finished shard, otherwise None."""
    wrong: str | None = None
    """The reason why a finished shard must be translated again."""


def manifest_path(output: AnyPath) -> AnyPath:
    """Return the manifest path of a translated shard."""
    return output.with_name(output.name + SUFFIX)


def check_shard(shard: AnyPath, out: AnyPath) -> ShardStatus:
    """Return the status of a shard, which is finished if the input and output hashes match the manifest."""
    try:
        manifest = load_manifest(out / shard.name)
    except DamageError:
        return ShardStatus(None, "the manifest is damaged")
    if manifest is None:
        return ShardStatus(None)
    if manifest.output.file != shard.name or manifest.input.file != shard.name:
        return ShardStatus(None, "the manifest belongs to another shard")
    if wrong := find_damage(out, manifest.output):
        return ShardStatus(None, f"the translation has changed: {wrong}")
    if find_damage(shard.parent, manifest.input):
        return ShardStatus(None, "the shard has changed since it was translated")
    return ShardStatus(manifest)


def load_manifest(output: AnyPath) -> ShardManifest | None:
    """Return the manifest of a translated shard, or None if the shard has no manifest."""
    path = manifest_path(output)
    if not path.is_file():
        return None
    body = hashed_json.read(path, FIX)
    if body.get("format_version") != 1:
        version = body.get("format_version")
        raise ValueError(f"{path}: unknown format version {version}: install a newer dragoman, or give another --out")
    try:
        return ShardManifest.model_validate(body)
    except ValidationError as error:
        raise DamageError(path, "not the manifest of a translated shard", FIX) from error
