"""The folder of a run: its options and recipe, and the checks before resuming. Does not import torch."""

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from dragoman.data.manifest import MANIFEST
from dragoman.experiment.log import LOG, read_log
from dragoman.experiment.parent import remove_kept
from dragoman.experiment.run_state import BUNDLE, PREPARED, RECIPE, REQUEST, has_checkpoint, newest_update
from dragoman.io.durable import write_durably
from dragoman.recipes.recipe import Recipe, dump_recipe, with_data
from dragoman.training.config import resolve_precision

_NOTHING: Final = object()
_RESUME_ADVICE: Final = "restore these values, give another --out, or add --changed to resume with the changes"


def describe_stop(folder: Path) -> str:
    """Return a message about the progress of a stopped run and how to resume it."""
    if not (folder / PREPARED / MANIFEST).exists():
        return "stopped before the text was prepared; the same command continues"
    events = read_log(folder) if (folder / LOG).exists() else []
    marks = [event["event"] for event in events if event["event"] in ("begin", "resumed", "end")]
    if marks[-1:] == ["end"]:  # a run that was given more time goes on after its first end
        return f"stopped while the model was scored; the same command finishes scoring; bundle: {folder / BUNDLE}"
    last = max((event.get("update", 0) for event in events), default=0)
    where = f" at update {last:,}" if last else ""
    if has_checkpoint(folder):
        return f"stopped{where}; the same command resumes from update {newest_update(folder):,}"
    return f"stopped{where}, before the first checkpoint; the same command starts over (the text stays prepared)"


def check_same_recipe(before: Recipe, now: Recipe, allow_changes: bool) -> None:
    """Raise ValueError if the model has changed or, without `allow_changes`, if any recipe key has changed."""
    lines = differences(before.model_dump(mode="json"), now.model_dump(mode="json"))
    if before.model != now.model:
        lines = [line for line in lines if line.startswith("model.")]
        raise _difference_error("a run cannot be resumed with another model", lines, "give another --out")
    if lines and not allow_changes:
        raise _difference_error("the run in this folder began with another recipe", lines, _RESUME_ADVICE)


def check_same_as_finished(finished: Recipe, now: Recipe, folder: Path) -> None:
    """Raise ValueError if the recipe differs from the recipe of the finished run in the folder."""
    # Without validation pairs, the run has split some off, and keeps them as its own.
    now = with_data(now, dev=now.data.dev or finished.data.dev)
    training = resolve_precision(now.training, finished.training.precision == "bfloat16")
    now = now.model_copy(update={"training": training})
    finished, now = remove_kept(finished), remove_kept(now)
    if lines := differences(finished.model_dump(mode="json"), now.model_dump(mode="json")):
        raise _difference_error(f"{folder} holds a finished model with another recipe", lines, "give another --out")


def save_plan(folder: Path, choices: Mapping[str, Any], recipe: Recipe) -> None:
    """Write the options of a run without a recipe, and the recipe chosen for them, to the run folder."""
    write_durably(folder / RECIPE, dump_recipe(recipe).encode())
    write_durably(folder / REQUEST, json.dumps(choices, indent=1).encode())


def is_same_request(folder: Path, choices: Mapping[str, Any]) -> bool:
    """Return True if the options are those that the run began with."""
    return not differences(_load_request(folder), dict(choices))


def check_same_request(folder: Path, choices: Mapping[str, Any], advice: str = _RESUME_ADVICE) -> None:
    """Raise ValueError if the options differ from those that the run began with."""
    if lines := differences(_load_request(folder), dict(choices)):
        raise _difference_error("the run in this folder began with other options", lines, advice)


def check_same_text(folder: Path, choices: Mapping[str, Any]) -> None:
    """Raise ValueError if the text files differ from those that the run began with."""
    before = _load_request(folder)
    keys = ("source", "target", "pairs", "fields", "from", "keep", "keep_source", "to")
    if lines := [line for key in keys for line in differences(before.get(key), choices.get(key), key)]:
        advice = f"to add text, append to data.train in a copy of {folder / RECIPE}, and train that with --changed"
        raise _difference_error("the run in this folder began with other text", lines, advice)


def _load_request(folder: Path) -> dict[str, Any]:
    choices: dict[str, Any] = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    return choices


def differences(before: Any, now: Any, key: str = "") -> list[str]:
    """Return one line for each value that differs: the key, the old value and the new value."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [*before, *(name for name in now if name not in before)]
        pairs = [(f"{key}.{name}" if key else str(name), before.get(name), now.get(name)) for name in names]
    elif isinstance(before, list) and isinstance(now, list):
        entries = enumerate(zip_longest(before, now, fillvalue=_NOTHING))
        pairs = [(f"{key}.{number}", old, new) for number, (old, new) in entries]
    else:
        return [f"{key}: {_show(before)} before, {_show(now)} now"] if before != now else []
    return [line for name, old, new in pairs for line in differences(old, new, name)]


def _show(value: Any) -> str:
    """Return a value as JSON; for a corpus, return its name."""
    if value is _NOTHING:
        return "nothing"
    if isinstance(value, dict) and "name" in value:
        return str(value["name"])
    return json.dumps(value, ensure_ascii=False)


def _difference_error(what: str, lines: Sequence[str], advice: str) -> ValueError:
    return ValueError("\n".join([f"{what}:", *(f"  {line}" for line in lines), advice]))
