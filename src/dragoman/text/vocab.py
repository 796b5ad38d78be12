"""Vocabularies: train, save and load byte-pair encoding, as in the paper (section 5.1), or a unigram model.

The four special ids are the same in every vocabulary.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

import sentencepiece
from pydantic import Field

from dragoman.config import Config
from dragoman.io.durable import FileInfo, write_durably
from dragoman.text.subwords import Subwords, encode_utf8

PAD: Final = 0
"""The padding id: never attended to and never generated."""

BOS: Final = 1
"""The begin-of-sequence id: the decoder's first input, never generated."""

EOS: Final = 2
"""The end-of-sequence id."""

UNK: Final = 3
"""The id of unknown pieces, which byte fallback never produces."""

NUM_SPECIALS: Final = 4
"""The number of special ids; other pieces start at this id."""

_NUM_THREADS: Final = 4
"""Number of trainer threads; a different number gives a different unigram model."""

_LONGEST: Final = 1 << 14
"""Size limit of a sentence in bytes; the trainer ignores longer sentences."""

_SPECIALS: Final = {"pad_id": PAD, "bos_id": BOS, "eos_id": EOS, "unk_id": UNK}
_AS_IT_IS: Final = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
_LIMITS: Final = {"max_sentence_length": _LONGEST, "num_threads": _NUM_THREADS, "minloglevel": 2}

_JOINT: Final = ("vocab.model",)
_SEPARATE: Final = ("vocab.source.model", "vocab.target.model")


@dataclass(frozen=True)
class Vocab:
    """The subword models of source and target: a joint model, as in the paper (section 5.1), or two models."""

    source: Subwords
    target: Subwords

    @property
    def joint(self) -> bool:
        """True if source and target share one subword model."""
        return self.source.proto == self.target.proto

    @property
    def sha256(self) -> str:
        """The SHA-256 of both models, which identifies the vocabulary."""
        return hashlib.sha256(f"{self.source.sha256} {self.target.sha256}".encode()).hexdigest()

    @property
    def files(self) -> dict[str, bytes]:
        """The content of the file of a joint vocabulary, or of the two files of separate vocabularies, by name."""
        names = _JOINT if self.joint else _SEPARATE
        return dict(zip(names, [self.source.proto, self.target.proto], strict=False))

    @property
    def languages(self) -> tuple[str, ...]:
        """The target languages that the source side has a tag for; empty for most models of one language."""
        return tuple(self.source.tags)

    def to(self, language: str | None) -> "Vocab":
        """Return the vocabulary whose sources begin with the tag of a target language; None leaves it as it is."""
        return self if language is None else replace(self, source=self.source.to(language))

    def save(self, folder: Path) -> tuple[FileInfo, ...]:
        """Write one file for a joint vocabulary, or two files for separate vocabularies."""
        saved = tuple(write_durably(folder / name, content) for name, content in self.files.items())
        for name in {*_JOINT, *_SEPARATE} - self.files.keys():
            (folder / name).unlink(missing_ok=True)
        return saved

    @staticmethod
    def load(folder: Path) -> "Vocab":
        """Load the files written by `save`; the caller must verify the hashes."""
        names = tuple(name for name in (*_JOINT, *_SEPARATE) if (folder / name).is_file())
        if names not in (_JOINT, _SEPARATE):
            here = " and ".join(names) or "no vocabulary"
            raise ValueError(f"{folder} has {here}: give a folder with {_JOINT[0]}, or {' and '.join(_SEPARATE)}")
        models = [_read(folder / name) for name in names]
        source = Subwords(models[0].proto, needs_language=True) if len(models[0].tags) > 1 else models[0]
        return Vocab(source, models[-1])


def _read(path: Path) -> Subwords:
    try:
        model = Subwords(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if model.specials != (PAD, BOS, EOS, UNK):
        wrong = f"PAD, BOS, EOS, UNK are {model.specials} instead of {(PAD, BOS, EOS, UNK)}"
        raise ValueError(f"{path}: {wrong}: train the vocabulary with Dragoman")
    return model


class VocabConfig(Config):
    """The kind and size of a vocabulary. The defaults are those of the paper for English-German."""

    kind: Literal["bpe", "unigram"] = Field("bpe", description="byte-pair encoding, as in the paper, or unigram model")
    size: int = Field(37_000, ge=5, description="number of ids per model, including special ids and bytes")
    joint: bool = Field(True, description="one vocabulary for both sides, as in the paper; false: one per side")
    character_coverage: float = Field(0.9999, gt=0.0, le=1.0, description="fraction of characters with an id")
    split_by_script: bool = Field(
        True, description="separate letters, digits and signs; false: pieces such as I_TURN_LEFT or (NP are possible"
    )


def train_vocab(
    source: Iterable[str], target: Iterable[str], config: VocabConfig, languages: Sequence[str] = ()
) -> Vocab:
    """Train a vocabulary on a sample of source and target text, with a tag on the source side for each language.

    The same text in the same order gives the same bytes. Training needs several times the size of the sample in memory;
    a few million sentences are enough.
    """
    if config.joint:
        model = train_subwords(chain(source, target), config, languages)
        return Vocab(model, model)
    return Vocab(train_subwords(source, config, languages), train_subwords(target, config))


def train_subwords(texts: Iterable[str], config: VocabConfig, languages: Sequence[str] = ()) -> Subwords:
    """Train a SentencePiece model on texts, with a tag for each language."""
    sample = [encode_utf8(text, number) for number, text in enumerate(texts)]
    written = io.BytesIO()
    size: dict[str, Any] = {"vocab_size": config.size, "character_coverage": config.character_coverage}
    options = {"model_type": config.kind, **size, **_SPECIALS, **_AS_IT_IS, **_LIMITS}
    options |= {"split_by_unicode_script": config.split_by_script, "split_by_number": config.split_by_script}
    if languages:
        options["control_symbols"] = [f">>{language}<<" for language in languages]
    try:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sample), model_writer=written, **options)
    except RuntimeError as error:
        raise _explain(str(error), config.size, f"a sample of {len(sample):,} sentences") from error
    return Subwords(written.getvalue())


def _explain(error: str, size: int, sample: str) -> Exception:
    """Return an exception that explains SentencePiece's error message and gives a possible size."""
    if match := re.search(r"Vocabulary size too high .* a value <= (\d+)", error):
        fix = f"give a size of at most {int(match[1]):,}, or more text"
        return ValueError(f"a vocabulary of {size:,} is too large for {sample}: {fix}")
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        fix = f"give a size of at least {int(match[1]):,}, or a lower character_coverage"
        return ValueError(f"a vocabulary of {size:,} is too small for {sample}: {fix}")
    if "!sentences_.empty()" in error:
        return ValueError(f"{sample} has no sentence to train on: give sentences of 1 to {_LONGEST:,} bytes")
    return RuntimeError(f"SentencePiece could not train on {sample}: {error}")
