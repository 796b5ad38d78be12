"""What a recipe may leave out or abbreviate, written out: presets, names of corpora, paths."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.data.stream import STANDARD_INPUT
from dragoman.experiment.mistakes import Mistake, refusal
from dragoman.experiment.override import OPTION
from dragoman.experiment.yaml_lines import Document, Key
from dragoman.models.presets import find

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def expand(document: Document, folder: Path) -> Document:
    """The document in full. Paths in it are relative to `folder`; those given by --set to the current one."""
    if not isinstance(document.values, dict):
        raise ValueError(f"{document.place(())}: a recipe has keys such as name and data; here is none")
    mistakes: list[Mistake] = []
    values = {**document.values}
    if isinstance(values.get("model"), dict):
        values["model"] = _model(values["model"], mistakes)
    if isinstance(values.get("data"), dict):
        values["data"] = _data(values["data"], document, folder, mistakes)
    if mistakes:
        raise refusal(document, mistakes)
    return Document(values, document.places)


def _model(section: dict[str, Any], mistakes: list[Mistake]) -> dict[str, Any]:
    """A preset gives the keys that the section does not."""
    if "preset" not in section:
        return {"family": "transformer", **section}
    changes = {key: value for key, value in section.items() if key != "preset"}
    try:
        preset = find(section["preset"])
    except (ValueError, TypeError) as error:
        message = str(error) if isinstance(section["preset"], str) else "expected the name of a preset, such as tiny"
        mistakes.append(Mistake(("model", "preset"), message))
        return changes
    if changes.get("family", preset.family) != preset.family:
        message = f"the preset {section['preset']} is of family {preset.family}: leave out family"
        mistakes.append(Mistake(("model", "family"), message))
    return {"family": preset.family, **preset.changes, **changes}


def _data(section: dict[str, Any], document: Document, folder: Path, mistakes: list[Mistake]) -> dict[str, Any]:
    """Every corpus gets a name, and its files a path that holds wherever the recipe is put."""
    expanded = {**section}
    for key, name, corpus in _corpora(section):
        full = {"name": name, **corpus}
        for side in ("source", "target"):
            if isinstance(full.get(side), str):
                place = (*key, side)
                base = Path() if document.place(place).startswith(OPTION) else folder
                full[side] = _path(full[side], base, place, mistakes)
        *_, last = key
        if isinstance(last, int):
            expanded[str(key[1])] = [*expanded[str(key[1])]]
            expanded[str(key[1])][last] = full
        else:
            expanded[last] = full
    return expanded


def _corpora(section: dict[str, Any]) -> Iterator[tuple[Key, str, dict[str, Any]]]:
    """Every corpus with its key and the name it has if it gives none."""
    for kind in ("train", "dev", "test"):
        corpora = section.get(kind)
        if isinstance(corpora, dict):
            yield ("data", kind), kind, corpora
        for index, corpus in enumerate(corpora if isinstance(corpora, list) else ()):
            if isinstance(corpus, dict):
                yield ("data", kind, index), f"{kind}-{index + 1}" if index else kind, corpus


def _path(written: str, folder: Path, key: Key, mistakes: list[Mistake]) -> str:
    """Variables filled in, and made absolute."""
    for name in _VARIABLE.findall(written):
        if name not in os.environ:
            mend = f"say where it is, as in: export {name}=/path/to/data"
            mistakes.append(Mistake(key, f"the environment variable {name} is not set; {mend}"))
    return anchored(_VARIABLE.sub(lambda found: os.environ.get(found[1], ""), written), folder)


def anchored(address: str, folder: Path) -> str:
    """A path that holds wherever it is read; an address elsewhere, or standard input, does anyway."""
    if address == STANDARD_INPUT or "://" in address:
        return address
    return str(folder.absolute() / address)
