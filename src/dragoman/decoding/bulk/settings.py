"""What decides the bytes of a translated shard, and what a worker is told beside it."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, JsonValue

from dragoman.bundle.info import ExportStore
from dragoman.config import Config
from dragoman.decoding.given import Compute


class Settings(Config):
    """All that decides the bytes, but for the shard itself. Shards of one folder have these in common."""

    model: str = Field(
        pattern=r"^[0-9a-f]{64}$", description="the hash of the model: weights, vocabulary and config.json"
    )
    dragoman: str = Field(description="the version that read, cut and wrote the texts")
    engine: str = Field(description="what searched")
    engine_version: str = Field(description="and which version of it: another may find something else")
    compute: Compute = Field(description="what it multiplied")
    store: ExportStore | None = Field(None, description="how the export kept its matrices; none for torch")
    search: dict[str, JsonValue] = Field(description="the search options, all of them")
    split: bool = Field(description="whether texts were cut into sentences")
    protect: bool = Field(description="whether placeholders, addresses and numbers were kept as they were")
    column: str = Field(description="what was read of a row")
    into: str = Field(description="what was added to it")

    def differences(self, other: "Settings") -> list[str]:
        """What another has otherwise, in words, both named."""
        ours, theirs = self._flat(), other._flat()
        return [
            f"{name} {_shown(theirs.get(name))} there and {_shown(ours.get(name))} here"
            for name in ours | theirs
            if ours.get(name) != theirs.get(name)
        ]

    def _flat(self) -> dict[str, object]:
        """Search options one by one."""
        fields = self.model_dump(mode="json")
        return {**fields.pop("search"), **fields}


@dataclass(frozen=True)
class Job:
    """What a worker must know to translate any shard."""

    model: Path
    """The bundle's folder."""
    out: Path
    settings: Settings
    threads: int


def _shown(value: object) -> str:
    """A hash by its beginning; other things as they are."""
    text = str(value)
    return text[:12] if len(text) == 64 and " " not in text else text
