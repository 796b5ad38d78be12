"""What the HTTP process and an engine process tell each other: JSON objects, each after its length, over a socket."""

import asyncio
import json
import socket
from typing import Any, Final

_LENGTH: Final = 4


def packed(message: dict[str, Any]) -> bytes:
    """As it goes over the wire."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return len(body).to_bytes(_LENGTH, "big") + body


async def received(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None when the other side is gone, or talks nonsense, which is no better."""
    try:
        body = await reader.readexactly(int.from_bytes(await reader.readexactly(_LENGTH), "big"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return _message(body)


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The same for a process without a loop."""
    head = _exactly(connection, _LENGTH)
    body = head and _exactly(connection, int.from_bytes(head, "big"))
    return _message(body) if body else None


def _message(body: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = connection.recv(min(size - len(parts), 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)
