"""Where the texts of `dragoman translate` come from and where the answers go: lines, JSON lines or Parquet."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dragoman.cli.translate_answers import Answers, Shape
from dragoman.cli.translate_asked import Asked

if TYPE_CHECKING:
    from dragoman.data.durable import Sink
    from dragoman.decoding.bulk.packing import Line, Writer


def texts_in(asked: Asked) -> int | None:
    """How many there are, where that can be known. A file is read through once, so that nothing is begun that must be
    broken off.
    """
    if asked.texts:
        return len(_given(asked))
    if asked.source is None or not asked.source.is_file():  # a pipe can be read but once
        return None
    if asked.kind == "parquet":
        return _rows(asked.source)
    lines = _lines(asked)
    return sum(1 for _ in (_objects(asked, lines) if asked.kind == "jsonl" else lines))


def translate_all(asked: Asked, answers: Answers) -> None:
    """From end to end. A file that is there is whole; on standard output, whoever reads may be waiting."""
    if asked.output is None:
        _pour(asked, answers, _Said())
        return
    from dragoman.data.durable import Sink, write_durably

    if asked.output.exists() and not asked.output.is_file():  # a pipe or /dev/null: there is no name to give
        with asked.output.open("wb") as file:
            _into_file(asked, answers, Sink(file))
        return
    write_durably(asked.output.resolve(), lambda sink: _into_file(asked, answers, sink))


def _into_file(asked: Asked, answers: Answers, sink: "Sink") -> None:
    if asked.kind == "parquet":
        _pour_parquet(asked, answers, sink)
        return
    from dragoman.decoding.bulk.packing import packed

    assert asked.output is not None
    with packed(asked.output, sink) as writer:
        _pour(asked, answers, writer)


def _pour(asked: Asked, answers: Answers, writer: "Writer") -> None:
    if asked.kind == "jsonl":
        _pour_jsonl(asked, answers, writer)
        return
    from dragoman.decoding.bulk.rows import in_step

    lines = _given(asked) if asked.texts else _lines(asked)
    for number, (end, (answer,)) in enumerate(in_step(((line.end, [line.text]) for line in lines), answers)):
        assert answer is not None, "there is no line without a text"
        writer.write(asked.shape.line(number, answer, end).encode())


def _pour_jsonl(asked: Asked, answers: Answers, writer: "Writer") -> None:
    from dragoman.decoding.bulk.jsonl_shard import with_member
    from dragoman.decoding.bulk.rows import in_step

    for line, values in in_step(_objects(asked, _lines(asked)), _values(asked.shape, answers)):
        writer.write(with_member(line, asked.columns.into, values).encode())


def _pour_parquet(asked: Asked, answers: Answers, sink: "Sink") -> None:
    from dragoman.decoding.bulk.parquet_shard import translate_parquet

    assert asked.source is not None
    translate_parquet(asked.source, sink, asked.columns, _values(asked.shape, answers), _type(asked.shape))


def _values(shape: Shape, answers: Answers) -> Callable[[Iterable[str]], Iterator[object]]:
    return lambda texts: map(shape.value, answers(texts))


def _type(shape: Shape) -> Any:
    """Of what is written: None for text."""
    import pyarrow as pa

    if not (shape.several or shape.scores or shape.alignment):
        return None
    scores = [("score", pa.float64())] if shape.scores or shape.several else []
    links = [("alignment", pa.string())] if shape.alignment else []
    found = pa.struct([("text", pa.string()), *scores, *links])
    return pa.list_(found) if shape.several else found


def _given(asked: Asked) -> "list[Line]":
    from dragoman.decoding.bulk.packing import Line

    lines = [line for text in asked.texts for line in text.split("\n")]
    return [Line(number, line, "\n") for number, line in enumerate(lines, 1)]


def _objects(asked: Asked, lines: "Iterable[Line]") -> "Iterator[tuple[Line, list[str | None]]]":
    from dragoman.decoding.bulk.jsonl_shard import objects

    return objects(lines, _name(asked), asked.columns)


def _lines(asked: Asked) -> "Iterator[Line]":
    from dragoman.decoding.bulk.packing import decoded, read_lines

    return read_lines(asked.source) if asked.source else decoded(_standard_input(), _name(asked))


def _standard_input() -> IO[bytes]:
    """In a reader of its own: the thread that waits at Python's own one would not let the program end."""
    if sys.stdin is None:
        raise ValueError("there is no standard input here: give a text or --input")
    return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)


def _name(asked: Asked) -> str:
    return str(asked.source) if asked.source else "standard input"


def _rows(source: Path) -> int:
    import pyarrow.parquet as pq

    from dragoman.data.parquet import explained

    with explained(source):
        return int(pq.read_metadata(source).num_rows)


class _Said:
    """Standard output, as bytes: what a terminal's settings cannot show must not be lost in a pipe."""

    def write(self, data: bytes, /) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
