"""Write a SentencePiece model whose ids are those of the imported model: special ids first, then its vocabulary.

A Marian model has a vocabulary of both sides and a SentencePiece model for each side, whose own ids are not used. Here
each side gets a SentencePiece model with all tokens of the vocabulary. Tokens of the other side are UNUSED pieces,
which no text becomes; language tags are CONTROL pieces, of which `Subwords.encode` puts one first. A character that
only the other side has is looked up in the vocabulary by Marian too, so it is a piece with the score of an unknown one.
(Of several such characters in a row Marian makes one unknown token; here each is a token.)

The protocol buffer is read and written here, as SentencePiece's Python module needs another package for it.
"""

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from dragoman.pretrained.marian_model import EOS_TOKEN, PAD_TOKEN, UNK_TOKEN, MarianVocabulary
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD, UNK

_NORMAL, _UNKNOWN, _CONTROL, _UNUSED, _BYTE = 1, 2, 3, 5, 6
"""The types of pieces."""

_PIECES, _TRAINER, _SELF_TEST = 1, 2, 4
"""The fields of a SentencePiece model."""

_MODEL_TYPE, _BYTE_FALLBACK = 3, 35
_UNIGRAM: Final = 1
_UNKNOWN_PENALTY: Final = 10.0
"""SentencePiece's score of an unknown character is this much below the lowest."""


@dataclass(frozen=True)
class Piece:
    """A piece of a SentencePiece model."""

    text: str
    score: float
    kind: int


def rewrite(vocabulary: MarianVocabulary, order: list[int | None], tags: Collection[str]) -> bytes:
    """Return a SentencePiece model with our ids; `order` has the model's id of each of ours, None for BOS and PAD."""
    own, trainer, rest = _parse(vocabulary.proto)
    if trainer.get(_MODEL_TYPE, _UNIGRAM) != _UNIGRAM:
        raise ValueError("its SentencePiece model is not a unigram model: only unigram models can be imported")
    lacking = [one.text for one in own.values() if one.kind == _BYTE and one.text not in vocabulary.ids]
    if trainer.get(_BYTE_FALLBACK) and lacking:
        raise ValueError(f"its vocabulary lacks the byte {lacking[0]}: only whole byte vocabularies can be imported")
    lowest = min((one.score for one in own.values() if one.kind == _NORMAL), default=0.0)
    pieces = [
        Piece(PAD_TOKEN if vocabulary.pad is not None else _free_name(PAD_TOKEN, vocabulary.ids), 0.0, _CONTROL),
        Piece(_free_name("<s>", vocabulary.ids), 0.0, _CONTROL),
        Piece(EOS_TOKEN, 0.0, _CONTROL),
        Piece(UNK_TOKEN, 0.0, _UNKNOWN),
    ]
    for number in order[NUM_SPECIALS:]:
        assert number is not None
        token = vocabulary.tokens[number]
        if token in tags:
            pieces.append(Piece(token, 0.0, _CONTROL))
        elif token in own and own[token].kind not in (_CONTROL, _UNKNOWN):
            pieces.append(own[token])
        elif len(token) == 1:
            pieces.append(Piece(token, lowest - _UNKNOWN_PENALTY, _NORMAL))
        else:
            pieces.append(Piece(token, 0.0, _UNUSED))
    names = {45: pieces[UNK], 46: pieces[BOS], 47: pieces[EOS], 48: pieces[PAD]}
    numbers = {4: len(pieces), 40: UNK, 41: BOS, 42: EOS, 43: PAD}
    changes = b"".join(
        [_field(key, value) for key, value in numbers.items()]
        + [_field(key, piece.text.encode()) for key, piece in names.items()]
    )
    return b"".join([*map(_write_piece, pieces), rest, _field(_TRAINER, changes)])  # of a field the last value counts


def _free_name(name: str, taken: dict[str, int]) -> str:
    while name in taken:
        name = f"<{name}>"
    return name


def _parse(proto: bytes) -> tuple[dict[str, Piece], dict[int, int], bytes]:
    """Return the pieces by text, the numbers in the trainer's settings, and all other fields as they are."""
    pieces: dict[str, Piece] = {}
    trainer: dict[int, int] = {}
    rest = []
    for number, value in _fields(proto):
        if number == _PIECES and isinstance(value, bytes):
            piece = _read_piece(value)
            pieces[piece.text] = piece
        elif number != _SELF_TEST:  # sentences and their ids, which change
            if number == _TRAINER and isinstance(value, bytes):
                trainer |= {key: inner for key, inner in _fields(value) if isinstance(inner, int)}
            rest.append(_field(number, value))
    return pieces, trainer, b"".join(rest)


def _read_piece(message: bytes) -> Piece:
    values = dict(_fields(message))
    text, score, kind = values[1], values.get(2, 0.0), values.get(3, _NORMAL)
    assert isinstance(text, bytes)
    assert isinstance(kind, int)
    return Piece(text.decode(), float(score), kind)


def _write_piece(piece: Piece) -> bytes:
    return _field(
        _PIECES, _field(1, piece.text.encode()) + b"\x15" + struct.pack("<f", piece.score) + _field(3, piece.kind)
    )


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield the number and the value of every field of a protocol buffer message."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _read_varint(message, place)
            yield number, value
        elif kind == 5:
            yield number, struct.unpack_from("<f", message, place)[0]
            place += 4
        elif kind == 2:
            size, place = _read_varint(message, place)
            yield number, message[place : place + size]
            place += size
        else:
            raise ValueError("its SentencePiece model has an unknown format: only usual models can be imported")


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
