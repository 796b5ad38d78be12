"""Learning a vocabulary from text: byte-pair encoding as in the paper (section 5.1), or a unigram model."""

import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Literal

import sentencepiece
from pydantic import Field

from dragoman.config import Config
from dragoman.data.subwords import Subwords, utf8
from dragoman.data.vocab import BOS, EOS, PAD, UNK, Vocab

_NUM_THREADS: Final = 4
"""Sums of a unigram model are made thread by thread: another number is another model."""

_LONGEST: Final = 1 << 14
"""Bytes of a sentence; longer ones teach nothing that shorter ones do not, and are left out."""


class VocabConfig(Config):
    """How a vocabulary is learned. The defaults are the paper's for English-German."""

    kind: Literal["bpe", "unigram"] = Field("bpe", description="byte-pair encoding, as the paper, or a unigram model")
    size: int = Field(
        37_000, ge=5, description="ids of the joint vocabulary, or of each side; specials and bytes included"
    )
    joint: bool = Field(True, description="one vocabulary for both sides, as the paper, or one each")
    character_coverage: float = Field(
        0.9999, gt=0.0, le=1.0, description="share of the text whose characters get an id; the rest is spelled in bytes"
    )


def train_vocab(source: Iterable[str], target: Iterable[str], config: VocabConfig) -> Vocab:
    """Learns from a sample of both sides, read once. The same text in the same order gives the same bytes.

    The trainer holds the sample in memory, a few times its size: a few million sentences are enough, and more do not
    help.
    """
    if config.joint:
        model = train_subwords(chain(source, target), config)
        return Vocab(model, model)
    return Vocab(train_subwords(source, config), train_subwords(target, config))


def train_subwords(texts: Iterable[str], config: VocabConfig) -> Subwords:
    """Learns one model."""
    sample = _Sample(texts)
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=written,
            model_type=config.kind,
            vocab_size=config.size,
            character_coverage=config.character_coverage,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=_LONGEST,
            num_threads=_NUM_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise sample.failure or _explained(str(error), config.size, sample.num_texts) from error
    return Subwords(written.getvalue())


class _Sample:
    """The texts as the trainer reads them. It remembers what failed, because the trainer keeps only the words."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = texts
        self.num_texts = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for text in self.texts:
                yield utf8(text, self.num_texts)
                self.num_texts += 1
        except BaseException as error:
            self.failure = error
            raise


def _explained(error: str, size: int, num_texts: int) -> Exception:
    """What the trainer's message means for whoever chose the size."""
    sample = f"a sample of {num_texts:,} sentences"
    if found := re.search(r"Vocabulary size too high .* a value <= (\d+)", error):
        largest = f"the largest possible is {int(found[1]):,}"
        return ValueError(
            f"a vocabulary of {size:,} is too large for {sample}: {largest}; ask for less, or give more text"
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        smallest = f"specials, bytes and characters alone need {int(found[1]):,}"
        return ValueError(
            f"a vocabulary of {size:,} is too small for {sample}: {smallest}; ask for more, or cover less"
        )
    if "!sentences_.empty()" in error:
        return ValueError(f"{sample} holds nothing to learn from: give sentences of 1 to {_LONGEST:,} bytes")
    return RuntimeError(f"SentencePiece could not learn from {sample}: {error}")
