"""The output folder of a bulk run: lock it, check that it belongs to one model, and clean up after killed runs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Literal

from pydantic import Field, ValidationError

from dragoman.bulk.find_shards import Portion
from dragoman.bulk.shard_manifest import SUFFIX, BulkSettings, load_manifest, manifest_path
from dragoman.bulk.staging import write_output
from dragoman.config import Config
from dragoman.io import hashed_json
from dragoman.io.durable import UNFINISHED, DamageError
from dragoman.io.lock import is_locked, locked
from dragoman.io.remote_path import AnyPath, RemotePath

RECORD: Final = "bulk.json"
"""The file that marks the output folder of a bulk run and holds the settings of all shards. Written first."""

_UNFINISHED: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}" + re.escape(UNFINISHED))
_LOCK: Final = ".lock."
_FIX: Final = "remove the file: the next run writes it again"


class FolderRecord(Config):
    """The content of bulk.json: the settings with which all shards in the folder are translated."""

    format_version: Literal[1] = Field(1, description="version of the file format")
    kind: Literal["translations"] = Field("translations", description="kind of folder: translations of a bulk run")
    settings: BulkSettings = Field(description="settings shared by all shards")


@contextmanager
def lock_folder(out: AnyPath, portion: Portion) -> Iterator[None]:
    """Lock the output folder against runs with the same shard index, or with another number of tasks.

    A folder of an object store has no lock: two runs with the same settings write the same bytes.
    """
    if isinstance(out, RemotePath):
        yield
        return
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: give a folder")
    out.mkdir(parents=True, exist_ok=True)
    fix = "wait until that run has finished, or give another --out"
    lock = out / f"{_LOCK}{portion.index}-of-{portion.count}"
    with locked(lock, f"another run is translating these shards to {out}: {fix}"):
        for path in out.glob(f"{_LOCK}*"):
            if path.name.endswith(f"-of-{portion.count}"):
                continue
            if is_locked(path):
                other = path.name.removeprefix(_LOCK).replace("-of-", "/")
                raise ValueError(f"another run with --shard-index {other} is writing to {out}: {fix}")
            path.unlink(missing_ok=True)  # of a run that was killed
        yield


def claim_folder(out: AnyPath, shards: Sequence[AnyPath], settings: BulkSettings) -> None:
    """Write bulk.json; raise ValueError if the folder holds other translations or unrelated files."""
    record = _load_record(out / RECORD)
    if record is not None:
        _check_settings(out / RECORD, record.settings, settings)
    names = {path.name for path in out.iterdir()}
    for shard in shards:
        if {shard.name, manifest_path(shard).name} & names:
            _check_output(out / shard.name, settings, is_ours=record is not None)
    if record is None:
        content = hashed_json.render(FolderRecord(settings=settings).model_dump(mode="json"))
        write_output(out / RECORD, content)


def remove_unfinished(out: AnyPath, shards: Iterable[AnyPath]) -> None:
    """Remove unfinished output files of the shards. The folder lock ensures that no process is writing them."""
    names = {RECORD}.union(*({shard.name, manifest_path(shard).name} for shard in shards))
    for path in _unfinished(out, names):
        path.unlink(missing_ok=True)


def find_strays(out: AnyPath, shards: Iterable[AnyPath]) -> list[str]:
    """Return the names of translated shards in the folder that are not in `shards`."""
    names = {path.name.removesuffix(SUFFIX) for path in out.iterdir() if path.name.endswith(SUFFIX)}
    return sorted(names - {shard.name for shard in shards})


def count_deaths(out: AnyPath, shard: AnyPath) -> int:
    """Return the number of workers that died while writing a shard: each leaves an unfinished file."""
    return len(_unfinished(out, {shard.name}))


def _unfinished(out: AnyPath, names: set[str]) -> list[AnyPath]:
    matches = ((path, _UNFINISHED.fullmatch(path.name)) for path in out.iterdir())
    return [path for path, match in matches if match and match["name"] in names]


def _load_record(path: AnyPath) -> FolderRecord | None:
    if not path.is_file():
        return None
    try:
        return FolderRecord.model_validate(hashed_json.read(path, _FIX))
    except ValidationError as error:
        raise DamageError(path, "not the record of a bulk run", _FIX) from error


def _check_output(output: AnyPath, settings: BulkSettings, is_ours: bool) -> None:
    manifest = None
    with suppress(DamageError):  # the shard will be translated again
        manifest = load_manifest(output)
    if manifest is not None:
        _check_settings(manifest_path(output), manifest.settings, settings)
    elif output.exists() and not is_ours:
        raise ValueError(f"{output} exists and was not written by a bulk run: move the file, or give another --out")


def _check_settings(path: AnyPath, theirs: BulkSettings, ours: BulkSettings) -> None:
    if differences := "; ".join(ours.differences(theirs)):
        raise ValueError(f"{path.parent} holds other translations ({path.name}: {differences}): give another --out")
