"""Quotas that several services share: the usage of each API key is counted in Redis, by scripts that run there whole.

If Redis cannot be reached while the service runs, each service counts for itself until it can.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from dragoman.serving.config import LogEvent, describe_place
from dragoman.serving.errors import ExhaustedQuotaError, QuotaError
from dragoman.serving.keys import DAY_SECONDS, ApiKey, KeyUsage

PREFIX: Final = "dragoman:usage:"
"""Prefix of the names in Redis: one hash per API key, with the fields of KeyUsage."""
TIMEOUT_SECONDS: Final = 0.5
"""Seconds that a request waits for Redis before the service counts for itself."""
CONNECTIONS: Final = 16
"""Connections to Redis at a time; one does thousands of requests per second."""
RETRY_SECONDS: Final = 5.0
"""Seconds after a failure without a request to Redis, so that not every request waits for it."""

_READ: Final = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local day = math.floor(now / 86400)
local stored = redis.call('HMGET', KEYS[1], 'left', 'at', 'characters', 'day')
local characters = tonumber(stored[4]) == day and tonumber(stored[3]) or 0
"""
_COUNT: Final = (
    _READ
    + """
local requests, most, new = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left = tonumber(stored[1]) or requests
if requests > 0 then
  left = math.min(requests, left + math.max(0, now - (tonumber(stored[2]) or now)) * requests / 60)
  if left < 1 then return {'requests', string.format('%.6f', (1 - left) * 60 / requests)} end
  left = left - 1
end
if most > 0 and new > most - characters then return {'characters', string.format('%d', most - characters)} end
redis.call('HSET', KEYS[1], 'left', string.format('%.9f', left), 'at', string.format('%.6f', now),
  'characters', string.format('%d', characters + new), 'day', string.format('%d', day))
redis.call('EXPIRE', KEYS[1], 172800)
return {'counted', '0'}
"""
)
_TAKE_BACK: Final = (
    _READ
    + """
if not stored[1] then return 0 end
redis.call('HSET', KEYS[1], 'left', string.format('%.9f', tonumber(stored[1]) + tonumber(ARGV[2])),
  'characters', string.format('%d', math.max(0, characters - tonumber(ARGV[1]))), 'day', string.format('%d', day))
return 1
"""
)


class SharedQuotas:
    """The usage of API keys in Redis."""

    def __init__(self, url: str, log: LogEvent) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError as LostConnectionError

        timeouts: dict[str, Any] = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
        retry = Retry(NoBackoff(), 1, supported_errors=(LostConnectionError,))  # not timeouts: they may have counted
        pool = BlockingConnectionPool.from_url(
            url, max_connections=CONNECTIONS, timeout=TIMEOUT_SECONDS, retry=retry, **timeouts
        )
        self._redis: Any = Redis.from_pool(pool)
        self._count: Callable[..., Awaitable[Any]] = self._redis.register_script(_COUNT)
        self._take_back: Callable[..., Awaitable[Any]] = self._redis.register_script(_TAKE_BACK)
        self._place, self._log = describe_place(url), log
        self._retry_at = 0.0
        self.is_reached = True
        """False while the service counts for itself."""

    async def connect(self) -> None:
        """Raise ValueError if Redis cannot be reached."""
        from redis.exceptions import RedisError

        try:
            async with asyncio.timeout(10 * TIMEOUT_SECONDS):
                await self._take_back(keys=[PREFIX], args=[0, 0])
        except (RedisError, OSError) as error:  # a TimeoutError is an OSError
            reason = str(error) or type(error).__name__
            raise ValueError(f"--quotas {self._place}: Redis cannot be used ({reason}): start it there") from None

    async def close(self) -> None:
        await self._redis.aclose()

    async def count(self, usage: KeyUsage, characters: int) -> bool:
        """Count a request; raise QuotaError, and count nothing, if it exceeds a quota of the key.

        Return False if Redis cannot be reached, so that this service counted for itself.
        """
        key = usage.key
        arguments = [key.requests_per_minute or 0, key.characters_per_day or 0, characters]
        answer = await self._run(self._count, key, arguments)
        if answer is None:
            usage.count(characters)
            return False
        what, value = (part.decode() for part in answer)
        if what == "requests":
            raise QuotaError(f"over {key.requests_per_minute:,} requests per minute: wait", float(value))
        if what == "characters":
            left = f"send up to {max(0, int(value)):,} more today"
            raise ExhaustedQuotaError(f"over {key.characters_per_day:,} characters per day: {left}", 3600.0)
        return True

    async def take_back(self, usage: KeyUsage, characters: int, requests: int) -> None:
        """Take back what was counted in Redis."""
        await self._run(self._take_back, usage.key, [characters, requests])

    async def characters_today(self, usage: KeyUsage) -> int:
        """Return the characters of the current day."""

        async def read(keys: list[str], args: list[str]) -> Any:
            return await self._redis.hmget(keys[0], args)

        found = await self._run(read, usage.key, ["characters", "day"])
        if found is None:
            return usage.characters_today
        characters, day = (int(value or 0) for value in found)
        return characters if day == time.time() // DAY_SECONDS else 0

    async def _run(self, script: Callable[..., Awaitable[Any]], key: ApiKey, arguments: Sequence[object]) -> Any:
        """Return the answer of a script, or None if Redis cannot be reached."""
        from redis.exceptions import RedisError

        if time.monotonic() < self._retry_at:
            return None
        try:
            answer = await script(keys=[f"{PREFIX}{key.name}"], args=arguments)
        except (RedisError, OSError) as error:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            if self.is_reached:
                reason = f"{type(error).__name__}: this service counts for itself until Redis answers"
                self._log("quotas lost", level="error", redis=self._place, reason=reason)
            self.is_reached = False
            return None
        if not self.is_reached:
            self.is_reached = True
            self._log("quotas shared again", redis=self._place)
        return answer
