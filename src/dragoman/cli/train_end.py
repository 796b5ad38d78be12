"""How a training ends, in words: where its model is, or how far it came, or that a process of it was lost."""

import os
import shlex
import sys
from pathlib import Path


def finished(out: Path) -> str:
    """Where the model is, and how to try it."""
    model = f"the model is in {out / 'bundle'}, its curves in {out / 'curves.png'}"
    return f"{model}\ntry it: {shlex.join(['dragoman', 'translate', str(out), 'A text.'])}"


def stopped(out: Path) -> str:
    """How far a training came that was ended, and what is left of it."""
    from dragoman.experiment.log import LOG, read_log
    from dragoman.experiment.preflight import is_under_way, newest_update

    if not (out / "prepared" / "manifest.json").exists():
        return "stopped before the text was prepared; the same command goes on with that"
    events = read_log(out) if (out / LOG).exists() else []
    if any(event["event"] == "end" for event in events):
        return f"stopped while the model was scored; it is in {out / 'bundle'}; the same command does what is left"
    last = max((event.get("update", 0) for event in events), default=0)
    where = f" at update {last:,}" if last else ""
    if is_under_way(out):
        return f"stopped{where}; the same command goes on from update {newest_update(out):,}"
    return f"stopped{where}, before the first checkpoint; the same command begins anew (the text stays prepared)"


def is_lost_neighbour(error: Exception) -> bool:
    """Whether it says that another process of the training is gone, which is that one's matter."""
    return isinstance(error, RuntimeError) and "gloo" in str(error)


def leave(launcher: int, is_known: bool = False) -> None:
    """End at once: this one's part is of no use, and the launcher, if it lives, starts all of them again."""
    if os.getppid() == launcher and not is_known:
        print("a training process was lost; going on from the last checkpoint", file=sys.stderr, flush=True)
    os._exit(1)  # what is still being saved waits for the lost one
