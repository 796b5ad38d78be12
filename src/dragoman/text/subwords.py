"""A SentencePiece model: encodes text to subword ids, decodes ids to text, and returns the span of each piece.

Guarantees:
- Every text can be encoded: an unknown character becomes its UTF-8 bytes, so UNK is never returned.
- `decode(encode(text)) == text`, repeated spaces included: nothing is normalised here (cleaning does that). The only
  exception is "▁" (U+2581), SentencePiece's symbol for a space, which is decoded as a space.
- Text is never encoded as a special id: "</s>" in a sentence is four characters.

A model that translates into several languages has a language tag for each, such as `>>fr<<`: a CONTROL piece beside the
special ids, which no text becomes. `encode` puts the tag of the chosen language first.

A vocabulary imported with another tool's model keeps that tool's rules: it may have no bytes, so that UNK occurs, and
it may normalise text.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Final, cast

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.text.ragged import Ids, Ragged
from dragoman.text.subword_sampling import BPEDropout, Pieces, UnigramSampling, split_characters

_WORD_SHARE: Final = 0.25
"""The least share of pieces that begin with a space in a vocabulary of a language that separates words: the demo's has
63%. A vocabulary of characters, or of a script without spaces, has far fewer."""

_FEWEST_CHARACTERS: Final = 32
"""The least number of characters with a piece of their own in a vocabulary that covers a script. Vocabularies of bytes,
codes or a few words have fewer."""

_LANGUAGE: Final = re.compile(r"^>>(.+)<<$")
"""A language tag."""

SENTENCES_PER_CALL: Final = 8192
"""The number of sentences per call of SentencePiece, to limit the memory for lists of ids."""

_FEW_SENTENCES: Final = 8
"""Up to so many are encoded one by one: for a list, SentencePiece starts a thread, which takes ten times as long as a
sentence, and milliseconds if other processes use all cores."""


class Subwords:
    """A trained SentencePiece model, which can be pickled and shared between threads.

    With a `language`, encoded texts begin with its tag; a model with a single tag always puts it first. With
    `needs_language`, as for the source side of a model with several tags, a language must be chosen by `to`.
    """

    def __init__(self, proto: bytes, language: str | None = None, needs_language: bool = False) -> None:
        try:
            model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        except RuntimeError as error:
            raise ValueError(f"not a SentencePiece model ({error})") from error
        self._processor = model
        self.proto = proto
        self.size: int = model.get_piece_size()
        self.specials = (model.pad_id(), model.bos_id(), model.eos_id(), model.unk_id())
        self.language = language
        self.needs_language = needs_language
        self._by_language: dict[str, Subwords] = {}

    def __reduce__(self) -> tuple[type["Subwords"], tuple[bytes, str | None, bool]]:
        return Subwords, (self.proto, self.language, self.needs_language)

    def to(self, language: str) -> "Subwords":
        """Return the same model whose texts begin with the tag of a language; raise ValueError if it has no such tag.

        A model of one language, with or without a tag, is returned unchanged.
        """
        if len(self.tags) < 2:
            return self
        if language not in self.tags:
            known = ", ".join(self.tags)
            raise ValueError(f"the vocabulary has no tag for the language {language!r}: choose one of {known}")
        if language not in self._by_language:
            self._by_language[language] = Subwords(self.proto, language)
        return self._by_language[language]

    @property
    def dtype(self) -> type[np.uint16] | type[np.int32]:
        """The data type of ids: uint16 for up to 65,536 pieces, else int32."""
        return np.uint16 if self.size <= 1 << 16 else np.int32

    @property
    def sha256(self) -> str:
        """The SHA-256 of the serialised SentencePiece model."""
        return hashlib.sha256(self.proto).hexdigest()

    def encode(self, texts: list[str]) -> Ragged:
        """Return the ids of each text, with EOS at the end."""
        parts = []
        for first in range(0, len(texts), SENTENCES_PER_CALL):
            rows = self._encode(texts[first : first + SENTENCES_PER_CALL], first)
            parts.append(np.fromiter(chain.from_iterable(rows), self.dtype))
        ids: Ids = np.concatenate([np.empty(0, self.dtype), *parts])
        ends = np.flatnonzero(ids == self._processor.eos_id()) + 1  # EOS stands at ends only: text never becomes it
        return self._with_prefix(Ragged(ids, np.append(np.int64(0), ends)))

    def _with_prefix(self, rows: Ragged) -> Ragged:
        """Return the rows with the language tag first, if there is one; rows of empty texts stay as they are."""
        if not self.prefix:
            return rows
        is_filled = rows.lengths > 1
        ids = np.insert(rows.ids, rows.offsets[:-1][is_filled], self.prefix[0])
        return Ragged(cast("Ids", ids), rows.offsets + np.append(0, np.cumsum(is_filled)))

    @property
    def can_sample(self) -> bool:
        """True if segmentations can be sampled: the vocabulary has bytes, which imported ones have not."""
        return bool((self.byte_values >= 0).any())

    def sample(self, texts: list[str], rate: float, key: tuple[int, ...]) -> Ragged:
        """Encode texts with randomly sampled segmentations; the same texts, rate and key give the same ids.

        `rate` is the probability of dropping a merge (BPE-dropout) or, for a unigram model, the exponent of the
        probabilities (1: unchanged, 0: uniform). `key`, such as (seed, batch, side), seeds the sampling, with the same
        result in every process.
        """
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"subword sampling rate {rate} is out of range: give a number between 0 and 1")
        if not self.can_sample:
            raise ValueError("an imported vocabulary has no subword sampling: set training.subword_sampling to 0")
        for number, text in enumerate(texts):
            encode_utf8(text, number)
        name = " ".join(str(int(part)) for part in key)  # numpy's whole numbers name the same draw as Python's
        random = np.random.Philox(key=int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big"))
        pieces, sampler = self._sampler
        characters = split_characters(texts)
        return self._with_prefix(pieces.rows(characters, sampler.segment(characters, rate, random), self.dtype))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character span (start, end) of each id that `encode` returns, including a leading space.

        All byte pieces of a character have the span of this character. Pieces without characters, such as EOS and the
        space that SentencePiece adds before the text, have empty spans.
        """
        mapped = self._processor.encode(encode_utf8(text, 0).decode(), return_type="offset_mapping")
        spans = [(len(text), len(text))]
        for token, span in zip(reversed(mapped["ids"]), reversed(mapped["offsets"]), strict=True):
            inside = self._processor.is_byte(token) and span[0] == span[1]
            spans.append(spans[-1] if inside else tuple(span))
        if len(spans) > 1:
            spans += [(0, 0)] * len(self.prefix)
        return spans[::-1]

    def decode(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """Return the text of token ids without special ids; invalid byte sequences become U+FFFD."""
        known = [self._known(int(token)) for token in ids]
        return str(self._processor.decode([token for token in known if token not in self.specials]))

    def piece(self, token: int) -> str:
        """Return the SentencePiece piece with this id; "▁" is a space, and "<0x41>" is a byte."""
        return self.pieces[self._known(token)]

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The SentencePiece pieces in the order of their ids."""
        return tuple(self._processor.id_to_piece(list(range(self.size))))

    @cached_property
    def tags(self) -> dict[str, int]:
        """The id of the tag of each language, such as >>fr<< for fr: the CONTROL pieces beside the special ids."""
        control = np.flatnonzero(self._processor.is_control(list(range(self.size)))).tolist()
        tokens = [token for token in control if token not in self.specials]
        return {_LANGUAGE.sub(r"\1", self.piece(token)): token for token in tokens}

    @cached_property
    def prefix(self) -> tuple[int, ...]:
        """The id that begins every encoded text, the tag of the chosen or the only language; else none."""
        if self.language is not None:
            return (self.tags[self.language],)
        if self.needs_language:
            raise ValueError(f"no target language is chosen: choose one of {', '.join(self.tags)}")
        return tuple(self.tags.values()) if len(self.tags) == 1 else ()

    @cached_property
    def byte_values(self) -> NDArray[np.int16]:
        """The byte that each id stands for; -1 for ids of other pieces."""
        are_bytes = self._processor.is_byte(list(range(self.size)))
        values = [int(piece[3:5], 16) if is_byte else -1 for piece, is_byte in zip(self.pieces, are_bytes, strict=True)]
        return np.array(values, np.int16)

    @cached_property
    def covers_script(self) -> bool:
        """True if the vocabulary has pieces for the characters of a script, so that ordinary text has few bytes."""
        return sum(len(piece) == 1 for piece in self._spelled) >= _FEWEST_CHARACTERS

    @cached_property
    def separates_words(self) -> bool:
        """True if the pieces show that the language has spaces between words."""
        num_words = sum(piece.startswith("▁") for piece in self._spelled)
        return num_words >= _WORD_SHARE * max(1, len(self._spelled))

    @property
    def _spelled(self) -> list[str]:
        """The pieces that are neither special, nor tags, nor bytes."""
        others = {*self.specials, *self.tags.values()}
        ids = np.flatnonzero(self.byte_values < 0).tolist()
        return [self.pieces[token] for token in ids if token not in others]

    @cached_property
    def _sampler(self) -> tuple[Pieces, BPEDropout | UnigramSampling]:
        """The pieces and the subword sampler, created on first access."""
        pieces = Pieces.of(self._processor)
        ranks = pieces.scores[list(pieces.spelled.values())]
        is_bpe = bool((ranks == -np.arange(len(ranks))).all())  # the score of a merge is its rank, not a probability
        return pieces, BPEDropout.of(pieces) if is_bpe else UnigramSampling.of(pieces)

    def _known(self, token: int) -> int:
        if not 0 <= token < self.size:
            raise ValueError(f"id {token} is not in the vocabulary: give ids from 0 to {self.size - 1}")
        return token

    def _encode(self, texts: list[str], first: int) -> list[list[int]]:
        encode = self._processor.encode
        try:
            if len(texts) <= _FEW_SENTENCES:
                return [encode(text, add_eos=True) for text in texts]
            rows: list[list[int]] = encode(texts, num_threads=1, add_eos=True)
        except (TypeError, RuntimeError):
            for number, text in enumerate(texts, first):
                encode_utf8(text, number)
            raise
        return rows


def encode_utf8(text: str, number: int) -> bytes:
    """Return a sentence as UTF-8; for a lone surrogate, raise ValueError with the sentence `number`."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        wrong = f"has the lone surrogate U+{ord(text[error.start]):04X}, half of a character"
        fix = "remove the surrogate, or decode the text with errors='replace'"
        raise ValueError(f"sentence {number} (from 0) {wrong}: {fix}") from error
