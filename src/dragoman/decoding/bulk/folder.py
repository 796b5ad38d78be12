"""The folder of translations: whose it is, what it was begun with, and what runs that were killed have left in it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from dragoman.config import Config
from dragoman.data import hashed
from dragoman.data.durable import UNFINISHED, DamageError, write_durably
from dragoman.data.lock import is_locked, locked
from dragoman.decoding.bulk.finding import Portion
from dragoman.decoding.bulk.manifest import SUFFIX, load, manifest_of
from dragoman.decoding.bulk.settings import Settings

RECORD: Final = "bulk.json"
"""Says that the folder is ours, and what its shards have in common. There from the beginning."""

_LEFT_OVER: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}" + re.escape(UNFINISHED))
_LOCK: Final = ".lock."
_MEND: Final = "remove it: it will be written again, and the manifests of the shards say the same"


class Record(Config):
    """What bulk.json holds."""

    format_version: Literal[1] = Field(1, description="which layout of the folder this is")
    kind: Literal["translations"] = Field("translations", description="told apart from other folders")
    settings: Settings = Field(description="how all its shards are translated")


@contextmanager
def alone(out: Path, portion: Portion) -> Iterator[None]:
    """Keep others from the same shards meanwhile: one run a portion, and no two that are cut differently."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: this is a file; give a folder")
    out.mkdir(parents=True, exist_ok=True)
    mend = "wait for it, or give another --out"
    with locked(out / _lock(portion), f"another translation of these shards is running in {out}: {mend}"):
        for path in out.glob(f"{_LOCK}*"):
            if path.name.endswith(f"-of-{portion.count}"):
                continue
            if is_locked(path):
                other = path.name.removeprefix(_LOCK).replace("-of-", "/")
                raise ValueError(f"another translation is running in {out}, of portion {other}: {mend}")
            path.unlink(missing_ok=True)  # of a run that was killed
        yield


def claim(out: Path, shards: Sequence[Path], settings: Settings) -> None:
    """Make the folder ours. Refused if its shards were translated otherwise, or others' files stand in the way."""
    record = _record(out / RECORD)
    if record is not None:
        _refuse_mixture(out / RECORD, record.settings, settings)
    for shard in shards:
        _refuse_others(out / shard.name, settings, ours=record is not None)
    if record is None:
        content = hashed.render(Record(settings=settings).model_dump(mode="json"))
        write_durably(out / RECORD, lambda sink: sink.write(content))


def remove_left_overs(out: Path, shards: Iterable[Path]) -> None:
    """Unfinished files of these shards. Whoever wrote them is dead, or the folder would be locked."""
    for path in _left_overs(out, {RECORD}.union(*({shard.name, manifest_of(shard).name} for shard in shards))):
        path.unlink(missing_ok=True)


def strays(out: Path, shards: Iterable[Path]) -> list[str]:
    """Translations in the folder whose shards are not among these: they were removed, or another pattern named them."""
    there = {path.name.removesuffix(SUFFIX) for path in out.glob(f"*{SUFFIX}")}
    return sorted(there - {shard.name for shard in shards})


def num_deaths(out: Path, shard: Path) -> int:
    """How many have died in this run while they wrote the translation of this shard: each has left its file."""
    return len(_left_overs(out, {shard.name}))


def _left_overs(out: Path, names: set[str]) -> list[Path]:
    found = ((path, _LEFT_OVER.fullmatch(path.name)) for path in out.iterdir())
    return [path for path, match in found if match and match["name"] in names]


def _lock(portion: Portion) -> str:
    return f"{_LOCK}{portion.index}-of-{portion.count}"


def _record(path: Path) -> Record | None:
    if not path.is_file():
        return None
    try:
        return Record.model_validate(hashed.read(path, _MEND))
    except ValidationError as error:
        raise DamageError(path, "it is not the record of a folder of translations", _MEND) from error


def _refuse_others(output: Path, settings: Settings, ours: bool) -> None:
    manifest = None
    with suppress(DamageError):  # it will be done again
        manifest = load(output)
    if manifest is not None:
        _refuse_mixture(manifest_of(output), manifest.settings, settings)
    elif output.exists() and not ours:
        raise ValueError(f"{output} is there, and was not written by dragoman: move it, or give another --out")


def _refuse_mixture(path: Path, there: Settings, here: Settings) -> None:
    if differences := here.differences(there):
        raise ValueError(
            f"{path.parent} holds other translations ({path.name}): {'; '.join(differences)}. Give another --out"
        )
