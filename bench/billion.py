"""Time the first batch of a prepared folder of a billion pairs, and the memory of the process that reads it.

    python bench/billion.py [--pairs 1000000000] [--start 123456789]

The folder has the manifest and the length cells of a billion pairs: 2,000 shards of 500,000 pairs with 11,200 length
cells each. One shard is written, with text-like lengths; the others are names of the same file (hard links), since a
billion pairs would take 100 GB. A fresh process verifies the manifest, the cells and the shard it reads, as each
process of a training does, and reads the batch `--start`. Its time is taken from its start; its processor time does
not depend on other work of the machine. A loader worker that gets the pickled reader is measured in the same way.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from report import option_parser, print_values

from dragoman.data.batches import Reader
from dragoman.data.manifest import Manifest, Prepared, PreparedCorpus
from dragoman.data.order import BatchConfig
from dragoman.data.shards import ShardInfo, write_shard
from dragoman.text.ragged import Ragged

PAIRS_PER_SHARD = 500_000
SEED = 2017


def ids(generator: np.random.Generator, lengths: np.ndarray) -> Ragged:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Ragged(generator.integers(4, 37_000, offsets[-1], dtype=np.uint16), offsets)


def write_folder(folder: Path, num_pairs: int) -> None:
    """Write a shard under the name of every shard, and the cells and the manifest of all."""
    generator = np.random.default_rng(SEED)
    rows = min(PAIRS_PER_SHARD, num_pairs)
    source = np.clip(generator.lognormal(3.2, 0.65, rows), 1, 250)
    target = np.clip(source * generator.lognormal(0.05, 0.25, rows), 1, 250)
    sides = [ids(generator, lengths.astype(np.int64) + 1) for lengths in (source, target)]
    first = write_shard(folder / "train-00000.arrow", *sides, None, np.arange(rows))
    shards: list[ShardInfo] = [first]
    for number in range(1, max(1, num_pairs // rows)):
        name = f"train-{number:05}.arrow"
        os.link(folder / first.file, folder / name)
        shards.append(first.model_copy(update={"file": name}))
    corpus = PreparedCorpus(name="train", num_pairs=rows * len(shards), shards=tuple(shards))
    Manifest(corpora=(corpus,), vocabulary=()).save(folder)


def open_reader(folder: Path) -> Reader:
    return Reader.of(Prepared.open(folder, verify=False), BatchConfig(tokens=25_000), SEED)


def read_batch(folder: Path, start: int, is_worker: bool) -> None:
    """Print the number of tokens of a batch, the peak memory in MB, and the processor time in seconds."""
    pickled = folder / "reader.pickle"
    reader: Reader = pickle.loads(pickled.read_bytes()) if is_worker else open_reader(folder)
    batch = reader(start)
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    peak = int(status["VmHWM"].split()[0]) / 1024
    print(batch.source.size + batch.target.size, peak, time.process_time(), flush=True)
    if not is_worker:
        pickled.write_bytes(pickle.dumps(reader))


def measure(folder: Path, start: int, is_worker: bool) -> tuple[float, float, float]:
    """Return the seconds of a fresh process to its batch, its peak memory in MB, and its processor time."""
    command = [sys.executable, __file__, "--folder", str(folder), "--start", str(start)]
    begin = time.perf_counter()
    with subprocess.Popen([*command, *(["--worker"] if is_worker else [])], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().split()
        seconds = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"the process that reads a batch ended with {process.returncode}")
    return seconds, float(line[1]), float(line[2])


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=10**9, help="number of pairs")
    parser.add_argument("--start", type=int, default=123_456, help="number of the batch")
    parser.add_argument("--folder", type=Path, help="only read a batch of this folder")
    parser.add_argument("--worker", action="store_true", help="read it as a loader worker, from the pickled reader")
    arguments = parser.parse_args()
    if arguments.folder:
        read_batch(arguments.folder, arguments.start, arguments.worker)
        return
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder, arguments.pairs)
        manifest = Manifest.load(folder)
        assert manifest.cells is not None
        values["num_shards"], values["num_cells"] = len(manifest.shards), 0
        values["num_cells"] = sum(map(len, Prepared(folder, manifest).cells_of(0)))
        values["manifest_mb"] = (folder / "manifest.json").stat().st_size / 1e6
        values["cells_mb"] = manifest.cells.num_bytes / 1e6
        print(f"{values['num_cells']:,} cells in {values['num_shards']:,} shards", flush=True)
        first = measure(folder, arguments.start, is_worker=False)
        values["pickled_reader_mb"] = (folder / "reader.pickle").stat().st_size / 1e6
        worker = measure(folder, arguments.start + 1, is_worker=True)
        for name, (seconds, peak, processor) in (("first_batch", first), ("worker", worker)):
            print(f"{name}: {seconds:.2f} s ({processor:.2f} s of a processor), {peak:.0f} MB at most", flush=True)
            values |= {f"{name}_s": seconds, f"{name}_processor_s": processor, f"{name}_peak_mb": peak}
    print_values("billion", values, 3)


if __name__ == "__main__":
    main()
