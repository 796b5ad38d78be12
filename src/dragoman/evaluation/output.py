"""What each system says: a bundle's own translations of the source, or a file that some other system wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from dragoman.data.progress import Progress
from dragoman.evaluation.text import Text, read_text, require_same_length


@dataclass(frozen=True)
class Output:
    """One system's translation of the whole test set."""

    name: str
    kind: Literal["bundle", "file"]
    sha256: str
    """Of the bundle, or of the file's text."""
    lines: list[str]


def gather(
    systems: Sequence[str], source: Text | None, references: Sequence[Text], progress: Progress | None = None
) -> list[Output]:
    """The outputs of bundles (folders) and files, in order. What can be refused is, before anything is translated."""
    names = _names(systems)
    bundles = [address for address in systems if is_bundle(address)]
    if bundles and source is None:
        raise ValueError(f"{bundles[0]} is a model and needs something to translate: give --source")
    files = {address: read_text(address) for address in systems if address not in bundles}
    for text in (*references[1:], *([source] if source else []), *files.values()):
        require_same_length(text, references[0])
    tell = progress or (lambda *_: None)
    return [
        Output(name, "file", files[address].sha256, files[address].lines)
        if address in files
        else _translated(name, Path(address), source, tell)
        for name, address in zip(names, systems, strict=True)
    ]


def is_bundle(address: str) -> bool:
    """Bundles are folders, other systems' outputs are files; what is neither is refused."""
    path = Path(address)
    if not path.exists() and "://" not in address and address != "-":
        raise ValueError(f"{address}: there is neither a model's folder nor a file of that name")
    return path.is_dir()


def _names(systems: Sequence[str]) -> list[str]:
    """The last part of each address, or all of it where that would not tell two systems apart."""
    for address in systems:
        if systems.count(address) > 1:
            raise ValueError(f"{address} is given {systems.count(address)} times: a system is compared with others")
    short = [Path(address).resolve().name for address in systems]
    return [name if short.count(name) == 1 else address for name, address in zip(short, systems, strict=True)]


def _translated(name: str, folder: Path, source: Text | None, progress: Progress) -> Output:
    from dragoman.bundle import open_bundle
    from dragoman.decoding.translator import Translator

    assert source is not None
    sha256 = open_bundle(folder, verify=False).sha256  # loading verifies it
    tell = partial(progress, f"translate with {name}")
    return Output(name, "bundle", sha256, Translator.load(folder).translate(source.lines, tell))
