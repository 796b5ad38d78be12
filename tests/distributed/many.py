"""More processes than the tests have time for: their losses against those of one process.

    python tests/distributed/many.py [--processes 4 8] [--updates 50]

Eight batches an update, whoever reads them, a Transformer with dropout, float32. Prints one JSON line: the largest
relative difference of a loss, for DDP and FSDP2. The exit code says whether all are within 1e-5.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "forks"))  # for test_continued.py
from test_continued import run

BATCHES, MOST = 8, 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", nargs="+", type=int, default=[4, 8])
    parser.add_argument("--updates", type=int, default=50)
    wanted = parser.parse_args()
    values = {}
    with tempfile.TemporaryDirectory() as place:
        alone = run(Path(place) / "alone", 1, wanted.updates, batches_per_update=BATCHES)
        for parallel in ("ddp", "fsdp"):
            for processes in wanted.processes:
                folder = Path(place) / f"{parallel}-{processes}"
                losses = run(folder, processes, wanted.updates, parallel, batches_per_update=BATCHES)
                assert list(losses) == list(alone)
                difference = max(abs(losses[update] - alone[update]) / alone[update] for update in alone)
                values[f"{parallel}_{processes}"] = difference
                print(f"{parallel}, {processes} processes: {difference:.2e}", flush=True)
    print(json.dumps({"bench": "many_processes", "values": values}))
    raise SystemExit(max(values.values()) > MOST)


if __name__ == "__main__":
    main()
