"""Messages between the HTTP process and the engine processes: JSON objects over a socket, one per line.

To an engine: `{batch, options, texts}`. From an engine: first `{models, warnings, seconds_alone, vocabularies}` or
`{failed}`, then a `{batch, answers}` for each batch, with one answer per text.
"""

import asyncio
import json
from io import BufferedIOBase
from typing import Any, Final, NamedTuple

MAX_BATCHES: Final = 2
"""Batches that an engine process handles at a time: CTranslate2 translates a batch while the next is tokenized."""
MAX_LINE_BYTES: Final = 1 << 30

Answer = dict[str, Any]
"""The answer to a sentence: `{hypotheses, num_tokens, kept}` with the requested tokens, alignment or terms, in the
shapes of `api_schemas`; or `{error, is_user_error}`."""


class TranslationOptions(NamedTuple):
    """The translation options of a sentence. Sentences with equal options can share a batch."""

    model: str
    sha256: str
    """Hash of the bundle: a request whose model is replaced meanwhile is still answered by the old model."""
    to: str | None = None
    """The target language, if the model translates into several."""
    beam_size: int | None = None
    num_best: int = 1
    protect: bool | None = None
    """Keep placeholders, addresses, ...; None: if the model's bundle says so."""
    tokens: bool = False
    """Return the log-probability of each token."""
    alignment: bool = False
    prefix: str = ""
    formula: str | None = None
    alpha: float | None = None
    """Strength of the length penalty; None is the model's default."""
    terms: tuple[tuple[str, str], ...] = ()
    """The source terms of the glossary that the sentence contains, with their target terms."""


def encode_message(message: dict[str, Any]) -> bytes:
    """Return a message as one line of JSON in UTF-8; raise UnicodeEncodeError for a lone surrogate."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message; None if the other process has ended or the line is not a JSON object."""
    try:
        return _decode(await reader.readline())
    except (ConnectionError, ValueError, RecursionError):  # reset, or no JSON, or a line above the reader's limit
        return None


def receive_message(stream: BufferedIOBase) -> dict[str, Any] | None:
    """Return the next message: the blocking version of `read_message`."""
    try:
        return _decode(stream.readline())
    except (ConnectionError, ValueError, RecursionError):
        return None


def _decode(line: bytes) -> dict[str, Any] | None:
    message = json.loads(line) if line.endswith(b"\n") else None
    return message if isinstance(message, dict) else None
