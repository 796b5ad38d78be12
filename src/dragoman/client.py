"""A synchronous and an asynchronous client for `dragoman serve`; both require httpx.

with Client("http://127.0.0.1:5000") as client:
    print(client.translate("Where is the station?").text)
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, TypeVar, Unpack

from pydantic import ValidationError

from dragoman.api_schemas import LengthPenalty, ModelInfo, ModelList, ResponseSchema, ServiceResponse

try:
    import httpx
except ModuleNotFoundError as error:
    needed = f"dragoman.client requires {error.name}: pip install 'dragoman[client]'"
    raise ModuleNotFoundError(needed, name=error.name) from None

SchemaT = TypeVar("SchemaT", bound=ResponseSchema)

DEFAULT_URL: Final = "http://127.0.0.1:5000"  # where `dragoman serve` listens by default
TIMEOUT_SECONDS: Final = 40.0  # the service gives up after 30, and should be the one to report it
CONNECT_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 5.0


@dataclass(eq=False)
class ServiceError(Exception):
    """Raised if the service rejects a request, fails or cannot be reached.

    `status` is the HTTP status, None without a response; `title` is the kind of error; `detail` says what is wrong and
    what to do; `request_id` identifies the request in the service's log; `retry_after` is the number of seconds after
    which the request may be sent again.
    """

    status: int | None
    title: str
    detail: str
    request_id: str | None
    retry_after: float | None

    def __str__(self) -> str:
        status = "" if self.status is None else f"{self.status} "
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{status}{self.title}: {self.detail}{request}"


class RequestOptions(TypedDict, total=False):
    """The translation options of a request, all optional; `api_schemas.ServiceRequest` describes each option."""

    model: str
    source: str
    target: str
    split: bool
    protect: bool | None
    num_best: int
    beam_size: int
    penalty: LengthPenalty
    prefix: str
    glossary: str | dict[str, str] | None
    tokens: bool
    alignment: bool


class ClientSettings(TypedDict, total=False):
    """The settings of a client, all optional.

    `timeout` is httpx's timeout in seconds (default 40). If an overloaded service allows a retry within `patience`
    seconds (default 5), the request is sent once more. `transport` is an httpx transport, for proxies and certificates.
    """

    timeout: float
    patience: float
    transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None


class TranslationResponse(ServiceResponse):
    """The response of the service: a translation for each text, in order."""

    request_id: str | None = None

    @property
    def text(self) -> str:
        """The translation of a single text; raises ValueError if the request had several texts."""
        if len(self.translations) != 1:
            raise ValueError(f"the response has {len(self.translations)} translations: use .texts")
        return self.translations[0].text

    @property
    def texts(self) -> list[str]:
        """The translations of all texts, in order."""
        return [translation.text for translation in self.translations]


class Client:
    """A synchronous client of the service at `url`; `key` is an API key from `dragoman key`."""

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, **settings: Unpack[ClientSettings]) -> None:
        self._patience = settings.get("patience", PATIENCE_SECONDS)
        self._http = httpx.Client(**_http_settings(url, key, settings))

    def translate(self, texts: str | Sequence[str], **options: Unpack[RequestOptions]) -> TranslationResponse:
        """Translate one or several texts; raise ServiceError if the service rejects the request or fails."""
        return _parse_translations(self._send("POST", "v1/translate", _encode(texts, options)))

    def models(self) -> tuple[ModelInfo, ...]:
        """Return the models that the service offers."""
        return _parse(self._send("GET", "v1/models"), ModelList).models

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, method: str, path: str, content: str | None = None) -> httpx.Response:
        """Send a request and return the response; retry once if the service allows it within `patience` seconds."""
        with _service_errors():
            response = self._http.request(method, path, content=content)
            pause = _retry_after(response)
            if pause is not None and pause <= self._patience:
                time.sleep(pause)
                response = self._http.request(method, path, content=content)
        return _check_status(response)


class AsyncClient:
    """An asynchronous client of the service, with the same methods as `Client`."""

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, **settings: Unpack[ClientSettings]) -> None:
        self._patience = settings.get("patience", PATIENCE_SECONDS)
        self._http = httpx.AsyncClient(**_http_settings(url, key, settings))

    async def translate(self, texts: str | Sequence[str], **options: Unpack[RequestOptions]) -> TranslationResponse:
        """Translate one or several texts; raise ServiceError if the service rejects the request or fails."""
        return _parse_translations(await self._send("POST", "v1/translate", _encode(texts, options)))

    async def models(self) -> tuple[ModelInfo, ...]:
        """Return the models that the service offers."""
        return _parse(await self._send("GET", "v1/models"), ModelList).models

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, method: str, path: str, content: str | None = None) -> httpx.Response:
        with _service_errors():
            response = await self._http.request(method, path, content=content)
            pause = _retry_after(response)
            if pause is not None and pause <= self._patience:
                await asyncio.sleep(pause)
                response = await self._http.request(method, path, content=content)
        return _check_status(response)


def _http_settings(url: str, key: str | None, settings: ClientSettings) -> dict[str, Any]:
    """Return the arguments for the httpx client; raise TypeError for an unknown setting."""
    _check_names("setting", settings.keys(), ClientSettings.__annotations__)
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url {url} is not an HTTP address: give a URL that begins with http:// or https://")
    headers = {"accept": "application/json", "content-type": "application/json", "user-agent": "dragoman-client"}
    if key is not None:
        headers["authorization"] = f"Bearer {key.strip()}"  # a key read from a file may end with a line break
    timeout = settings.get("timeout", TIMEOUT_SECONDS)
    timeouts = httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS))
    return {"base_url": url, "headers": headers, "timeout": timeouts, "transport": settings.get("transport")}


def _check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    if unknown := set(names) - set(known):
        raise TypeError(f"unknown {what} {', '.join(sorted(unknown))}: choose from {', '.join(known)}")


def _parse_translations(response: httpx.Response) -> TranslationResponse:
    request_id = response.headers.get("x-request-id")
    return _parse(response, TranslationResponse).model_copy(update={"request_id": request_id})


def _encode(texts: str | Sequence[str], options: RequestOptions) -> str:
    """Return the JSON body of a translation request; raise TypeError for an unknown option."""
    _check_names("option", options.keys(), RequestOptions.__annotations__)
    body: dict[str, Any] = {"texts": texts if isinstance(texts, str) else list(texts), **options}
    if "penalty" in body:
        body["penalty"] = body["penalty"].model_dump()
    # Escaped to ASCII: a lone surrogate, which UTF-8 cannot encode, reaches the service, which reports the error.
    return json.dumps(body, allow_nan=False)


@contextlib.contextmanager
def _service_errors() -> Iterator[None]:
    """Raise ServiceError in place of httpx's connection errors and timeouts."""
    try:
        yield
    except httpx.RequestError as error:
        is_timeout = isinstance(error, httpx.TimeoutException)
        title = "Timeout" if is_timeout else "Connection failed"
        raise ServiceError(None, title, str(error) or type(error).__name__, None, None) from error


def _check_status(response: httpx.Response) -> httpx.Response:
    """Return the response; raise ServiceError if the status is not 200."""
    if response.status_code == httpx.codes.OK:
        return response
    try:
        body = response.json()
    except ValueError:  # the response of a proxy
        body = None
    problem = body if isinstance(body, dict) else {}
    raise ServiceError(
        response.status_code,
        str(problem.get("title") or response.reason_phrase or "Request failed"),
        str(problem.get("detail") or problem.get("error") or response.text[:200]),
        problem.get("request_id") or response.headers.get("x-request-id"),
        _retry_after(response),
    )


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds in the Retry-After header, or None if the request must not be retried."""
    value = response.headers.get("retry-after", "")
    return float(value) if response.status_code in (429, 503) and value.isdecimal() else None


def _parse(response: httpx.Response, schema: type[SchemaT]) -> SchemaT:
    try:
        return schema.model_validate_json(response.content)
    except ValidationError as error:
        detail = f"{response.url} does not respond like dragoman serve ({error.errors()[0]['msg']}): check the URL"
        raise ServiceError(response.status_code, "Unexpected response", detail, None, None) from error
