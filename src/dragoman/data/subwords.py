"""One SentencePiece model: text to subword ids and back, and where in the text each piece stands.

What holds of the text, and where it ends:
- Every text can be encoded: a character the model does not know becomes the bytes of its UTF-8, so UNK never comes out.
- `decode(encode(text)) == text`, runs of spaces included: nothing is normalised here (cleaning does that). The one
  exception is "▁" (U+2581), which SentencePiece writes for a space: it comes back as a space.
- Text never becomes a special id: "</s>" in a sentence is four characters.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.data.bpe_dropout import BPEDropout
from dragoman.data.ragged import Ids, Ragged
from dragoman.data.spelling import Pieces, characters
from dragoman.data.unigram_sampling import UnigramSampling

_AT_ONCE: Final = 8192
"""Sentences in one call: their ids are Python numbers until the call is done."""


class Subwords:
    """A trained model. Small to pickle, safe to share between threads."""

    def __init__(self, proto: bytes) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
        except RuntimeError as error:
            raise ValueError(f"not a SentencePiece model ({error})") from error
        self.proto = proto
        self.size: int = self._processor.get_piece_size()
        self.specials = (
            self._processor.pad_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
            self._processor.unk_id(),
        )

    def __reduce__(self) -> tuple[type["Subwords"], tuple[bytes]]:
        return Subwords, (self.proto,)

    @property
    def dtype(self) -> type[np.uint16] | type[np.int32]:
        """What an id is stored as: two bytes where they suffice."""
        return np.uint16 if self.size <= 1 << 16 else np.int32

    @property
    def sha256(self) -> str:
        """The same model has the same hash."""
        return hashlib.sha256(self.proto).hexdigest()

    def encode(self, texts: list[str]) -> Ragged:
        """The ids of each text, with EOS at its end."""
        starts = range(0, len(texts), _AT_ONCE)
        return self._joined(self._encode(texts[start : start + _AT_ONCE], start) for start in starts)

    def sample(self, texts: list[str], rate: float, key: tuple[int, ...]) -> Ragged:
        """Like `encode`, with other pieces each time: the result is a function of the texts, the rate and the key.

        `rate` is the chance to skip a merge (BPE-dropout: 0 never), or for a unigram model the power to which a
        segmentation's probability is raised (1: as it is; 0: all are as likely). A key such as (seed, batch, side)
        names the draw: it is the same in any process.
        """
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"a sampling rate is between 0 and 1, not {rate}")
        for number, text in enumerate(texts):
            utf8(text, number)
        pieces, sampler = self._sampler
        spelled = characters(texts)
        return pieces.rows(spelled, sampler.segment(spelled, rate, _generator(key)), self.dtype)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """For each id that `encode` gives, the characters (from, to) it stands for, its space included.

        The bytes of one character all have that character. What stands for nothing in the text, as the space that
        SentencePiece puts before it, or EOS, is empty: from equals to.
        """
        mapped = self._processor.encode(utf8(text, 0).decode(), return_type="offset_mapping")
        spans = [(len(text), len(text))]
        for token, span in zip(reversed(mapped["ids"]), reversed(mapped["offsets"]), strict=True):
            inside = self._processor.is_byte(token) and span[0] == span[1]
            spans.append(spans[-1] if inside else tuple(span))
        return spans[::-1]

    def decode(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """The text of these ids; special ids say nothing. Bytes that make no character become U+FFFD."""
        known = [self._known(int(token)) for token in ids]
        text: str = self._processor.decode([token for token in known if token not in self.specials])
        return text

    def piece(self, token: int) -> str:
        """What an id looks like: "▁" is a space, "<0x41>" a byte."""
        piece: str = self._processor.id_to_piece(self._known(token))
        return piece

    @cached_property
    def _sampler(self) -> tuple[Pieces, BPEDropout | UnigramSampling]:
        """Tables that only sampling needs, made at its first use."""
        pieces = Pieces.of(self._processor)
        ranks = pieces.scores[list(pieces.spelled.values())]
        is_bpe = bool((ranks == -np.arange(len(ranks))).all())  # the score of a merge is its rank, not a probability
        return pieces, BPEDropout.of(pieces) if is_bpe else UnigramSampling.of(pieces)

    def _known(self, token: int) -> int:
        if not 0 <= token < self.size:
            raise ValueError(f"id {token} is not in a vocabulary of {self.size}")
        return token

    def _encode(self, texts: list[str], first: int) -> list[list[int]]:
        try:
            rows: list[list[int]] = self._processor.encode(texts, num_threads=1, add_eos=True)
        except TypeError:
            for number, text in enumerate(texts, first):
                utf8(text, number)
            raise
        return rows

    def _joined(self, parts: Iterator[list[list[int]]]) -> Ragged:
        flat = [np.fromiter(chain.from_iterable(rows), self.dtype) for rows in parts]
        ids: Ids = np.concatenate([np.empty(0, self.dtype), *flat])
        ends = np.flatnonzero(ids == self._processor.eos_id()) + 1  # EOS stands at ends only: text never becomes it
        return Ragged(ids, np.append(np.int64(0), ends))


def _generator(key: tuple[int, ...]) -> np.random.Philox:
    name = " ".join(str(int(part)) for part in key)  # numpy's whole numbers name the same draw as Python's
    return np.random.Philox(key=int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big"))


def utf8(text: str, number: int) -> bytes:
    """A sentence as bytes; refuses one that is no text, by its number."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        lone = f"U+{ord(text[error.start]):04X}"
        raise ValueError(
            f"sentence {number} (from 0) holds {lone}, half of a character without its other half: "
            "remove it, or read the text with errors='replace'"
        ) from error
