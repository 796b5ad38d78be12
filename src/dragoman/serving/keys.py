"""Who may ask, and how much: a file with the hash of every key, and what each may use."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml
from pydantic import Field, ValidationError

from dragoman.config import Config
from dragoman.serving.refusal import LimitedError, UnknownKeyError

PREFIX: Final = "dgm_"
"""How our keys begin, so that one in the wrong place is recognised."""


class Key(Config):
    """One user of the service. The key itself is written nowhere: it is random, so its hash tells nothing of it."""

    name: str = Field(pattern=r"^[\w.-]{1,64}$", description="for the log and the metrics")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="of the key")
    requests_per_minute: int | None = Field(None, ge=1, description="none: no limit")
    characters_per_day: int | None = Field(None, ge=1, description="from midnight to midnight, UTC; none: no limit")


def new_key() -> tuple[str, str]:
    """A key and its hash."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def add_key(name: str, file: Path, requests_per_minute: int | None, characters_per_day: int | None) -> str:
    """Write a new key's hash to the file, which nobody else may read, and give the key."""
    keys = _read(file) if file.exists() else []
    if any(key.name == name for key in keys):
        raise ValueError(f"{file}: there is a key of {name} already; delete its entry first, or give another name")
    key, sha256 = new_key()
    try:
        made = Key(
            name=name, sha256=sha256, requests_per_minute=requests_per_minute, characters_per_day=characters_per_day
        )
    except ValidationError:
        raise ValueError(f"{name!r}: a name has up to 64 letters, digits, dots, dashes and underscores") from None
    entries = [one.model_dump(exclude_none=True) for one in (*keys, made)]
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    return key


def read_keys(file: Path) -> list[Key]:
    """The file's keys; ValueError says what is wrong with it."""
    keys = _read(file) if file.exists() else []
    if not keys:
        raise ValueError(f"{file}: no keys; make one with: dragoman key NAME --file {file}")
    return keys


def _read(file: Path) -> list[Key]:
    """None, where the last one was taken back."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except Exception as error:  # PyYAML hands on whatever a tag's conversion raises: !!int '' is an IndexError
        raise ValueError(f"{file}: {' '.join(str(error).split()) or type(error).__name__}") from error
    if content is None:
        return []
    if not isinstance(content, list):
        raise ValueError(f"{file}: not a list of keys; make one with: dragoman key NAME --file ANOTHER-FILE")
    try:
        keys = [Key.model_validate(one) for one in content]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{file}: {place + ': ' if place else ''}{first['msg']}") from error
    names = [key.name for key in keys]
    if len(set(names)) < len(names):
        raise ValueError(f"{file}: two keys have the same name")
    return keys


class Usage:
    """What one key has used: a bucket that fills with time, and a day's characters."""

    def __init__(self, key: Key, clock: Callable[[], float], today: Callable[[], str]) -> None:
        self.key = key
        self._clock = clock
        self._today = today
        self._left = float(key.requests_per_minute or 0)
        self._since = clock()
        self._day = ""
        self._characters = 0

    def count(self, characters: int) -> None:
        """One more request; LimitedError, if that is too many."""
        self._count_request()
        most = self.key.characters_per_day
        if most is not None:
            if self._day != self._today():
                self._day, self._characters = self._today(), 0
            left = most - self._characters
            if characters > left:
                raise LimitedError(f"{characters:,} characters: of {most:,} a day, {left:,} are left today", 3600.0)
            self._characters += characters

    def _count_request(self) -> None:
        most = self.key.requests_per_minute
        if most is None:
            return
        now = self._clock()
        self._left = min(float(most), self._left + (now - self._since) * most / 60)
        self._since = now
        if self._left < 1:
            raise LimitedError(f"{most:,} requests a minute are allowed", (1 - self._left) * 60 / most)
        self._left -= 1


class Keys:
    """Those of a file, or None at all, where anybody may ask."""

    def __init__(
        self,
        keys: list[Key] | None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], str] = lambda: datetime.now(UTC).date().isoformat(),
    ) -> None:
        self.needed = keys is not None
        self._usages = [(key.sha256.encode(), Usage(key, clock, today)) for key in keys or []]

    def of(self, given: str | None) -> Usage | None:
        """Whose key this is. Every hash is compared, in the same time whether it is the first, the last or none."""
        if not self.needed:
            return None
        if not given:
            raise UnknownKeyError("send a key, as Authorization: Bearer KEY, as X-API-Key or as api_key")
        digest = hashlib.sha256(given.encode(errors="replace")).hexdigest().encode()
        found = None
        for sha256, usage in self._usages:
            if hmac.compare_digest(sha256, digest):
                found = usage
        if found is None:
            raise UnknownKeyError("this key is not known here")
        return found
