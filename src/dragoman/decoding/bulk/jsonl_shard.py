"""A shard of JSON lines: a line is an object, and its translation is added at its end; the rest is not touched."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.data.durable import Sink
from dragoman.decoding.bulk.packing import Line, packed, read_lines
from dragoman.decoding.bulk.rows import Columns, Counts, Translate, in_step

_HALF: Final = re.compile("[\ud800-\udfff]")
"""A surrogate without its other half: JSON can write it, and UTF-8 cannot."""


def translate_jsonl(shard: Path, sink: Sink, columns: Columns, translate: Translate) -> Counts:
    """Writes each object with its translation, null where there was null; a blank line stays and is no row."""
    rows = nulls = 0
    with packed(shard, sink) as writer:
        for line, translations in in_step(objects(read_lines(shard), str(shard), columns), translate):
            writer.write(with_member(line, columns.into, translations).encode())
            rows += len(translations)
            nulls += translations.count(None)
    return Counts(rows, nulls)


def objects(lines: Iterable[Line], name: str, columns: Columns) -> Iterator[tuple[Line, list[str | None]]]:
    """Each line with the text in it; of a blank one there is none."""
    for line in lines:
        yield line, [_text(f"{name}, line {line.number}", line.text, columns)] if line.text.strip() else []


def _text(where: str, line: str, columns: Columns) -> str | None:
    try:
        row: Any = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error}); each line must be one object") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: {line[:40]} is no object; each line must be one, with its text under a key")
    if columns.text not in row:
        keys = ", ".join(map(repr, row)) or "none"
        raise ValueError(f"{where}: no {columns.text!r}, but {keys}; give the right one with --field")
    if columns.into in row:
        raise ValueError(f"{where}: there is a {columns.into!r} already; give another name with --into")
    text = row[columns.text]
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{where}: {columns.text!r} must be text or null, not {json.dumps(text)[:40]}")
    if text is not None and _HALF.search(text):
        raise ValueError(f"{where}: {columns.text!r} holds half of a character, which is no text: mend it")
    return text


def with_member(line: Line, into: str, translations: Sequence[object]) -> str:
    """The object as it was written, to the last digit of a number, and one member more."""
    if not translations:
        return line.text + line.end
    body = line.text.rstrip()
    assert body.endswith("}")
    (translation,) = translations
    member = f"{json.dumps(into, ensure_ascii=False)}: {json.dumps(translation, ensure_ascii=False)}"
    return f"{body[:-1].rstrip()}, {member}}}{line.text[len(body) :]}{line.end}"
