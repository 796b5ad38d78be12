"""Request bodies as existing clients send them: JSON, forms, multipart forms and query strings."""

import json
import re
from typing import Annotated, Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema

from dragoman.config import describe_first
from dragoman.serving.errors import InvalidRequestError

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
MAX_FIELDS: Final = 1000
"""The most fields of a form."""
_BOUNDARY: Final = re.compile(r'boundary="?([^";,]{1,70})"?', re.IGNORECASE)
_FIELD_NAME: Final = re.compile(rb'form-data;[^\r\n]*\bname="([^"\r\n]*)"', re.IGNORECASE)
_FILE_NAME: Final = re.compile(rb'form-data;[^\r\n]*\bfilename="([^"\r\n]*)"', re.IGNORECASE)

RequestT = TypeVar("RequestT", bound=BaseModel)


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10
    return 0 if value == "" else int(value) if is_number else value


Number = Annotated[
    int,
    BeforeValidator(_integral),
    Field(ge=0),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]{0,9}$"}]}),
]
"""An integer, in JSON too possibly written as a string, as some clients do; empty, as forms send it, it is 0."""

_FLAGS: Final = {"0": False, "1": True, "false": False, "true": True}
Flag = Annotated[
    bool,
    BeforeValidator(lambda value: _FLAGS.get(str(value).lower(), value)),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": [0, 1, *_FLAGS]}]}),
]
"""A switch, as in JSON or as in a form."""


async def read_body(
    request: Request, schema: type[RequestT], repeated: frozenset[str] = frozenset(), keep_blank: bool = False
) -> RequestT:
    """Parse the request body as a form or JSON; if the body is empty, parse the query string.

    The `repeated` fields of a form are lists; of another field that is given several times, the last counts. Blank
    fields are omitted unless `keep_blank`.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if not body:
        media_type, body = FORM, request.scope["query_string"]
    content: Any
    try:
        if media_type in (FORM, MULTIPART):
            is_form = media_type == FORM
            fields = (
                _parse_form(body, keep_blank) if is_form else _parse_multipart(body, request.headers["content-type"])
            )
            content = {name: values if name in repeated else values[-1] for name, values in fields.items()}
        else:
            content = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequestError("the body cannot be parsed: send JSON or a form") from None
    return parse_content(content, schema)


def parse_content(content: Any, schema: type[RequestT]) -> RequestT:
    """Return the content of a request in the form of a schema; raise InvalidRequestError if it has another form."""
    try:
        return schema.model_validate(content, strict=True)
    except ValidationError as error:
        raise InvalidRequestError(describe_first(error.errors())) from None


def _parse_form(body: bytes, keep_blank: bool) -> dict[str, list[str]]:
    return parse_qs(body.decode(), keep_blank, max_num_fields=MAX_FIELDS)


class UploadedFile(NamedTuple):
    """A file of a multipart form."""

    name: str
    content: bytes


async def read_upload(request: Request) -> tuple[dict[str, str], UploadedFile | None]:
    """Return the fields of a multipart form, and its field `file`."""
    try:
        parts = _split_multipart(await request.body(), request.headers.get("content-type", ""))
        file = next((UploadedFile(name or "", content) for field, name, content in parts if field == "file"), None)
        return {field: content.decode() for field, name, content in parts if name is None and field != "file"}, file
    except ValueError:
        raise InvalidRequestError("the body is no multipart form: send the file as `file`") from None


def _parse_multipart(body: bytes, content_type: str) -> dict[str, list[str]]:
    """Return the fields of a multipart form; raise ValueError if it is none."""
    fields: dict[str, list[str]] = {}
    for name, _, content in _split_multipart(body, content_type):
        fields.setdefault(name, []).append(content.decode())
    return fields


def _split_multipart(body: bytes, content_type: str) -> list[tuple[str, str | None, bytes]]:
    """Return the name, the name of the file if it is one, and the content of each field of a multipart form.

    The standard library parses nested parts too, which takes very long for a hostile body.
    """
    found = _BOUNDARY.search(content_type)
    if not found:
        raise ValueError("no boundary")
    _, *parts = body.split(b"--" + found[1].encode())
    if not parts or not parts[-1].startswith(b"--") or len(parts) > MAX_FIELDS:
        raise ValueError("no end of the form, or too many fields")
    fields = []
    for part in parts[:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name, file = _FIELD_NAME.search(head), _FILE_NAME.search(head)
        if name:
            fields.append((name[1].decode(), file[1].decode() if file else None, content.removesuffix(b"\r\n")))
    return fields
