"""Two processes save two checkpoints, and one file of the newer is damaged: python checkpoints.py FOLDER.

Each prints one JSON line: the files that it hashed while saving and while verifying, and what was found.
"""

import json
import sys
from pathlib import Path

import torch

from dragoman.io import durable
from dragoman.training import checkpoint
from dragoman.training.checkpoint import Checkpoints
from dragoman.training.parallel import init_group

original = durable.hash_file
hashed: list[str] = []


def hash_file(path: Path) -> str:
    hashed.append(path.name)
    return original(path)


def main() -> None:
    folder = Path(sys.argv[1])
    durable.hash_file = checkpoint.hash_file = hash_file  # type: ignore[attr-defined]
    with init_group() as group:
        checkpoints = Checkpoints(folder, 3, group)
        state = {f"weight{number}": torch.full((300 + number,), float(number)) for number in range(6)}
        for update in (3, 7):
            checkpoints.save(update, state | {"update": update})
            checkpoints.finish()
        saved = list(hashed)
        hashed.clear()
        files = sorted(path.name for path in (folder / "update-000000007").glob("*.distcp"))
        group.all_gather(0)
        if group.is_first:
            with (folder / "update-000000007" / files[-1]).open("r+b") as damaged:
                damaged.write(b"damage")
        group.all_gather(0)
        manifest, errors = checkpoints.newest()
        assert manifest is not None
        loaded = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        checkpoints.load(manifest, loaded)
        is_same = all(torch.equal(loaded[name], tensor) for name, tensor in state.items())
        errors = [error.rpartition("/")[2] for error in errors]
        values = {"saved": saved, "verified": hashed, "update": manifest.update, "errors": errors, "same": is_same}
        print(json.dumps(values | {"results": [result.error for result in checkpoints.results]}))


if __name__ == "__main__":
    main()
