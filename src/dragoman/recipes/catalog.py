"""The built-in recipes, and the data files that each recipe needs."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dragoman.recipes.yaml_document import read_yaml

LIBRARY: Final = Path(__file__).parent / "library"


@dataclass(frozen=True)
class CatalogEntry:
    """A built-in recipe: name, description and data files."""

    name: str
    description: str
    files: tuple[str, ...]
    """The data files of the recipe; variables such as ${DRAGOMAN_DATA} are not expanded."""
    obtain: str
    """Instructions for obtaining the data files."""

    @property
    def path(self) -> Path:
        """The path of the recipe file."""
        return library_path(self.name)

    @property
    def folders(self) -> list[str]:
        """The folders that contain the data files."""
        return list(dict.fromkeys(str(Path(file).parent) for file in self.files))

    @property
    def is_generated(self) -> bool:
        """True if the files are in the current folder: files of the same names there may be those of another corpus."""
        return self.folders == ["."]

    @property
    def missing(self) -> list[str]:
        """The data files that do not exist; relative paths are relative to the current folder."""
        return [file for file in self.files if not Path(os.path.expandvars(file)).is_file()]


def library_path(name: str) -> Path:
    """Return the path of the built-in recipe with this name, without checking that the recipe exists."""
    return LIBRARY / f"{name}.yaml"


def recipe_names() -> list[str]:
    """Return the names of all built-in recipes, sorted."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def list_recipes() -> list[CatalogEntry]:
    """Return the catalog entries of all built-in recipes."""
    return [_read_entry(name) for name in recipe_names()]


def _read_entry(name: str) -> CatalogEntry:
    values: dict[str, Any] = read_yaml(library_path(name)).values
    data = values["data"]
    dev = data["dev"] if isinstance(data["dev"], list) else [data["dev"]]
    corpora = [*data["train"], *dev, *data["test"]]
    files = tuple(corpus[side] for corpus in corpora for side in ("source", "target"))
    return CatalogEntry(name, values["description"], files, data["obtain"])
