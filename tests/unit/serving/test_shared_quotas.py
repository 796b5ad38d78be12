"""Usage of API keys that several services count together, in a real Redis."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.serving import shared_quotas as module
from dragoman.serving.config import ServiceConfig
from dragoman.serving.errors import ExhaustedQuotaError, QuotaError
from dragoman.serving.keys import ApiKey, KeyUsage
from dragoman.serving.shared_quotas import SharedQuotas

sys.path.append(str(Path(__file__).parents[2] / "chaos"))
from redis_server import RedisServer, needs_redis, redis_server

pytestmark = needs_redis


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


class Node:
    """A service's view of the quotas of a key."""

    def __init__(self, server: RedisServer, **quotas: int) -> None:
        self.events: list[str] = []
        self.quotas = SharedQuotas(server.url, lambda event, **fields: self.events.append(event))
        self.usage = KeyUsage(ApiKey(name="shop", sha256="0" * 64, **quotas), lambda: 1000.0)

    async def ask(self, characters: int = 0) -> bool:
        try:
            await self.quotas.count(self.usage, characters)
        except QuotaError:
            return False
        return True


def run_with(work: Callable[..., Coroutine[Any, Any, None]], server: RedisServer, **quotas: int) -> None:
    """Run the work with two services."""

    async def run() -> None:
        one, other = Node(server, **quotas), Node(server, **quotas)
        await work(one, other)
        await one.quotas.close()
        await other.quotas.close()

    asyncio.run(run())


def test_two_services_share_the_characters_of_a_day_exactly(server: RedisServer) -> None:
    async def work(one: Node, other: Node) -> None:
        answers = await asyncio.gather(*(node.ask(7) for _ in range(100) for node in (one, other)))
        assert sum(answers) == 1000 // 7
        assert await one.quotas.characters_today(other.usage) == 994
        with pytest.raises(ExhaustedQuotaError, match="send up to 6 more today"):
            await one.quotas.count(one.usage, 7)
        assert [await other.ask(6), await one.ask(1)] == [True, False]

    run_with(work, server, characters_per_day=1000)


def test_two_services_share_the_requests_of_a_minute(server: RedisServer) -> None:
    async def work(one: Node, other: Node) -> None:
        answers = await asyncio.gather(*(node.ask() for _ in range(20) for node in (one, other)))
        assert sum(answers) in (6, 7)  # one comes back within ten seconds
        while await other.ask():
            pass
        with pytest.raises(QuotaError, match="over 6 requests per minute") as refused:
            await other.quotas.count(other.usage, 0)
        assert refused.value.retry_after is not None
        assert 0 < refused.value.retry_after <= 10

    run_with(work, server, requests_per_minute=6)


def test_what_got_no_answer_is_taken_back(server: RedisServer) -> None:
    async def work(one: Node, other: Node) -> None:
        assert await one.quotas.count(one.usage, 10)
        assert not await other.ask(1)
        await one.quotas.take_back(one.usage, 10, requests=1)
        assert [await other.ask(5), await one.ask(5), await one.ask(0)] == [True, True, False]

    run_with(work, server, characters_per_day=10, requests_per_minute=2)


def test_a_key_without_quotas_is_counted_and_never_refused(server: RedisServer) -> None:
    async def work(one: Node, other: Node) -> None:
        assert await one.quotas.characters_today(one.usage) == 0
        assert all([await node.ask(10**9) for _ in range(20) for node in (one, other)])
        assert await one.quotas.characters_today(one.usage) == 40 * 10**9

    run_with(work, server)


def test_without_redis_each_service_counts_for_itself_until_it_is_back(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)

    async def work(one: Node, other: Node) -> None:
        assert await one.ask(8)
        server.stop()
        assert [await one.ask(8), await one.ask(8), await other.ask(8)] == [True, False, True]
        assert (one.events, one.quotas.is_reached) == (["quotas lost"], False)
        server.start()  # it has forgotten all
        assert [await one.ask(8), await other.ask(8)] == [True, False]
        assert (one.events, one.quotas.is_reached) == (["quotas lost", "quotas shared again"], True)

    run_with(work, server, characters_per_day=10)


def test_a_lost_redis_is_not_asked_for_every_request(server: RedisServer) -> None:
    async def work(one: Node, other: Node) -> None:
        server.stop()
        assert await one.ask(1)
        server.start()
        assert await one.ask(1)  # within RETRY_SECONDS
        assert not one.quotas.is_reached

    run_with(work, server, characters_per_day=10)


def test_redis_must_be_reached_at_the_start(server: RedisServer) -> None:
    async def work(one: Node, other: Node) -> None:
        await one.quotas.connect()
        server.stop()
        with pytest.raises(ValueError, match=f"--quotas redis://127.0.0.1:{server.port}/0: Redis cannot be used"):
            await other.quotas.connect()

    run_with(work, server)


KEYS: list[ApiKey] = [ApiKey(name="shop", sha256="0" * 64)]


@pytest.mark.parametrize(
    ("url", "keys", "wrong"),
    [
        ("http://user:secret@host/0", KEYS, r"--quotas http://host/0: give the address of Redis"),
        ("redis://host/0", None, "--quotas needs keys"),
    ],
)
def test_settings_that_make_no_sense_are_refused_without_the_password(url: str, keys: Any, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        ServiceConfig({}, quotas=url, keys=keys).check()
