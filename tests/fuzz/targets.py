"""Every parser of what comes from outside, as a function of bytes. ValueError, and our refusals, are how they say no.

Whatever else gets out of one is a crash: so is an answer of 500, a result that breaks its promise, or one that takes
longer than the fuzzer waits. What only a right hash lets in is given one here, since no fuzzer would guess it.
"""

import asyncio
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from safetensors import safe_open
from safetensors.numpy import save as as_safetensors

from dragoman.alignment.moses import read_gold
from dragoman.api_schemas import ModelInfo
from dragoman.bundle.file_names import CARD, CONFIG, MANIFEST, WEIGHTS
from dragoman.bundle.info import BundleInfo
from dragoman.bundle.reading import _check_files, _check_weights, open_bundle, read_manifest
from dragoman.cli.serve import parse_limits
from dragoman.data.corpus_formats import read_csv, read_jsonl, read_tsv
from dragoman.data.translation_memories import read_po, read_tmx, read_xliff
from dragoman.inspection.trace import Trace, content_digest
from dragoman.io import hashed_json
from dragoman.recipes.recipe import load_recipe
from dragoman.serving.app import create_app
from dragoman.serving.config import ServiceConfig
from dragoman.serving.engine_protocol import read_message, receive_message
from dragoman.serving.keys import read_keys
from dragoman.serving.run import JsonLog
from dragoman.serving.service import Service
from dragoman.translation.document import TextDocument

Target = Callable[[bytes], None]

GOLDEN: Final = Path(__file__).parents[1] / "golden"
JSON: Final = b"application/json"
FORM: Final = b"application/x-www-form-urlencoded"


@cache
def place() -> Path:
    """Where files are written, in memory where there is such a place; gone when the process ends."""
    shared = Path("/dev/shm")
    made = tempfile.TemporaryDirectory(dir=shared if shared.is_dir() and os.access(shared, os.W_OK) else None)
    _KEPT.append(made)
    return Path(made.name)


_KEPT: Final[list[Any]] = []


def _written(name: str, content: bytes) -> Path:
    path = place() / name
    path.write_bytes(content)
    return path


def _refusable(work: Callable[[], object]) -> None:
    try:
        work()
    except ValueError as error:
        if not str(error):
            raise AssertionError("it must say what is wrong") from error


class _Application:
    """The whole application, with a model that no engine has: admitted requests get 503, or 429."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        service = Service.create(ServiceConfig({}), JsonLog(io.StringIO()))
        info = {"name": "m", "sha256": "0" * 64, "source": "en", "target": "de", "beam_size": 4, "formula": "gnmt"}
        model = ModelInfo.model_validate(info | {"alpha": 0.6, "aligns": True, "compute": "float32"})
        service.dispatcher.pool.models = {"m": model}
        self.app = create_app(service, hosts=frozenset({"localhost"}))

    def ask(self, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Through all of it; the answer must be one of those that are meant, in JSON."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(errors="replace"),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), *headers],
        }
        messages = [
            {"type": "http.request", "body": body[:100], "more_body": True},
            {"type": "http.request", "body": body[100:]},
        ]
        sent: list[Any] = []

        async def take() -> Any:
            return messages.pop(0) if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        self.loop.run_until_complete(self.app(scope, take, send))
        status = sent[0]["status"]
        assert status in (200, 307, 400, 401, 403, 404, 405, 413, 421, 422, 429, 503), status
        if status >= 400:
            json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


_application = cache(_Application)


def translate_json(data: bytes) -> None:
    """The body of /translate."""
    _application().ask("POST", "/translate", [(b"content-type", JSON)], data)


def translate_form(data: bytes) -> None:
    """The same as a form; and a key in the body of a GET."""
    _application().ask("POST", "/translate", [(b"content-type", FORM)], data)
    _application().ask("GET", "/languages", [(b"content-type", FORM)], data)


def detect(data: bytes) -> None:
    """The body of /detect."""
    _application().ask("POST", "/detect", [(b"content-type", JSON)], data)


def v1_translate(data: bytes) -> None:
    """The body of /v1/translate."""
    _application().ask("POST", "/v1/translate", [(b"content-type", JSON)], data)


def request_head(data: bytes) -> None:
    """A path and headers, one a line, as httptools would hand them on."""
    path, *lines = data.split(b"\n")
    headers = [tuple(line.partition(b":")[::2]) for line in lines[:50]]
    known = [(name.strip().lower(), value.strip()) for name, value in headers]
    _application().ask("POST", "/" + path.decode(errors="replace"), [one for one in known if one[0] != b"host"], b"{}")


def keys_file(data: bytes) -> None:
    """The file of those who may ask."""
    _refusable(lambda: read_keys(_written("keys.yaml", data)))


def limit_options(data: bytes) -> None:
    """What stands after --limit, one a line."""
    _refusable(lambda: parse_limits(data.decode(errors="surrogateescape").split("\n")))


@cache
def _bundle() -> Path:
    return Path(shutil.copytree(GOLDEN / "v1", place() / "bundle"))


def _sealed(file: str, content: bytes) -> None:
    """The golden bundle with another content of one file, and a manifest that answers for it."""
    folder = _bundle()
    before = (folder / file).read_bytes()
    manifest = (folder / MANIFEST).read_bytes()
    body = json.loads(manifest)["manifest"]
    for info in body["files"]:
        if info["file"] == file:
            info |= {"sha256": hashed_json.hashlib.sha256(content).hexdigest(), "num_bytes": len(content)}
    try:
        (folder / file).write_bytes(content)
        (folder / MANIFEST).write_bytes(hashed_json.render(body))
        _refusable(lambda: open_bundle(folder))
    finally:
        (folder / file).write_bytes(before)
        (folder / MANIFEST).write_bytes(manifest)


def bundle_config(data: bytes) -> None:
    """config.json."""
    _sealed(CONFIG, data)


def bundle_card(data: bytes) -> None:
    """card.json."""
    _sealed(CARD, data)


def bundle_manifest(data: bytes) -> None:
    """manifest.json: as it is, and as the content of one whose hash is right."""
    folder = _written(MANIFEST, data).parent
    _refusable(lambda: read_manifest(folder, MANIFEST))
    try:
        body = json.loads(data)
        rendered = hashed_json.render(body if isinstance(body, dict) else {"body": body})
    except (ValueError, RecursionError):
        return
    _written(MANIFEST, rendered)
    _refusable(lambda: _check_files(folder, read_manifest(folder, MANIFEST), True))


def safetensors_header(data: bytes) -> None:
    """The weights: as they are, and with the length before the header that belongs there."""
    info = _info()
    for content in (data, len(data).to_bytes(8, "little") + data + bytes(64)):
        _refusable(lambda content=content: _check_weights(_written(WEIGHTS, content), info))  # type: ignore[misc]


@cache
def _info() -> BundleInfo:
    return open_bundle(GOLDEN / "v1").info


def recipe(data: bytes) -> None:
    """A recipe, as dragoman train reads it."""
    _refusable(lambda: load_recipe(_written("recipe.yaml", data)))


def trace(data: bytes) -> None:
    """A trace: as it is, and as the header of one whose hash is right."""
    _refusable(lambda: Trace.load(_written("a.trace", data)))
    arrays, text = _arrays(), data.decode(errors="replace")
    metadata = {"schema": "2", "trace": text, "sha256": content_digest(2, text, arrays)}
    _refusable(lambda: Trace.load(_written("b.trace", as_safetensors(arrays, metadata))))


@cache
def _arrays() -> Any:
    with safe_open(GOLDEN / "schema-1.trace", framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def moses(data: bytes) -> None:
    """Alignments, and gold ones."""
    lines = data.decode(errors="replace").split("\n")
    _refusable(lambda: list(read_gold(lines)))


def engine_messages(data: bytes) -> None:
    """A message between the processes, or None for anything else."""
    reader = asyncio.StreamReader(loop=_application().loop)
    reader.feed_data(data)
    reader.feed_eof()
    for _ in range(10):
        message = _application().loop.run_until_complete(read_message(reader))
        assert message is None or isinstance(message, dict)
        if message is None:
            break
    stream = io.BytesIO(data)
    while (message := receive_message(stream)) is not None:
        assert isinstance(message, dict)


def document(data: bytes) -> None:
    """A text is cut into sentences, and comes back as it was."""
    text = data.decode(errors="replace")
    for language in ("en", "de", "zh"):
        cut = TextDocument.of(text, language)
        ends = [0, *(place for span in cut.spans for place in span), len(text)]
        assert ends == sorted(ends)
        assert all(start < end for start, end in cut.spans)
        cut.join(["x" for _ in cut.spans])
    lines = TextDocument.of_lines(text)
    assert lines.join(lines.sentences) == text


def pair_file(data: bytes) -> None:
    """A file of sentence pairs, read as each format; the message names the file."""
    address = str(_written("pairs", data))
    for read in (read_tmx, read_xliff, read_po, read_csv, read_tsv, read_jsonl):
        try:
            for block in read(address):
                assert len(block.source) == len(block.target)
        except ValueError as error:
            if not str(error).startswith(address):
                raise AssertionError("it must name the file") from error


TARGETS: Final[dict[str, Target]] = {
    target.__name__: target
    for target in (
        *(translate_json, translate_form, detect, v1_translate, request_head, keys_file, limit_options),
        *(
            bundle_config,
            bundle_card,
            bundle_manifest,
            safetensors_header,
            recipe,
            trace,
            moses,
            engine_messages,
            document,
            pair_file,
        ),
    )
}
