"""The same command again: whether a run that was begun may go on, and what differs from how it began. No torch here."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.data.durable import write_durably
from dragoman.experiment.recipe import Recipe

ASKED: Final = "asked.json"
"""What a run was asked for that chose its recipe itself: asked again, it would choose by the clock, and otherwise."""

_OTHERWISE: Final = "give what was given before, another --out, or --changed to go on all the same"


def refuse_changes(before: Recipe, now: Recipe, accepted: bool) -> None:
    """Raise if the recipe is another, unless that is meant; and if no state could be read into the model."""
    if before.model != now.model:
        lines = differences(before.model.model_dump(mode="json"), now.model.model_dump(mode="json"), "model")
        raise ValueError(_told("a run cannot go on with another model", lines, "give another --out"))
    lines = differences(before.model_dump(mode="json"), now.model_dump(mode="json"))
    if lines and not accepted:
        raise ValueError(_told("the run in this folder was begun with another recipe", lines, _OTHERWISE))


def remember_asked(folder: Path, asked: Mapping[str, Any]) -> None:
    """Keep what a run was asked for."""
    text = json.dumps(asked, indent=1)
    write_durably(folder / ASKED, lambda sink: sink.write(text.encode()))


def refuse_asked(folder: Path, asked: Mapping[str, Any]) -> None:
    """Raise if another thing is asked for than when the run was begun."""
    lines = differences(json.loads((folder / ASKED).read_text(encoding="utf-8")), dict(asked))
    if lines:
        raise ValueError(_told("the run in this folder was begun with other options", lines, _OTHERWISE))


def differences(before: Any, now: Any, key: str = "") -> list[str]:
    """A line for each value that is not the same, under its key."""
    return list(_differences(before, now, key))


def _differences(before: Any, now: Any, key: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in [*before, *(name for name in now if name not in before)]:
            yield from _differences(before.get(name), now.get(name), f"{key}.{name}" if key else str(name))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{key}.{number}")
    elif before != now:
        yield f"{key}: {json.dumps(before, ensure_ascii=False)} before, {json.dumps(now, ensure_ascii=False)} now"


def _told(what: str, lines: Sequence[str], mend: str) -> str:
    return "\n".join([f"{what}:", *(f"  {line}" for line in lines), mend])
