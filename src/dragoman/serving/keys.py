"""API keys and quotas: a YAML file with the name, hash and quotas of every key."""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import yaml
from pydantic import Field, ValidationError

from dragoman.config import Config, describe_first
from dragoman.serving.errors import ExhaustedQuotaError, QuotaError, UnknownKeyError

PREFIX: Final = "dgm_"
"""The prefix of every key, by which a leaked key can be recognised."""
WRONG_KEYS_PER_MINUTE: Final = 30
"""Wrong keys per minute and address that are answered with 401; more get 429. A right key is never affected."""
MAX_ADDRESSES: Final = 10_000
"""Addresses whose wrong keys are counted at a time."""
DAY_SECONDS: Final = 86400
"""Seconds per day; a day begins at midnight, UTC."""


class ApiKey(Config):
    """An API key's entry in the key file: its name, hash and quotas. The key itself is not stored."""

    name: str = Field(pattern=r"^[\w.-]{1,64}$", description="name of the key in the log")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the key")
    requests_per_minute: int | None = Field(None, ge=1, description="quota of requests per minute; null: no limit")
    characters_per_day: int | None = Field(None, ge=1, description="quota of characters per day (UTC); null: no limit")
    metrics: bool = Field(False, description="the key may read /metrics, where the names of all keys are")


def generate_key() -> tuple[str, str]:
    """Return a random key and its hash."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def add_key(
    name: str,
    file: Path,
    requests_per_minute: int | None = None,
    characters_per_day: int | None = None,
    metrics: bool = False,
) -> str:
    """Generate a key, append its entry to the file (created with mode 600), and return the key."""
    keys = _read(file) if file.exists() else []
    if any(key.name == name for key in keys):
        raise ValueError(f"{file}: there is already a key named {name}: delete this entry, or give another name")
    key, sha256 = generate_key()
    quotas = {"requests_per_minute": requests_per_minute, "characters_per_day": characters_per_day}
    try:
        keys.append(ApiKey.model_validate({"name": name, "sha256": sha256, **quotas, "metrics": metrics}))
    except ValidationError:
        raise ValueError(f"invalid name {name!r}: give up to 64 letters, digits, dots, dashes or underscores") from None
    file.touch(mode=0o600)
    entries = [key.model_dump(exclude_none=True, exclude_defaults=True) for key in keys]
    file.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    return key


def read_keys(file: Path) -> list[ApiKey]:
    """Return the API keys in a file; raise ValueError if the file is invalid or has no keys."""
    keys = _read(file) if file.exists() else []
    if not keys:
        raise ValueError(f"{file}: no keys: create a key with dragoman key NAME --keys {file}")
    return keys


def _read(file: Path) -> list[ApiKey]:
    """Return the API keys in a file; an empty file has no keys."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except Exception as error:  # PyYAML passes on any error of a tag's conversion: !!int '' is an IndexError
        raise ValueError(f"{file}: {' '.join(str(error).split()) or type(error).__name__}") from error
    if content is None:
        return []
    if not isinstance(content, list):
        raise ValueError(f"{file}: not a list of keys: create a new file with dragoman key NAME --keys FILE")
    keys = []
    for number, entry in enumerate(content, 1):
        try:
            keys.append(ApiKey.model_validate(entry))
        except ValidationError as error:
            raise ValueError(f"{file}, entry {number}: {describe_first(error.errors())}: fix this entry") from error
    names = [key.name for key in keys]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{file}: two keys are named {twice[0]}: rename or delete one of the keys")
    return keys


class KeyUsage:
    """The usage of an API key: a token bucket of requests, and the number of characters on the current day."""

    def __init__(self, key: ApiKey, clock: Callable[[], float]) -> None:
        self.key = key
        self._clock = clock
        self._requests_left, self._updated_at = float(key.requests_per_minute or 0), clock()
        self._characters, self._day = 0, 0.0

    @property
    def characters_today(self) -> int:
        """The characters of the current day."""
        return self._characters if self._day == self._clock() // DAY_SECONDS else 0

    def count(self, characters: int) -> None:
        """Count a request; raise QuotaError, and count nothing, if it exceeds a quota of the key."""
        now = self._clock()
        if self._day != now // DAY_SECONDS:
            self._characters, self._day = 0, now // DAY_SECONDS
        if quota := self.key.requests_per_minute:
            passed = max(0.0, now - self._updated_at)
            self._requests_left = min(float(quota), self._requests_left + passed * quota / 60)
            self._updated_at = now
            if self._requests_left < 1:
                raise QuotaError(f"over {quota:,} requests per minute: wait", (1 - self._requests_left) * 60 / quota)
        if quota := self.key.characters_per_day:
            left = quota - self._characters
            if characters > left:
                message = f"over {quota:,} characters per day: send up to {left:,} more today"
                raise ExhaustedQuotaError(message, 3600.0)
        self._requests_left -= 1
        self._characters += characters

    def take_back(self, characters: int, requests: int = 1) -> None:
        """Take back the count of a request that got no answer; on the next day, nothing is left to take back."""
        self._requests_left += requests
        self._characters = max(0, self._characters - characters)


class WrongKeys:
    """Counts the wrong keys that each address has sent in the current minute."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def count(self, address: str) -> None:
        """Count a wrong key; raise QuotaError if the address has sent too many."""
        now = self._clock()
        since, number = self._counts.pop(address, (now, 0))
        since, number = (since, number + 1) if now - since < 60 else (now, 1)
        self._counts[address] = since, number
        if len(self._counts) > MAX_ADDRESSES:
            self._counts.popitem(last=False)
        if number > WRONG_KEYS_PER_MINUTE:
            raise QuotaError("too many wrong API keys from this address: wait a minute", since + 60 - now)


class KeyRing:
    """The API keys of a service; `keys=None` disables authentication."""

    def __init__(self, keys: Sequence[ApiKey] | None, clock: Callable[[], float] = time.time) -> None:
        self.is_required = keys is not None
        self._clock, self._wrong_keys = clock, WrongKeys(clock)
        self._usages: list[tuple[bytes, KeyUsage]] = []
        self.replace(keys or ())

    def replace(self, keys: Sequence[ApiKey]) -> None:
        """Use other keys from now on; a key of the same name as before keeps its usage, with its new quotas."""
        before = {usage.key.name: usage for _, usage in self._usages}
        self._usages = []
        for key in keys:
            usage = before.get(key.name) or KeyUsage(key, self._clock)
            usage.key = key
            self._usages.append((key.sha256.encode(), usage))

    def find(self, key: str | None, address: str = "") -> KeyUsage | None:
        """Return the usage of a key, or None if no key is required; raise UnknownKeyError for an unknown key.

        After many unknown keys from the same address, raise QuotaError.
        The hash is compared with all stored hashes, in constant time.
        """
        if not self.is_required:
            return None
        if not key:
            raise UnknownKeyError("no API key: send a key as Authorization: Bearer KEY, X-API-Key: KEY or api_key")
        digest = hashlib.sha256(key.encode(errors="replace")).hexdigest().encode()
        matches = [usage for sha256, usage in self._usages if hmac.compare_digest(sha256, digest)]
        if not matches:
            self._wrong_keys.count(address)
            raise UnknownKeyError("unknown API key: check the key, or create another with dragoman key")
        return matches[-1]
