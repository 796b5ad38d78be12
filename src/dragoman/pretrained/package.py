"""The files of a model package: a folder, or a zip archive that is read without being unpacked."""

import hashlib
import io
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn
from zipfile import BadZipFile, ZipFile

import sentencepiece
import yaml

_MARKERS: Final = ("decoder.yml", "config.json")
"""The files of which one is beside the others in every package that can be imported."""

_LARGEST: Final = 1 << 33
"""The size limit of a file in bytes: weights have at most a few gigabytes."""

_LARGEST_TEXT: Final = 1 << 26
"""The size limit of a file other than weights."""

_LICENCE: Final = re.compile(r"^licen[sc]e:[ \t]*(\S.*)$", re.MULTILINE | re.IGNORECASE)
_FRONT_MATTER: Final = re.compile(r"\A---\n(.*?)\n---", re.DOTALL)


class Package:
    """The files of a model beside each other, by name. Links and names that lead outside are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = None if path.is_dir() else _open_archive(path)
        if self._archive is None:
            self._root = path
            self.names = sorted(file.name for file in path.iterdir() if file.is_file())
        else:
            inside = [PurePosixPath(name) for name in self._archive.namelist()]
            found = sorted((file.parent for file in inside if file.name in _MARKERS), key=lambda one: len(one.parts))
            self._inner = found[0] if found else PurePosixPath()
            self.names = sorted(file.name for file in inside if file.parent == self._inner)

    @property
    def name(self) -> str:
        """The name of the folder or of the archive."""
        return self.path.resolve().name.removesuffix(".zip")

    def refuse(self, reason: str) -> NoReturn:
        """Raise ValueError with the reason why the model cannot be imported, and what to do."""
        raise self.refusal(reason)

    def refusal(self, reason: str) -> ValueError:
        """Return the error of a model that cannot be imported."""
        return ValueError(f"{self.path}: cannot import this model: {reason}")

    def read(self, name: str, largest: int = _LARGEST_TEXT) -> bytes:
        """Return the content of a file; raise ValueError if it is missing, elsewhere or too large."""
        if name not in self.names:
            wrong = "it is not beside the others" if "/" in name or "\\" in name else "it is missing"
            self.refuse(f"the package needs the file {name}, but {wrong}: give a complete package")
        if self._archive is not None:
            with self._archive.open(str(self._inner / name)) as file:
                content = file.read(largest + 1)
        else:
            path = self._root / name
            if path.stat().st_size > largest:
                self.refuse(f"{name} has more than {largest:,} bytes: give a package of a model")
            content = path.read_bytes()
        if len(content) > largest:
            self.refuse(f"{name} has more than {largest:,} bytes: give a package of a model")
        return content

    def read_weights(self, name: str) -> bytes:
        """Return the content of a file of weights."""
        return self.read(name, _LARGEST)

    def read_sentencepiece(self, name: str) -> bytes:
        """Return the content of a SentencePiece model."""
        content = self.read(name)
        try:
            sentencepiece.SentencePieceProcessor(model_proto=content)
        except RuntimeError as error:
            self.refuse(f"{name} is not a SentencePiece model ({error}): give a complete package")
        return content

    def read_text(self, name: str) -> str:
        """Return the text of a file in UTF-8."""
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as error:
            self.refuse(f"{name} is not UTF-8 ({error.reason} at byte {error.start}): give a complete package")

    def read_yaml(self, name: str) -> dict[str, Any]:
        """Return the mapping in a YAML or JSON file, without Python objects; all scalars of JSON keep their types."""
        try:
            value = yaml.safe_load(self.read_text(name))
        except yaml.YAMLError as error:
            self.refuse(f"{name} is not valid YAML ({' '.join(str(error).split())}): give a complete package")
        if not isinstance(value, dict):
            self.refuse(f"{name} is not a mapping: give a complete package")
        return value

    def find_licence(self) -> str | None:
        """Return the licence that the package gives: in the head of README.md, or the first line of LICENSE."""
        head = _FRONT_MATTER.match(self._description) if self._description else None
        if head and (licence := _LICENCE.search(head[1])):
            return licence[1].strip("'\" ")
        for name in ("LICENSE", "LICENCE", "LICENSE.txt"):
            if name in self.names:
                lines = [line.strip() for line in self.read_text(name).splitlines() if line.strip()]
                return lines[0] if lines else None
        return None

    def mentions(self, word: str, names: Sequence[str] = ()) -> bool:
        """Return True if the README, or one of the file names, contains a word."""
        return word in self._description or any(word in name for name in names)

    @property
    def _description(self) -> str:
        return self.read(name).decode(errors="replace") if (name := "README.md") in self.names else ""


def _open_archive(path: Path) -> ZipFile:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file or folder: give a folder or a .zip of a model")
    try:
        return ZipFile(io.BytesIO(path.read_bytes()))
    except BadZipFile as error:
        raise ValueError(f"{path}: not a zip archive ({error}): give a folder or a .zip of a model") from error


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()
