"""Run a TranslateRequest: read texts, translate them, and write the results as lines, JSON lines or Parquet."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import typer

from dragoman.alignment.engine_links import find_engine_links
from dragoman.bundle import Bundle, open_bundle
from dragoman.cli.progress import show_progress
from dragoman.cli.translate_alignment import TextAligner
from dragoman.cli.verbosity import is_verbose, print_note
from dragoman.decoding.options import EngineOptions
from dragoman.io.durable import Sink, write_durably
from dragoman.io.progress import part_progress
from dragoman.translation import file_formats
from dragoman.translation.document import keep_fences
from dragoman.translation.file_formats import TextLine, Write
from dragoman.translation.glossary import Glossary, TermUse
from dragoman.translation.markup import MarkupDocument
from dragoman.translation.office_formats import open_docx
from dragoman.translation.pipeline import Inputs, Outputs, Pipeline
from dragoman.translation.rerank import rerank
from dragoman.translation.translate_markup import join_translations, parse_document
from dragoman.translation.translate_request import TranslateRequest
from dragoman.translation.translator import Translator

BAR: Final = " ||| "
"""Separator of output columns, as in Moses."""
DIGITS: Final = 4
"""Decimal places of a score; further digits depend on the engine's order of summation."""

_MANY_WORDS: Final = 150
_MOST_WARNINGS: Final = 3
"""The number of warnings of a kind; further cases are not reported."""
_SIGNALLED: Final = 128
"""Offset of a signal's number in the exit code, as in shells."""

_MOST_TERMS: Final = 5
"""The number of unused glossary terms that the summary names."""

Hypothesis = tuple[str, float, str | None]
"""A translation, its score, and its links in Moses format."""


def run_shards(request: TranslateRequest) -> None:
    """Translate the files of --shards; exit with code 2 if files failed, or code 1 if files crashed workers."""
    from dragoman.bulk.bulk_run import run_bulk

    try:
        with show_progress() as progress:
            summary = run_bulk(request, progress, print_note)
    except KeyboardInterrupt:
        _report("stopped; the same command resumes with the unfinished files")
        raise typer.Exit(130) from None
    print(summary.text())
    if summary.failed:
        _report(f"error: {summary.problems()}")
        raise typer.Exit(1 if summary.lost else 2)


def run_one(request: TranslateRequest) -> None:
    """Translate the given texts, a file or standard input."""
    with _clean_exit(request.output):
        glossary = Glossary.read(request.glossary) if request.glossary else None
        bundle = open_bundle(request.model).to(request.to)
        total = _count_texts(request)
        translator = _load_translator(request, bundle)
        aligner = TextAligner.of(bundle, translator) if request.alignment else None
        is_typed = request.reads_standard_input and sys.stdin is not None and sys.stdin.isatty()
        if is_typed:
            print_note("type a text and press Enter; Ctrl-D ends")
        is_quiet = bool(request.texts) or is_typed or (request.output is None and sys.stdout.isatty())
        with show_progress(quiet=is_quiet or not sys.stderr.isatty()) as shown:
            progress = part_progress(shown, whole=total)
            progress("translate", 0)
            is_split = request.split and request.prefix is None
            is_markup = request.kind in file_formats.MARKUP
            links_of = find_engine_links(bundle, translator.engine) if glossary or is_markup else None
            pipeline = Pipeline(
                translator, is_split, request.protect, progress=progress, glossary=glossary, links_of=links_of
            )
            if is_markup:
                _write(request, partial(_translate_document, pipeline))
            else:
                _write(request, lambda inputs: _values(request, pipeline, aligner, inputs))


def _load_translator(request: TranslateRequest, bundle: Bundle) -> Translator:
    options = EngineOptions(request.engine, request.threads, request.compute, request.beam, request.device)
    others = [open_bundle(folder).to(request.to) for folder in request.others]
    translator = Translator.load(bundle, options, request.sampling, others)
    reverse = None if request.rerank is None else open_bundle(request.rerank)
    translator = rerank(translator, request.mbr, reverse, replace(options, beam_size=None))
    if request.nbest is not None and translator.ranker is None:
        beam = translator.options.beam_size
        if request.nbest > beam:
            raise ValueError(f"--nbest {request.nbest} is more than the beam size {beam}: add --beam {request.nbest}")
        translator = replace(translator, options=translator.options.replace(num_best=request.nbest))
    if translator.opened and translator.opened.warning:
        print_note(f"warning: {translator.opened.warning}")
    if request.compute == "int8":
        print_note("int8: the translation of a text may depend on its batch")
    return translator


def _values(
    request: TranslateRequest, pipeline: Pipeline, aligner: TextAligner | None, inputs: Iterable[tuple[Any, str | None]]
) -> Iterator[tuple[Any, Any]]:
    """Yield the key of each input with the translation in output format."""
    num_best = request.nbest or 1
    render = render_line if request.kind == "text" else render_value
    windows: Iterable[Outputs[Any]]
    if request.prefix is not None:
        windows = [[(key, pipeline.translate_prefix(text or "", request.prefix)) for key, text in inputs]]
    else:
        windows = pipeline.windows(_prepare(request, inputs), request.reads_standard_input)
    for window in _report_terms(_warn_of_kept_text(windows)):
        translations = [translation for _, translation in window if translation is not None]
        found: Iterator[list[Hypothesis]]
        if aligner is None:
            found = ([(best.text, best.score, None) for best, _ in text.best(num_best)] for text in translations)
        else:
            found = aligner.align(translations, num_best)
        for key, translation in window:
            if translation is None:
                yield key, None
            else:
                yield key, _add_terms(request, render(request, key, next(found)), translation.terms)


def _translate_document(pipeline: Pipeline, document: MarkupDocument) -> str:
    """Return the translation of a document, with its tags around the words that the model's alignment heads link."""
    if pipeline.links_of is None and any(document.has_tags):
        print_note("inline tags are placed by position: this engine cannot use an alignment head of this model")
    windows = pipeline.windows((None, text) for text in document.texts)
    translations = (found for window in _report_terms(windows) for _, found in window if found is not None)
    return join_translations(document, translations, pipeline.links_of)


def _prepare(request: TranslateRequest, inputs: Iterable[tuple[Any, str | None]]) -> Inputs[Any]:
    """Return the inputs, in which lines of code between two fences are already kept if each line is a text."""
    if not request.split:
        return _warn_of_long_lines(inputs)
    return keep_fences((key, text or "") for key, text in inputs) if request.kind == "text" else inputs


def render_line(request: TranslateRequest, line: TextLine, hypotheses: list[Hypothesis]) -> str:
    """Return one line per hypothesis; with --nbest, the first column is the index of the input, as in Moses."""
    number = "" if request.nbest is None else f"{line.number - 1}{BAR}"
    rows = [_columns(request, hypothesis).values() for hypothesis in hypotheses]
    texts = ([f"{cell:.{DIGITS}f}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return (line.end or "\n").join(number + BAR.join(text) for text in texts)


def render_value(request: TranslateRequest, _: object, hypotheses: list[Hypothesis]) -> Any:
    """Return the translation as a string, as an object if scores or links are added, or as a list with --nbest."""
    objects = [_columns(request, hypothesis) for hypothesis in hypotheses]
    if len(objects[0]) == 1:
        return objects[0]["text"]
    return objects[0] if request.nbest is None else objects


def _add_terms(request: TranslateRequest, value: Any, terms: Sequence[TermUse]) -> Any:
    """Return a translation as an object with the terms of the glossary, if the request asks for them."""
    if not request.terms:
        return value
    members = {"text": value} if isinstance(value, str) else {"hypotheses": value} if request.nbest else value
    return {**members, "terms": [term._asdict() for term in terms]}


def _columns(request: TranslateRequest, hypothesis: Hypothesis) -> dict[str, str | float]:
    text, score, links = hypothesis
    columns: dict[str, str | float] = {"text": text}
    if request.scores or request.nbest is not None:
        columns["score"] = round(score, DIGITS)
    return columns | ({"alignment": links or ""} if request.alignment else {})


def _parquet_type(request: TranslateRequest) -> Any:
    """Return the Arrow type of the values to write, or None for strings."""
    import pyarrow as pa

    value = _add_terms(request, render_value(request, None, [("", 0.0, None)]), [TermUse("", "", True)])
    return None if isinstance(value, str) else pa.infer_type([value])


def _write(request: TranslateRequest, translate: Callable[..., Any]) -> None:
    """Translate, and write the results: atomically to a file, or line by line to standard output."""
    output = request.output
    if output is None:
        _write_lines(request, _write_standard_output, translate)
    elif output.exists() and not output.is_file():  # a pipe or /dev/null cannot be renamed to
        with output.open("wb") as file:
            _write_file(request, output, Sink(file), translate)
    else:
        write_durably(output.resolve(), lambda sink: _write_file(request, output, sink, translate))


def _write_file(request: TranslateRequest, output: Path, sink: Sink, translate: Any) -> None:
    if request.kind == "parquet":
        from dragoman.translation.parquet_files import translate_parquet

        assert request.input is not None
        translate_parquet(request.input, sink, request.fields, translate, _parquet_type(request))
        return
    with file_formats.open_packed(output, sink) as write:
        _write_lines(request, write, translate)


def _write_lines(request: TranslateRequest, write: Write, translate: Any) -> None:
    if request.kind in file_formats.MARKUP:
        for document, encode in _documents(request):
            write(encode(translate(document)))
        return
    file_formats.translate_lines(_lines(request), request.kind, write, request.fields, translate)


def _documents(request: TranslateRequest) -> Iterator[tuple[MarkupDocument, Callable[[str], bytes]]]:
    """Yield each document with the function that writes its translation; a text of the command line ends its line."""
    if request.texts:
        yield from ((parse_document(text, request.kind), lambda found: f"{found}\n".encode()) for text in request.texts)
    elif request.kind == "docx":
        assert request.input is not None
        docx = open_docx(request.input.read_bytes(), str(request.input))
        yield docx.page, docx.encode
    else:
        text = "".join(f"{line.text}{line.end}" for line in _lines(request))
        yield parse_document(text, request.kind, str(request.input or "standard input")), str.encode


def _lines(request: TranslateRequest) -> Iterable[TextLine]:
    if request.texts:
        lines = [line for text in request.texts for line in text.split("\n")]
        return [TextLine(number, line, "\n") for number, line in enumerate(lines, 1)]
    if request.input is not None:
        return file_formats.read_lines(request.input)
    return file_formats.decode_lines(_standard_input(), "standard input")


def _count_texts(request: TranslateRequest) -> int | None:
    """Return the number of texts, or None if the input is a pipe.

    Reading the whole file reports errors in the file before any text is translated.
    """
    if request.reads_standard_input or (request.input is not None and not request.input.is_file()):
        return None  # a pipe can be read but once
    if request.kind in file_formats.MARKUP:
        return sum(len(document.texts) for document, _ in _documents(request))
    if request.kind == "parquet":
        from dragoman.translation.parquet_files import count_rows

        assert request.input is not None
        return count_rows(request.input)
    rows = file_formats.read_texts(_lines(request), request.kind, request.fields)
    return sum(file_formats.is_row(line, request.kind) for line, _ in rows)


def _standard_input() -> IO[bytes]:
    """Return a separate reader of standard input, because a thread blocked on `sys.stdin` prevents the exit."""
    if sys.stdin is None:
        raise ValueError("standard input is closed: give a text or --input FILE")
    return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)


def _write_standard_output(data: bytes) -> None:
    """Write bytes to standard output, regardless of the terminal's encoding."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _warn_of_long_lines(inputs: Iterable[tuple[Any, str | None]]) -> Iterator[tuple[Any, str | None]]:
    """Yield the inputs, and warn of long lines: a model trained on sentences may omit parts of a longer text."""
    num_warnings = 0
    for number, (key, text) in enumerate(inputs, 1):
        num_words = len(text.split()) if text else 0
        if num_words > _MANY_WORDS and num_warnings < _MOST_WARNINGS:
            num_warnings += 1
            more = "; further long lines are not reported" if num_warnings == _MOST_WARNINGS else ""
            print_note(f"line {number:,} has {num_words:,} words, and parts may get lost: leave out --no-split{more}")
        yield key, text


def _warn_of_kept_text(windows: Iterable[Outputs[Any]]) -> Iterator[Outputs[Any]]:
    """Yield the windows, and warn of lines with text that was kept instead of translated."""
    number = num_warnings = 0
    for window in windows:
        for _, translation in window:
            number += 1
            if translation is not None and translation.kept and num_warnings < _MOST_WARNINGS:
                num_warnings += 1
                more = "; further such lines are not reported" if num_warnings == _MOST_WARNINGS else ""
                print_note(f"line {number:,} has text that is kept, not translated: {translation.kept}{more}")
        yield window


def _report_terms(windows: Iterable[Outputs[Any]]) -> Iterator[Outputs[Any]]:
    """Yield the windows; at the end, report the glossary terms that were not used: with --verbose, for each line."""
    number = num_terms = 0
    unused = Counter[str]()
    for window in windows:
        for _, translation in window:
            number += 1
            terms = translation.terms if translation else ()
            missing = [f"{term.source} = {term.target}" for term in terms if not term.used]
            num_terms += len(terms)
            unused.update(missing)
            if missing and is_verbose():
                print_note(f"line {number:,}: glossary terms not used: {', '.join(missing)}")
        yield window
    if unused:
        more = f" and {len(unused) - _MOST_TERMS:,} more" if len(unused) > _MOST_TERMS else ""
        names = ", ".join(name for name, _ in unused.most_common(_MOST_TERMS))
        print_note(f"glossary: {unused.total():,} of {num_terms:,} terms not used: {names}{more}")


class _Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, and handled like Ctrl-C: partial output is removed."""


@contextmanager
def _clean_exit(output: Path | None) -> Iterator[None]:
    """Exit with the shell's exit code for a signal or closed pipe, and report the state of the output file."""
    existed = output is not None and output.exists()
    handler = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except KeyboardInterrupt as stop:
        state = f"; {output} {'is unchanged' if existed else 'was not written'}" if output else ""
        _report(f"stopped{state}")
        raise typer.Exit(_SIGNALLED + (signal.SIGTERM if isinstance(stop, _Terminated) else signal.SIGINT)) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest is not tried again at exit
        raise typer.Exit(_SIGNALLED + signal.SIGPIPE) from None
    finally:
        signal.signal(signal.SIGTERM, handler)


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def _report(text: str) -> None:
    """Print on standard error, with --quiet too."""
    print(text, file=sys.stderr, flush=True)
