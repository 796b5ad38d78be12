"""Give a service models that mean harm, when it starts and when it reads its models again: each must be refused.

    python tests/chaos/hostile_models.py

Pickles under other names, archives that write outside their place, headers that lie about sizes, links and names that
lead out of the folder, files without an end, tags in YAML. The manifest is made to fit them, so that
every hash is right. Each must be refused in a line that says what is wrong, without a traceback; a service that reads
it in place of its model must go on with the old one; and the canary, a file that each of them would write to, must be
as it was. Prints one JSON line. --careless is the inverse: weights are read as PyTorch long read them.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
from service_process import ServiceProcess, StartError, start_service

from dragoman.bundle import demo_folder
from dragoman.bundle.file_names import CARD, CONFIG, MANIFEST, NEXT_MANIFEST, WEIGHTS
from dragoman.bundle.info import Export
from dragoman.io import hashed_json

SILENT: Final = "the canary sits here\n"
ENGINE: Final = ("--engines", "1")
CARELESS: Final = """
import pickle
import dragoman.bundle.reading as reading
reading._check_weights = lambda path, info: pickle.loads(path.read_bytes())
"""


class Song:
    """Unpickled, it writes to the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"echo sung > {self.canary}",)


Attack = Callable[[Path, Path], None]
"""Makes a good folder a bad one; the second path is the canary's."""


def sealed(folder: Path, *more: dict[str, Any], **changes: Any) -> None:
    """Make the manifest fit the files, and its hash fit the manifest, as an attacker would."""
    body = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["manifest"]
    for info in body["files"]:
        if (folder / info["file"]).is_file():
            info |= described((folder / info["file"]).read_bytes())
    body["files"] += more
    (folder / MANIFEST).write_bytes(hashed_json.render(body | changes))


def described(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "num_bytes": len(content)}


def written(file: str, content: Callable[[Path], bytes]) -> Attack:
    def attack(folder: Path, canary: Path) -> None:
        (folder / file).write_bytes(content(canary))
        sealed(folder)

    return attack


def song(canary: Path) -> bytes:
    return pickle.dumps(Song(canary))


def archive(canary: Path) -> bytes:
    """As torch.save makes one, with a second file whose name climbs out."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("archive/data.pkl", song(canary))
        file.writestr("../" * 30 + str(canary).lstrip("/"), "slipped")
    return made.getvalue()


def header(**tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def linked(file: str) -> Attack:
    """The good file, but outside."""

    def attack(folder: Path, canary: Path) -> None:
        (folder / file).rename(canary.parent / "outside")
        (folder / file).symlink_to(canary.parent / "outside")

    return attack


def named_outside(folder: Path, canary: Path) -> None:
    sealed(folder, {"file": f"../{canary.name}", **described(canary.read_bytes())})


def changed(file: str, **changes: Any) -> Attack:
    def attack(folder: Path, canary: Path) -> None:
        content = json.loads((folder / file).read_text(encoding="utf-8")) | changes
        (folder / file).write_text(json.dumps(content), encoding="utf-8")
        sealed(folder)

    return attack


def song_as_export(folder: Path, canary: Path) -> None:
    """The engine's own file, which it is to be handed whole."""
    export = Export.unchecked(song(canary))
    (folder / export.file.file).write_bytes(song(canary))
    sealed(folder, export.file.model_dump(), exports=[export.model_dump(mode="json")])


def endless(folder: Path, canary: Path) -> None:
    """Opening it waits for ever."""
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)


def song_as_next_manifest(folder: Path, canary: Path) -> None:
    (folder / NEXT_MANIFEST).write_bytes(song(canary))


def archive_as_folder(folder: Path, canary: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(archive(canary))


ATTACKS: Final[dict[str, Attack]] = {
    "a pickle as weights": written(WEIGHTS, song),
    "an archive of a pickle as weights": written(WEIGHTS, archive),
    "a pickle as vocabulary": written("vocab.model", song),
    "a pickle as config": written(CONFIG, song),
    "a pickle as an export": song_as_export,
    "a pickle as the next manifest": song_as_next_manifest,
    "an archive in place of the folder": archive_as_folder,
    "a header longer than its file": written(WEIGHTS, lambda _: struct.pack("<Q", 1 << 60) + b"{}"),
    "a tensor larger than all memory": written(
        WEIGHTS, lambda _: header(a={"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 8]}) + bytes(8)
    ),
    "a tensor beyond the end": written(
        WEIGHTS, lambda _: header(a={"dtype": "F32", "shape": [2], "data_offsets": [1 << 40, (1 << 40) + 8]})
    ),
    "weights by a link": linked(WEIGHTS),
    "a manifest by a link": linked(MANIFEST),
    "a name that climbs out": named_outside,
    "a config too large": changed(CONFIG, dragoman="x" * (1 << 21)),
    "a card too large": changed(CARD, title="x" * (1 << 21)),
    "a config without a bottom": written(CONFIG, lambda _: b"[" * 200_000),
    "weights without an end": endless,
}

TAGS: Final = "!!python/object/apply:os.system ['echo sung > {canary}']"


def plain(message: str) -> bool:
    """Few lines, and none of a traceback."""
    lines = [line for line in message.splitlines() if line.strip()]
    return 0 < len(lines) <= 6 and "Traceback" not in message and len(message) < 4000


class Place:
    """A good model, where it is spoiled, and the canary."""

    def __init__(self, folder: Path) -> None:
        self.good, self.model, self.canary = folder / "good", folder / "served" / "model", folder / "canary"
        self.canary.write_text(SILENT)
        shutil.copytree(demo_folder(), self.good)
        self.model.parent.mkdir()
        self.restore()

    def restore(self) -> None:
        """The good model again."""
        if self.model.is_file():
            self.model.unlink()
        else:
            shutil.rmtree(self.model, ignore_errors=True)
        shutil.copytree(self.good, self.model)

    def spoiled(self, attack: Attack) -> None:
        self.restore()
        attack(self.model, self.canary)

    @property
    def silent(self) -> bool:
        return self.canary.read_text() == SILENT


def at_start(place: Place, every: int, broken: str) -> dict[str, str]:
    """What each was refused with; nothing, if it was not, or not plainly."""
    found = {}
    for name in list(ATTACKS)[::every]:
        place.spoiled(ATTACKS[name])
        found[name] = start_error(lambda: start_service(str(place.model), *ENGINE, broken=broken))
    keys = place.canary.parent / "keys.yaml"
    keys.write_text(TAGS.format(canary=place.canary))
    found["a tag in the file of keys"] = start_error(lambda: start_service("demo", *ENGINE, "--keys", str(keys)))
    recipe = place.canary.parent / "recipe.yaml"
    recipe.write_text(f"name: x\ndata: {TAGS.format(canary=place.canary)}\n")
    command = [sys.executable, "-m", "dragoman", "train", str(recipe), "--out", str(place.canary.parent / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found["a tag in a recipe"] = done.stderr if done.returncode and plain(done.stderr) else ""
    return found


def start_error(start: Callable[[], contextlib.AbstractContextManager[ServiceProcess]]) -> str:
    try:
        with start():
            return ""
    except StartError as error:
        return str(error) if plain(str(error)) else ""


def at_reload(place: Place) -> dict[str, str]:
    """The same of a service that reloads its models; each time, it must still answer as before."""
    place.restore()
    found: dict[str, str] = {}
    with start_service(str(place.model), *ENGINE) as service:
        before = answer(service)
        for number, (name, attack) in enumerate(ATTACKS.items(), 1):
            place.spoiled(attack)
            service.send_signal(signal.SIGHUP)
            reason = service.wait_for_event("reload failed", number, seconds=300)["reason"]
            found[name] = reason if plain(reason) and answer(service) == before else ""
        place.restore()
        service.send_signal(signal.SIGHUP)
        service.wait_for_event("reloaded", seconds=300)
        assert answer(service) == before
    return found


def answer(service: ServiceProcess) -> Any:
    body = {"texts": "Where is the station?"}
    return httpx.post(f"{service.url}/v1/translate", json=body, timeout=120).json()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--careless", action="store_true", help="without the protection: this must fail")
    parser.add_argument("--every", type=int, default=1, help="start with every so many of them only; reload with all")
    parser.add_argument("--say", action="store_true", help="show what each was refused with")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder).resolve())
        started = at_start(
            place, len(ATTACKS) if wanted.careless else wanted.every, CARELESS if wanted.careless else ""
        )
        reloaded = {} if wanted.careless else at_reload(place)
        silent = place.silent
    if wanted.say:
        print(json.dumps({"start": started, "reload": reloaded}, indent=2), file=sys.stderr)
    values = {
        "starts": len(started),
        "refused_at_start": sum(map(bool, started.values())),
        "reloads": len(reloaded),
        "refused_at_reload": sum(map(bool, reloaded.values())),
        "accepted": [name for found in (started, reloaded) for name, message in found.items() if not message],
        "canary_silent": int(silent),
    }
    print(json.dumps({"bench": "hostile", "values": values}))
    raise SystemExit(bool(values["accepted"]) or not silent)


if __name__ == "__main__":
    main()
