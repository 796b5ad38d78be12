"""The same command again: whether a run that was begun may go on, and what differs from how it began. No torch here."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from dragoman.data.durable import write_durably
from dragoman.experiment.recipe import Recipe, with_data

ASKED: Final = "asked.json"
"""What a run was asked for that chose its recipe itself: asked again, it would choose by the clock, and otherwise."""

_NOTHING: Final = object()

_OTHERWISE: Final = "give what was given before, another --out, or --changed to go on all the same"


def refuse_changes(before: Recipe, now: Recipe, accepted: bool) -> None:
    """Raise if the recipe is another, unless that is meant; and if no state could be read into the model."""
    if before.model != now.model:
        lines = differences(before.model.model_dump(mode="json"), now.model.model_dump(mode="json"), "model")
        raise ValueError(_told("a run cannot go on with another model", lines, "give another --out"))
    lines = differences(before.model_dump(mode="json"), now.model_dump(mode="json"))
    if lines and not accepted:
        raise ValueError(_told("the run in this folder was begun with another recipe", lines, _OTHERWISE))


def refuse_unlike(finished: Recipe, now: Recipe, folder: Path) -> None:
    """Raise if the recipe is not that of the finished run in the folder."""
    # Without validation pairs, the run has split some off, and keeps them as its own.
    asked = with_data(now, dev=now.data.dev or finished.data.dev)
    if lines := differences(finished.model_dump(mode="json"), asked.model_dump(mode="json")):
        raise ValueError(_told(f"{folder} holds a finished model, of another recipe", lines, "give another --out"))


def remember_asked(folder: Path, asked: Mapping[str, Any]) -> None:
    """Keep what a run was asked for."""
    text = json.dumps(asked, indent=1)
    write_durably(folder / ASKED, lambda sink: sink.write(text.encode()))


def refuse_asked(folder: Path, asked: Mapping[str, Any], mend: str = _OTHERWISE) -> None:
    """Raise if another thing is asked for than when the run was begun."""
    lines = differences(_asked(folder), dict(asked))
    if lines:
        raise ValueError(_told("the run in this folder was begun with other options", lines, mend))


def refuse_other_text(folder: Path, asked: Mapping[str, Any]) -> None:
    """Raise if a run that may go on otherwise than it was begun is given other text: its recipe says what it reads."""
    before = _asked(folder)
    lines = [line for side in ("source", "target") for line in differences(before[side], asked[side], side)]
    if lines:
        mend = f"to add text, put it at the end of data.train in a copy of {folder / 'recipe.yaml'}, and give that copy"
        raise ValueError(_told("the run in this folder was begun with other text", lines, f"{mend} with --changed"))


def _asked(folder: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((folder / ASKED).read_text(encoding="utf-8"))
    return kept


def differences(before: Any, now: Any, key: str = "") -> list[str]:
    """A line for each value that is not the same, under its key."""
    return list(_differences(before, now, key))


def _differences(before: Any, now: Any, key: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in [*before, *(name for name in now if name not in before)]:
            yield from _differences(before.get(name), now.get(name), f"{key}.{name}" if key else str(name))
    elif isinstance(before, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip_longest(before, now, fillvalue=_NOTHING)):
            yield from _differences(one, other, f"{key}.{number}")
    elif before != now:
        yield f"{key}: {_shown(before)} before, {_shown(now)} now"


def _shown(value: Any) -> str:
    """As it is typed; of what is missing on the other side and has a name, the name."""
    if value is _NOTHING:
        return "nothing"
    if isinstance(value, dict) and "name" in value:
        return str(value["name"])
    return json.dumps(value, ensure_ascii=False)


def _told(what: str, lines: Sequence[str], mend: str) -> str:
    return "\n".join([f"{what}:", *(f"  {line}" for line in lines), mend])
