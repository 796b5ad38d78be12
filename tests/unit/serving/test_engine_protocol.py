"""Messages between two processes: whole, in order, however the socket tears them; and the end is noticed."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.engine_protocol import MAX_LINE_BYTES, encode_message, read_message, receive_message

Message = dict[str, Any]
words = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
messages = st.lists(st.dictionaries(words, values, min_size=1, max_size=4), max_size=4)
cuts = st.lists(st.integers(1, 50), max_size=6)


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def torn(content: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Yield the content in chunks of these sizes, then the rest."""
    for size in sizes:
        yield content[:size]
        content = content[size:]
    yield content


def whole(connection: socket.socket) -> list[Message]:
    with connection.makefile("rb") as stream:
        return list(iter(lambda: receive_message(stream), None))


async def all_received(connection: socket.socket, sending: socket.socket, parts: Iterator[bytes]) -> list[Message]:
    """Read while the parts come in one by one, with a turn of the loop between them."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_LINE_BYTES)

    async def send() -> None:
        for part in parts:
            sending.sendall(part)
            await asyncio.sleep(0)
        sending.shutdown(socket.SHUT_WR)

    sender = asyncio.create_task(send())
    found = []
    while message := await read_message(reader):
        found.append(message)
    await sender
    writer.close()
    await writer.wait_closed()
    return found


@pytest.mark.slow
@given(messages, cuts)
def test_what_is_sent_arrives_whole_and_in_order_however_it_is_torn(sent: list[Message], sizes: list[int]) -> None:
    content = b"".join(map(encode_message, sent))
    with pair() as (ours, theirs):
        for part in torn(content, sizes):
            theirs.sendall(part)
        theirs.shutdown(socket.SHUT_WR)
        assert whole(ours) == sent
    with pair() as (ours, theirs):
        assert asyncio.run(all_received(ours, theirs, torn(content, sizes))) == sent


def test_a_message_larger_than_any_buffer_arrives() -> None:
    message = {"texts": ["grüne Häuser 🙂 " * 300_000]}
    with pair() as (ours, theirs):
        sender = threading.Thread(target=theirs.sendall, args=(encode_message(message),))
        sender.start()
        assert receive_message(ours.makefile("rb")) == message
        sender.join()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 17])
def test_half_a_message_is_none(size: int) -> None:
    content = encode_message({"batch": 1, "texts": ["a"]})
    assert size < len(content)
    with pair() as (ours, theirs):
        theirs.sendall(content[:size])
        theirs.close()
        assert receive_message(ours.makefile("rb")) is None
    with pair() as (ours, theirs):
        assert asyncio.run(all_received(ours, theirs, iter([content[:size]]))) == []


def broken_off(ours: socket.socket, theirs: socket.socket) -> None:
    """A peer that ends with something unread resets the connection."""
    ours.sendall(b"never read")
    theirs.sendall(encode_message({"a": 1})[:6])
    theirs.close()


def test_a_peer_that_breaks_off_is_gone_and_no_error() -> None:
    with pair() as (ours, theirs):
        broken_off(ours, theirs)
        assert receive_message(ours.makefile("rb")) is None
    with pair() as (ours, theirs):

        async def read() -> Message | None:
            reader, writer = await asyncio.open_connection(sock=ours)
            broken_off(ours, theirs)
            found = await read_message(reader)
            writer.close()
            return found

        assert asyncio.run(read()) is None


def test_half_a_character_cannot_be_sent() -> None:
    """`Service.check_texts` rejects such texts before."""
    with pytest.raises(UnicodeEncodeError):
        encode_message({"texts": ["\ud800"]})
