"""Settings of a service: addresses, keys, engines, and the limits that protect users from each other."""

import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

from pydantic import Field

from dragoman.config import Config
from dragoman.decoding.checks import check_choice
from dragoman.decoding.options import Compute
from dragoman.device import AUTO, check_device, choose_ctranslate2_device
from dragoman.io.processes import num_cores
from dragoman.serving.keys import ApiKey

REDIS_SCHEMES: Final = ("redis", "rediss", "unix")

LogEvent = Callable[..., None]
"""A function that writes an event and its fields to the log."""


class Limits(Config):
    """Limits on request sizes, waiting times and connections; `--limit NAME=VALUE` changes a limit."""

    body_bytes: int = Field(1 << 20, ge=1024, description="bytes per request body")
    texts: int = Field(256, ge=1, description="texts per request")
    characters: int = Field(20_000, ge=1, description="characters per request, summed over its texts")
    sentence_tokens: int = Field(512, ge=1, description="tokens per sentence, counted by the model's vocabulary")
    beam_size: int = Field(10, ge=1, description="largest beam size of a request")
    num_best: int = Field(10, ge=1, description="largest number of translations per sentence")
    glossary_terms: int = Field(500, ge=1, description="terms in the glossary of a request")
    stored_glossaries: int = Field(100, ge=1, description="glossaries that a key may store in memory")
    stored_terms: int = Field(10_000, ge=1, description="terms in all stored glossaries of a key")
    file_bytes: int = Field(10 << 20, ge=1024, description="bytes per file of /translate_file")
    file_markup_bytes: int = Field(
        1 << 20, ge=1024, description="bytes of a file of text, or of XML in a Word document"
    )
    file_characters: int = Field(200_000, ge=1, description="characters per file of /translate_file")
    stored_file_bytes: int = Field(64 << 20, ge=1, description="bytes of all translated files that wait for download")
    stored_file_seconds: float = Field(600.0, gt=0, description="seconds to keep a translated file for its download")
    wait: float = Field(0.5, gt=0, description="seconds in the queue; at least 5 times the time of one sentence")
    seconds: float = Field(30.0, gt=0, description="seconds per request; a longer request is rejected")
    header_seconds: float = Field(5.0, gt=0, description="seconds to receive the headers of a request")
    body_seconds: float = Field(8.0, gt=0, description="seconds to receive the body of a request")
    idle_seconds: float = Field(20.0, gt=0, description="seconds an idle connection is kept open")
    connections: int = Field(2_000, ge=1, description="simultaneous connections; others get HTTP 503")
    engine_seconds: float = Field(60.0, gt=0, description="seconds per batch before the engine is replaced")
    drain_seconds: float = Field(5.0, ge=0, description="seconds to accept requests after SIGTERM")
    merge_ms: float = Field(3.0, ge=0, description="minimum milliseconds that a batch waits for more sentences")
    batch_tokens: int = Field(256, ge=1, description="source tokens per batch; 1 disables batching")


@dataclass(frozen=True)
class ServiceConfig:
    """The settings of `dragoman serve`."""

    models: Mapping[str, Path]
    """The bundle folder of each model, by model name."""
    host: str = "127.0.0.1"
    port: int = 5000
    keys: Sequence[ApiKey] | None = None
    keys_file: Path | None = None
    """The file of the keys, which SIGHUP reads again."""
    engines: int | None = None
    threads: int = 1
    compute: str = "float32"
    device: str = AUTO
    origins: Sequence[str] = ()
    glossaries: Mapping[str, Path] = field(default_factory=dict)
    """The files of glossaries, by the names that requests give."""
    quotas: str | None = None
    """The address of the Redis in which several services count the usage of keys together."""
    limits: Limits = field(default_factory=Limits)

    @property
    def num_engines(self) -> int:
        """The number of engine processes; by default, the number of cores divided by `threads`.

        On GPUs, one process computes on all devices.
        """
        if self.engines:
            return self.engines
        return max(1, num_cores() // self.threads) if choose_ctranslate2_device(self.device).is_cpu else 1

    def engine_argument(self) -> str:
        """Return the JSON argument of the engine process: model folders, threads, compute type and device."""
        models = {name: str(folder) for name, folder in self.models.items()}
        settings = {"threads": self.threads, "compute": self.compute, "device": self.device}
        return json.dumps({"models": models, **settings})

    def check(self) -> None:
        """Raise ValueError for a public address without keys, an unknown compute type or an invalid origin."""
        check_choice("--compute", self.compute, get_args(Compute))
        check_device(self.device, "--device")
        choose_ctranslate2_device(self.device)
        if self.keys is None and not is_loopback(self.host):
            fix = "run dragoman key NAME --keys keys.yaml and add --keys keys.yaml, or give --host 127.0.0.1"
            raise ValueError(f"{self.host} can be reached from other machines, so keys are required: {fix}")
        if self.quotas is not None:
            check_address(self.quotas)
            if self.keys is None:
                raise ValueError("--quotas needs keys, which have the quotas: add --keys FILE")
        for origin in self.origins:
            if "*" in origin or not origin.startswith(("http://", "https://")):
                raise ValueError(f"--allow-origin {origin} is invalid: give the full origin, as in https://a.org")


def is_loopback(host: str) -> bool:
    """Return True if the address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(url: str) -> None:
    """Raise ValueError for an address that is not one of Redis, or if its package is not installed."""
    if urlsplit(url).scheme not in REDIS_SCHEMES:
        raise ValueError(f"--quotas {describe_place(url)}: give the address of Redis, as in redis://10.0.0.5:6379/0")
    try:
        import redis  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("--quotas needs a package that is not installed: pip install 'dragoman[redis]'") from None


def describe_place(url: str) -> str:
    """Return an address without its password, for messages and the log."""
    return f"{urlsplit(url).scheme}://{urlsplit(url).netloc.rpartition('@')[2]}{urlsplit(url).path}"
