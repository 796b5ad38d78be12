"""Texts as one array of characters, cut into words, and symbols over them turned back into rows of ids.

SentencePiece's own sampling cannot be repeated: a seed that gives one draw in this process gives another in the next
(0.2.2). So the two samplers beside this file draw for themselves, for all words of a batch at once.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.data.ragged import Ids, Ragged

Integers = NDArray[np.int64]
SPACE: Final = 0x2581
"""SentencePiece writes "▁" for a space, and one before the text. A piece has it only at its front: it starts a word."""


class Characters(NamedTuple):
    """The characters of some texts, end to end, each text with a space before it."""

    code: Integers
    text: Integers
    """Which text each character is of."""
    word: Integers
    """Which word, counted through all the texts."""
    num_texts: int


class Segments(NamedTuple):
    """A segmentation: the symbols over the characters, from left to right."""

    start: Integers
    """The character at which each symbol starts."""
    token: Integers
    """Its id, or -1 for a character that has none."""


def characters(texts: list[str]) -> Characters:
    """Spells the texts. An empty one has no characters."""
    lengths = np.array([len(text) + 1 if text else 0 for text in texts], np.int64)
    joined = "".join(f"▁{text}" for text in texts if text)
    code = np.frombuffer(joined.encode("utf-32-le"), np.uint32).astype(np.int64)
    code[code == ord(" ")] = SPACE
    return Characters(code, np.repeat(np.arange(len(texts)), lengths), np.cumsum(code == SPACE) - 1, len(texts))


@dataclass(frozen=True)
class Pieces:
    """The ordinary pieces of a model: what each spells, its id and its score."""

    spelled: dict[str, int]
    scores: NDArray[np.float64]
    """By id."""
    bytes: Integers
    """The id of each byte."""
    eos: int

    @staticmethod
    def of(processor: sentencepiece.SentencePieceProcessor) -> "Pieces":
        """Reads them from a model."""
        tokens = range(processor.get_piece_size())
        special = {t for t in tokens if processor.is_control(t) or processor.is_unknown(t) or processor.is_byte(t)}
        spelled = {processor.id_to_piece(token): token for token in tokens if token not in special}
        assert not any("▁" in piece[1:] for piece in spelled), "a piece crosses words"
        scores = np.array([processor.get_score(token) for token in tokens])
        first_byte = processor.piece_to_id("<0x00>")
        return Pieces(spelled, scores, np.arange(first_byte, first_byte + 256), processor.eos_id())

    def rows(self, characters: Characters, segments: Segments, dtype: type[np.uint16] | type[np.int32]) -> Ragged:
        """The ids of each text, unknown characters spelled in bytes, with EOS at its end."""
        unknown = segments.token < 0
        code = characters.code[segments.start[unknown]]
        width = np.ones(len(segments.token), np.int64)
        width[unknown] = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)  # of UTF-8
        token = np.repeat(segments.token, width)
        spelled = code.astype(np.uint32).tobytes().decode("utf-32-le").encode()
        token[token < 0] = self.bytes[np.frombuffer(spelled, np.uint8)]
        text = np.repeat(characters.text[segments.start], width)
        ends = np.cumsum(np.bincount(text, minlength=characters.num_texts) + 1)
        ids = np.full(len(token) + characters.num_texts, self.eos, dtype)
        ids[np.arange(len(token)) + text] = token
        return Ragged(cast("Ids", ids), np.append(np.int64(0), ends))
