"""The vocabulary: what the numbers in a batch stand for, on both sides.

The four special ids are the same in every vocabulary, so a batch of ids explains itself: no room needs to be
told what padding looks like.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.data.durable import FileInfo, write_durably
from dragoman.data.subwords import Subwords

PAD: Final = 0
"""Fills the end of a row that is shorter than its batch. Never attended to, never generated."""

BOS: Final = 1
"""What the decoder reads before it has written anything. Never generated."""

EOS: Final = 2
"""Ends a target."""

UNK: Final = 3
"""A piece the vocabulary does not have."""

NUM_SPECIALS: Final = 4
"""Ordinary pieces start at this id."""

_JOINT: Final = ("vocab.model",)
_SEPARATE: Final = ("vocab.source.model", "vocab.target.model")


@dataclass(frozen=True)
class Vocab:
    """The subwords of both sides: one model for both, as in the paper (section 5.1), or one each."""

    source: Subwords
    target: Subwords

    @property
    def joint(self) -> bool:
        """Both sides have the same ids."""
        return self.source.proto == self.target.proto

    @property
    def sha256(self) -> str:
        """The same vocabulary has the same hash, wherever it is saved."""
        return hashlib.sha256(f"{self.source.sha256} {self.target.sha256}".encode()).hexdigest()

    def save(self, folder: Path) -> tuple[FileInfo, ...]:
        """Writes one file for a joint vocabulary, two for separate ones."""
        models = [self.source] if self.joint else [self.source, self.target]
        files, others = (_JOINT, _SEPARATE) if self.joint else (_SEPARATE, _JOINT)
        saved = tuple(_write(folder / name, model.proto) for name, model in zip(files, models, strict=True))
        for name in others:
            (folder / name).unlink(missing_ok=True)
        return saved

    @staticmethod
    def load(folder: Path) -> "Vocab":
        """Reads what `save` wrote. Whoever keeps a vocabulary keeps its files' hashes, and compares them first."""
        found = [name for name in (*_JOINT, *_SEPARATE) if (folder / name).is_file()]
        if tuple(found) == _JOINT:
            model = _read(folder / _JOINT[0])
            return Vocab(model, model)
        if tuple(found) == _SEPARATE:
            return Vocab(_read(folder / _SEPARATE[0]), _read(folder / _SEPARATE[1]))
        here = " and ".join(found) or "none of them"
        raise ValueError(f"{folder}: a vocabulary is {_JOINT[0]}, or {' and '.join(_SEPARATE)}; here is {here}")


def _write(path: Path, proto: bytes) -> FileInfo:
    return write_durably(path, lambda sink: sink.write(proto))


def _read(path: Path) -> Subwords:
    try:
        model = Subwords(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if model.specials != (PAD, BOS, EOS, UNK):
        raise ValueError(
            f"{path}: PAD, BOS, EOS, UNK are {model.specials} instead of {(PAD, BOS, EOS, UNK)}: "
            "it was trained elsewhere; train the vocabulary with dragoman"
        )
    return model
