"""A client of the HTTP service, for programs that wait and for those that await. It needs httpx, and nothing of ours.

with Client("http://127.0.0.1:5000") as client:
    print(client.translate("Where is the station?").text)
"""

import asyncio
import json
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, NamedTuple, TypedDict, TypeVar, Unpack, cast

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"dragoman.client needs more than is installed: pip install 'dragoman[client]' ({error.name} is missing)",
        name=error.name,
    ) from None

T = TypeVar("T")

AT_HOME: Final = "http://127.0.0.1:5000"  # where `dragoman serve` listens, unless told otherwise
TIMEOUT_S: Final = 40.0  # the service gives up after 30, and should be the one to say so
CONNECT_S: Final = 5.0  # whoever is there takes a connection at once
PATIENCE_S: Final = 5.0


class ServiceError(Exception):
    """The service refused or failed, or there was none.

    `status` is that of HTTP, None where no answer came; `title` the kind of problem; `detail` what it was this time,
    and the mend; by `request_id` the service's log knows it; after `retry_after` seconds it may be tried again.
    """

    def __init__(
        self, status: int | None, title: str, detail: str, request_id: str | None, retry_after: float | None
    ) -> None:
        super().__init__(status, title, detail, request_id, retry_after)  # all of it, so that it can be pickled
        self.status, self.title, self.detail = status, title, detail
        self.request_id, self.retry_after = request_id, retry_after

    def __str__(self) -> str:
        status = "" if self.status is None else f"{self.status} "
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{status}{self.title}: {self.detail}{request}"


@dataclass(frozen=True)
class LengthPenalty:
    """What the log-probability of a translation is divided by; None leaves the model's own."""

    formula: Literal["gnmt", "length", "none"] | None = None
    alpha: float | None = None


class Options(TypedDict, total=False):
    """What may be asked for beside the texts. What is left out, the service and its model decide."""

    model: str  # its name; or leave it out, and give languages
    source: str  # the language of the texts; auto: find out
    target: str  # the language wanted
    split: bool  # whether texts are cut into sentences, as they are unless told; without, each line is one
    protect: bool  # placeholders, tags, addresses and numbers come through as they are
    num_best: int  # how many translations of each sentence
    beam_size: int  # hypotheses kept at each step
    penalty: LengthPenalty
    prefix: str  # how the translation of a single sentence is to begin
    tokens: bool  # whether to give every token with its log-probability
    alignment: bool  # whether to say which words belong together


@dataclass(frozen=True)
class Model:
    """A model that is served."""

    name: str
    sha256: str
    source: str
    target: str
    title: str | None
    beam_size: int
    formula: str
    alpha: float
    aligns: bool
    compute: str


@dataclass(frozen=True)
class Which:
    """The model that translated: its name, and the hash that says which it was, to the last bit."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Token:
    """One token of a translation."""

    piece: str
    log_probability: float


@dataclass(frozen=True)
class Other:
    """One of several translations of a sentence."""

    text: str
    score: float
    log_probability: float


@dataclass(frozen=True)
class Sentence:
    """A sentence and its translation."""

    source: str
    text: str
    score: float
    log_probability: float
    confidence: float | None
    others: tuple[Other, ...] = ()
    tokens: tuple[Token, ...] | None = None
    alignment: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Translation:
    """A text's translation, laid out as the text was."""

    text: str
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Answer:
    """All translations, in the order of the texts."""

    model: Which
    translations: tuple[Translation, ...]
    detected: str | None = None  # the source language, where it was to be found out
    request_id: str | None = None

    @property
    def text(self) -> str:
        """The translation of the one text that was sent."""
        if len(self.translations) != 1:
            raise ValueError(f"there are {len(self.translations)} translations: take .texts")
        return self.translations[0].text

    @property
    def texts(self) -> list[str]:
        return [translation.text for translation in self.translations]


class _Send(NamedTuple):
    """Something to ask the service, and how many seconds to wait before."""

    method: str
    path: str
    content: str | None = None
    after: float = 0.0


Came = httpx.Response | httpx.RequestError
Steps = Generator[_Send, Came, T]
"""What a client does, apart from how it waits: gives what is to be sent, is told what came, returns the result."""


class Client:
    """Waits for the service.

    `key` is one that `dragoman key` has made. `timeout` is in seconds, for each wait for the service. A service that
    has too much to do says when to come again: if that is within `patience` seconds, it is asked once more. `transport`
    is httpx's, for proxies and certificates of your own.
    """

    def __init__(
        self,
        url: str = AT_HOME,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        patience: float = PATIENCE_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._patience = patience
        self._http = httpx.Client(transport=transport, **_settings(url, key, timeout))

    def translate(self, texts: str | Sequence[str], **options: Unpack[Options]) -> Answer:
        """One text, or several; ServiceError, if that could not be."""
        return self._do(_translated(texts, options, self._patience))

    def models(self) -> tuple[Model, ...]:
        """What is served."""
        return self._do(_listed(self._patience))

    def ready(self) -> bool:
        """Whether it is there and takes requests; no key is needed to know."""
        return self._do(_is_ready())

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, steps: Steps[T]) -> T:
        step = next(steps)
        try:
            while True:
                time.sleep(step.after)
                step = steps.send(self._came(step))
        except StopIteration as end:
            return cast("T", end.value)

    def _came(self, step: _Send) -> Came:
        try:
            return self._http.request(step.method, step.path, content=step.content)
        except httpx.RequestError as error:
            return error


class AsyncClient:
    """The same, awaited."""

    def __init__(
        self,
        url: str = AT_HOME,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        patience: float = PATIENCE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._patience = patience
        self._http = httpx.AsyncClient(transport=transport, **_settings(url, key, timeout))

    async def translate(self, texts: str | Sequence[str], **options: Unpack[Options]) -> Answer:
        """One text, or several; ServiceError, if that could not be."""
        return await self._do(_translated(texts, options, self._patience))

    async def models(self) -> tuple[Model, ...]:
        """What is served."""
        return await self._do(_listed(self._patience))

    async def ready(self) -> bool:
        """Whether it is there and takes requests; no key is needed to know."""
        return await self._do(_is_ready())

    async def close(self) -> None:
        """Let the connections go."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _do(self, steps: Steps[T]) -> T:
        step = next(steps)
        try:
            while True:
                await asyncio.sleep(step.after)
                step = steps.send(await self._came(step))
        except StopIteration as end:
            return cast("T", end.value)

    async def _came(self, step: _Send) -> Came:
        try:
            return await self._http.request(step.method, step.path, content=step.content)
        except httpx.RequestError as error:
            return error


def _settings(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    """Of httpx, whichever client it is."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url}: the address of a service begins with http:// or https://")
    headers = {"accept": "application/json", "content-type": "application/json", "user-agent": "dragoman-client"}
    if key is not None:
        headers["authorization"] = f"Bearer {key.strip()}"  # of a key read from a file, without its line's end
    return {"base_url": url, "headers": headers, "timeout": httpx.Timeout(timeout, connect=min(timeout, CONNECT_S))}


def _translated(texts: str | Sequence[str], options: Options, patience: float) -> Steps[Answer]:
    known = Options.__annotations__
    if unknown := options.keys() - known.keys():
        raise TypeError(f"no option is called {', '.join(sorted(unknown))}: there is {', '.join(known)}")
    asked: dict[str, Any] = {"texts": texts if isinstance(texts, str) else list(texts), **options}
    if "penalty" in asked:
        asked["penalty"] = asdict(asked["penalty"])
    # Escaped to ASCII: half a character, which UTF-8 cannot hold, reaches the service, which says what is wrong.
    came = yield from _asked(_Send("POST", "v1/translate", json.dumps(asked, allow_nan=False)), patience)
    return replace(_understood(came, _answer), request_id=came.headers.get("x-request-id"))


def _listed(patience: float) -> Steps[tuple[Model, ...]]:
    came = yield from _asked(_Send("GET", "v1/models"), patience)
    return _understood(came, lambda given: tuple(_made(Model, one) for one in given["models"]))


def _is_ready() -> Steps[bool]:
    came = yield _Send("GET", "health/ready")
    # 502 and 504 are a proxy's, for a service that is not there.
    if isinstance(came, httpx.RequestError) or came.status_code in (502, 503, 504):
        return False
    _accepted(came)
    return True


def _asked(send: _Send, patience: float) -> Steps[httpx.Response]:
    """The answer; after a refusal that is soon over, that to a second attempt."""
    came = yield send
    if isinstance(came, httpx.Response) and came.status_code in (429, 503):
        pause = _retry_after(came)
        if pause is not None and pause <= patience:
            came = yield send._replace(after=pause)
    return _accepted(came)


def _accepted(came: Came) -> httpx.Response:
    """Unless it is a refusal, or nothing."""
    if isinstance(came, httpx.RequestError):
        title = "No answer in time" if isinstance(came, httpx.TimeoutException) else "The service was not reached"
        raise ServiceError(None, title, str(came) or type(came).__name__, None, None) from came
    if came.status_code == httpx.codes.OK:
        return came
    said = _problem(came)
    raise ServiceError(
        came.status_code,
        str(said.get("title") or came.reason_phrase or "Refused"),
        str(said.get("detail") or said.get("error") or came.text[:200]),
        said.get("request_id") or came.headers.get("x-request-id"),
        _retry_after(came),
    )


def _problem(came: httpx.Response) -> dict[str, Any]:
    """What the service says of it; a proxy in between may say it in other words than JSON."""
    try:
        said = came.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _retry_after(came: httpx.Response) -> float | None:
    """In seconds; a proxy may say at what time instead."""
    given = came.headers.get("retry-after", "")
    if given.isdecimal():
        return float(given)
    try:
        then = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (then.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _understood(came: httpx.Response, read: Callable[[dict[str, Any]], T]) -> T:
    try:
        return read(came.json())
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        detail = f"{came.url} did not answer as dragoman serve does: {type(error).__name__}: {error}"
        raise ServiceError(came.status_code, "Not understood", detail, None, None) from error


def _answer(given: dict[str, Any]) -> Answer:
    translations = tuple(map(_translation, given["translations"]))
    return _made(Answer, given, model=_made(Which, given["model"]), translations=translations)


def _translation(given: dict[str, Any]) -> Translation:
    return _made(Translation, given, sentences=tuple(map(_sentence, given["sentences"])))


def _sentence(given: dict[str, Any]) -> Sentence:
    tokens, alignment = given.get("tokens"), given.get("alignment")
    return _made(
        Sentence,
        given,
        others=tuple(_made(Other, one) for one in given.get("others", ())),
        tokens=None if tokens is None else tuple(_made(Token, one) for one in tokens),
        alignment=None if alignment is None else tuple((source, target) for source, target in alignment),
    )


def _made(kind: Callable[..., T], given: dict[str, Any], **parts: Any) -> T:
    """A dataclass of what it has fields for: a later service may say more."""
    known = {field.name for field in fields(cast("Any", kind))}
    return kind(**{name: value for name, value in given.items() if name in known} | parts)
