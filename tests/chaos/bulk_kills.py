"""Kill workers and parents of `dragoman translate --shards` at random moments: it must end as if nothing had happened.

    python tests/chaos/bulk_kills.py [--shards 40] [--rows 2000] [--kills 10] [--seed 6] [--s3]

Shards of three kinds are translated once without interruption. Then the same again, with `kill -9` of a worker (the run
goes on), of the parent alone (its workers must end) or of all at once (and the command is given again). Prints one JSON
line. With --s3, shards and translations are in a local S3 server. --careless is the inverse: outputs are written under
their own names and believed when they are there.
"""

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from s3_server import s3_server

from dragoman.bundle import Export, open_bundle, write_bundle
from dragoman.bundle.writing import store_export
from dragoman.export.ctranslate2 import weights_file
from dragoman.io.remote_path import AnyPath, RemotePath

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
WORDS = ["two", "three", "four", "ten", "red", "green", "old", "dogs", "houses", "tables", "women"]
OPTIONS = ["--workers", "2", "--threads", "1"]
CARELESS = """
import io
import time
import dragoman.bulk.bulk_run as run
import dragoman.bulk.shard_worker as work
from dragoman.io.durable import FileInfo, Sink
from dragoman.bulk.shard_manifest import ShardManifest, ShardStatus
from dragoman.io.remote_path import RemotePath

def write(path, fill):
    if isinstance(path, RemotePath):
        sink = Sink(io.BytesIO())
        fill(sink)
        content = sink.file.getvalue()
        path.write_bytes(content[: len(content) // 2])
        time.sleep(2)
        path.write_bytes(content)
    else:
        with path.open("wb", buffering=0) as file:
            sink = Sink(file)
            fill(sink)
    return FileInfo(file=path.name, sha256=sink.sha256.hexdigest(), num_bytes=sink.num_bytes)

def believed(shard, out):
    there = (out / shard.name).exists()
    return ShardStatus(ShardManifest.model_construct(rows=0, sentences=0) if there else None)

work.write_output, work.check_shard, run.check_shard = write, believed, believed
"""


def exported(folder: Path) -> Path:
    """The golden model, searching as both engines can, with its export."""
    golden = open_bundle(GOLDEN)
    info = golden.info.model_copy(update={"search": {**golden.info.search, "stop": "count"}})
    bundle = write_bundle(folder, info, golden.weights(), golden.vocab, golden.card)
    content = weights_file(bundle)
    store_export(folder, Export.unchecked(content), content)
    return folder


def write_shards(folder: Path, shards: int, rows: int, seed: int = 7) -> str:
    """Parquet, JSON lines and packed text in turn. Gives the pattern that names them all."""
    draw = random.Random(seed)
    folder.mkdir()
    for number in range(shards):
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(2, 8))) + "." for _ in range(rows)]
        path = folder / f"shard-{number:03}"
        if number % 3 == 0:
            texts[1::97] = [None] * len(texts[1::97])  # type: ignore[list-item]
            pq.write_table(pa.table({"id": range(rows), "text": texts}), path.with_suffix(".parquet"))
        elif number % 3 == 1:
            lines = "".join(json.dumps({"text": text, "n": place}) + "\n" for place, text in enumerate(texts))
            path.with_suffix(".jsonl").write_text(lines, encoding="utf-8")
        else:
            path.with_suffix(".txt.gz").write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    return str(folder / "shard-*")


class Run:
    """One command, in a process group of its own."""

    def __init__(self, model: Path, pattern: str, out: AnyPath, careless: bool) -> None:
        places = [os.environ.get("PYTHONPATH", "")]
        if careless:
            (model.parent / "careless").mkdir(exist_ok=True)
            (model.parent / "careless" / "sitecustomize.py").write_text(CARELESS, encoding="utf-8")
            places.insert(0, str(model.parent / "careless"))
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "dragoman",
                "translate",
                str(model),
                "--shards",
                pattern,
                "--out",
                str(out),
                *OPTIONS,
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def workers(self) -> list[int]:
        """Children that translate; the process that tracks what children share is none."""
        return [pid for pid in self._group() if pid != self.process.pid and b"spawn_main" in _command(pid)]

    def kill(self, how: str, draw: random.Random) -> float | None:
        """Gives how long what was left took to end, where something was; None if there was no worker to kill."""
        if how == "worker":
            workers = self.workers()
            if not workers:
                return None
            os.kill(draw.choice(workers), signal.SIGKILL)
            return 0.0
        (os.killpg if how == "all" else os.kill)(self.process.pid, signal.SIGKILL)
        begin = time.monotonic()
        self.process.communicate()
        while self.workers() and time.monotonic() - begin < 30:
            time.sleep(0.02)
        return time.monotonic() - begin

    def finish(self) -> None:
        _, errors = self.process.communicate(timeout=900)
        if self.process.returncode:
            raise SystemExit(f"translate failed with {self.process.returncode}:\n{errors.decode()}")

    def _group(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self.process.pid and fields[0] != "Z":
                found.append(int(entry.name))
        return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def digest(folder: AnyPath) -> dict[str, str]:
    """Every file that is left, hidden and unfinished ones too."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def being_written(folder: AnyPath, careless: bool) -> bool:
    """Whether a translation is begun and not finished. Careless writing begins under the translation's own name."""
    if isinstance(folder, Path) and not folder.exists():
        return False
    names = {path.name for path in folder.iterdir()}
    if not careless and any(name.endswith(".incomplete") for name in names):
        return True
    outputs = [name for name in names if name.startswith("shard-") and not name.endswith(".json")]
    return any(f"{name}.manifest.json" not in names for name in outputs)


class Watch:
    """Whether a shard that was finished is ever written again: then its files are other ones."""

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder
        self.finished: dict[str, object] = {}
        self.again = 0

    def look(self) -> None:
        if isinstance(self.folder, Path) and not self.folder.exists():
            return
        for manifest in self.folder.iterdir():
            if not manifest.name.endswith(".manifest.json"):
                continue
            for path in (manifest, self.folder / manifest.name.removesuffix(".manifest.json")):
                stamp = _stamp(path)
                self.again += self.finished.setdefault(path.name, stamp) != stamp


def _stamp(path: AnyPath) -> object:
    if isinstance(path, Path):
        return path.stat().st_ino, path.stat().st_mtime_ns
    import s3fs

    return s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True).info(path.url)["LastModified"]


def killed(wanted: argparse.Namespace, command: tuple[Path, str, AnyPath, bool], seconds: float) -> dict[str, object]:
    """Runs the command to its end, killing on the way."""
    draw, watch = random.Random(wanted.seed), Watch(command[2])
    hits: dict[str, int] = {"worker": 0, "parent": 0, "all": 0}
    longest, runs = 0.0, 1
    run = Run(*command)
    for number in range(wanted.kills):
        time.sleep(draw.uniform(0.3, 1.3) * seconds / (wanted.kills + 1))
        while wanted.writing and not run.over and not being_written(command[2], wanted.careless):
            time.sleep(0.01)
        if run.over:  # too late for this one
            continue
        # Without protection, what is being written must not be finished by a process that lives on.
        how = "all" if wanted.careless else ("worker", "parent", "worker", "all")[number % 4]
        took = run.kill(how, draw)
        hits[how] += took is not None
        longest = max(longest, took or 0.0)
        watch.look()
        if run.over:
            run, runs = Run(*command), runs + 1
    run.finish()
    watch.look()
    again = Run(*command)  # and once more, with nothing left to do
    again.finish()
    watch.look()
    figures = {"kills": sum(hits.values()), **{f"kills_of_{how}": count for how, count in hits.items()}}
    return {**figures, "runs": runs, "longest_survival_s": round(longest, 2), "finished_twice": watch.again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=40)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; else drawn anew")
    parser.add_argument("--writing", action="store_true", help="kill only while a shard is being written")
    parser.add_argument("--s3", action="store_true", help="read from and write to a local S3 server")
    parser.add_argument("--careless", action="store_true", help="without the protection: this must fail")
    wanted = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as servers:
        folder: AnyPath = Path(place)
        model, pattern = exported(Path(place) / "model"), write_shards(Path(place) / "in", wanted.shards, wanted.rows)
        if wanted.s3:
            os.environ.update(servers.enter_context(s3_server("bulk")))
            folder = RemotePath("s3://bulk")
            for path in (Path(place) / "in").iterdir():
                (folder / "in" / path.name).upload(path)
            pattern = f"{folder}/in/shard-*"
        start = time.monotonic()
        Run(model, pattern, folder / "straight", False).finish()
        seconds = time.monotonic() - start
        figures = killed(wanted, (model, pattern, folder / "killed", wanted.careless), seconds)
        straight, broken = digest(folder / "straight"), digest(folder / "killed")
    equal = straight == broken
    different = [name for name in straight if straight[name] != broken.get(name)]
    figures |= {
        "shards": wanted.shards,
        "rows": wanted.shards * wanted.rows,
        "different_files": len(different),
        "different_translations": sum(not name.endswith(".json") for name in different),
        "other_files_left": len(broken.keys() - straight.keys()),
        "equal": int(equal),
        "straight_s": round(seconds, 1),
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps({"bench": "bulk_kills", "values": figures}))
    raise SystemExit(not equal or bool(figures["finished_twice"]))


if __name__ == "__main__":
    main()
