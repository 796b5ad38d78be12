"""`dragoman translate`: texts, files or a stream through a model; as many lines out as in, in the same order."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from dragoman.bundle import Bundle
    from dragoman.decoding.translator import Progress, Translator

_UTF8_BOM: Final = "\ufeff"
_MANY_WORDS: Final = 150
_TELLINGS: Final = 3


def translate(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="The folder of a model or of a run; left out with --demo.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to translate; without it, lines are read from standard input."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Use the small English-German model that is built in.")] = False,
    source: Annotated[Path | None, typer.Option("--input", metavar="FILE", help="Translate the lines of FILE.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here; FILE appears when all is translated.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, metavar="N", help="Hypotheses kept; else the model's own.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads to compute with; else all.")] = None,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Add which words belong together: translation ||| 0-0 1-2.")
    ] = False,
) -> None:
    """Translate with a trained model.

    One line is one text: an empty line stays empty, and lines keep their order and number. With --alignment each is
    followed by its links, source word and target word, from 0, split at white space.

        dragoman translate run/ "A text."

        dragoman translate run/ < a.en > a.de

        dragoman translate run/ --input a.en --output a.de
    """
    folder, texts = _told_apart([*([] if model is None else [model]), *(text or [])], demo)
    _refuse_mistakes(texts, source, output)
    with ExitStack() as open_files:
        lines = _told_of_long_ones(_lines(texts, source, open_files))
        from dragoman.bundle import open_bundle

        bundle = open_bundle(folder)
        from dragoman.decoding.translator import WINDOW, Translator  # heavy, so after all that may be wrong

        translator = Translator.of(bundle, threads, beam)
        typed = not texts and source is None and sys.stdin.isatty()
        if typed:
            print("type a text and press Enter; Ctrl-D ends", file=sys.stderr)
        progress = _progress(open_files, source, bool(texts) or typed or (output is None and sys.stdout.isatty()))
        if alignment:
            _write(_aligned(bundle, translator, lines, 1 if typed else WINDOW, progress), output)
        else:
            _write(translator.translate_iter(lines, 1 if typed else WINDOW, progress), output)


def _aligned(
    bundle: "Bundle", translator: "Translator", lines: Iterable[str], window: int, progress: "Progress | None"
) -> Iterator[str]:
    """Each translation with its links, from a forced pass over the tokens that the search chose."""
    from dragoman.cli.align_head import tell_of_guess
    from dragoman.data.moses import to_moses
    from dragoman.decoding.translator import windows
    from dragoman.inspection.aligner import Aligner

    aligner = Aligner.of(bundle)
    tell_of_guess(aligner, str(bundle.folder))
    for some, within in windows(lines, window, progress):
        translations = translator.parts(some, within)
        for parts, links in zip(translations, aligner.links_of(some, translations), strict=True):
            yield f"{' '.join(part.text for part in parts)} ||| {to_moses(links)}"


def _told_apart(arguments: list[str], demo: bool) -> tuple[Path, list[str]]:
    """The model's folder and the texts."""
    from dragoman.bundle import demo_folder

    if demo:
        if arguments and _named(arguments[0], _is_model):
            raise ValueError(f"--demo has a model of its own: leave out {arguments[0]}, or leave out --demo")
        return demo_folder(), arguments
    if not arguments:
        raise ValueError("which model? give its folder, as in: dragoman translate run/ 'A text.'; or try --demo")
    folder = Path(arguments[0])
    if not folder.exists() and not arguments[1:]:
        raise ValueError(f"{folder}: there is no such folder; the model comes first: dragoman translate run/ 'A text.'")
    return folder, arguments[1:]


def _is_model(folder: Path) -> bool:
    """A bundle, or a run with one in it."""
    return any((folder / place / "manifest.json").is_file() for place in ("", "bundle"))


def _named(text: str, kind: Callable[[Path], bool]) -> bool:
    """Whether a text is the name of something; what is too long for a name is a text."""
    return len(text.encode(errors="surrogateescape")) < 256 and kind(Path(text))


def _refuse_mistakes(texts: list[str], source: Path | None, output: Path | None) -> None:
    if texts and source:
        raise ValueError("give a text or --input, not both")
    if len(texts) == 1 and _named(texts[0], Path.is_file):
        raise ValueError(f"{texts[0]} is a file: to translate its lines, give --input {texts[0]}")
    if source and not source.is_file():
        raise ValueError(f"{source}: {'this is no file' if source.exists() else 'there is no such file'}")
    if output and (not output.resolve().parent.is_dir() or (output.exists() and not output.is_file())):
        raise ValueError(f"--output {output}: give the name of a file in a folder that is there")
    if source and output and output.exists() and output.samefile(source):
        raise ValueError(f"--output {output} is the input: give another name")


def _lines(texts: list[str], source: Path | None, open_files: ExitStack) -> Iterable[str]:
    """What to translate. A file is read through once before, so that nothing is begun that must be broken off."""
    if texts:
        return [line for text in texts for line in text.split("\n")]
    if source:
        with source.open("rb") as file:
            for _ in _decoded(file, str(source)):
                pass
        return _decoded(open_files.enter_context(source.open("rb")), str(source))
    return _decoded(sys.stdin.buffer, "standard input")


def _told_of_long_ones(lines: Iterable[str]) -> Iterator[str]:
    """The same lines. Models learn from single sentences, and lose much of a whole page without a sign of it."""
    told = 0
    for number, line in enumerate(lines, 1):
        num_words = len(line.split())
        if num_words > _MANY_WORDS and told < _TELLINGS:
            told += 1
            more = "; further ones are not told" if told == _TELLINGS else ""
            print(
                f"line {number:,} has {num_words:,} words: text may be lost in it; put each sentence on a line{more}",
                file=sys.stderr,
            )
        yield line


def _decoded(stream: IO[bytes], name: str) -> Iterator[str]:
    """Only a newline ends a line; a carriage return before it goes with it."""
    from dragoman.data.sniff import refuse

    start = stream.peek(1) if isinstance(stream, BufferedReader) else b""
    if start:
        refuse(name, start)
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: line {number} is not UTF-8; convert it: iconv -f <ENCODING> -t UTF-8") from error
        yield text.rstrip("\r\n").removeprefix(_UTF8_BOM if number == 1 else "")


def _progress(open_files: ExitStack, source: Path | None, quiet: bool) -> Callable[[int, int], None] | None:
    """A bar on the terminal, unless the translations are shown there themselves."""
    if quiet or not sys.stderr.isatty():
        return None
    from dragoman.cli.progress import shown

    total = None
    if source:
        with source.open("rb") as file:
            total = sum(1 for _ in file)
    tell = open_files.enter_context(shown())
    tell("translate", 0, total)
    return lambda done, _: tell("translate", done, total)


def _write(translations: Iterable[str], output: Path | None) -> None:
    """UTF-8 wherever it goes: what a terminal's settings cannot show must not be lost in a file."""
    lines = (f"{text}\n".encode() for text in translations)
    if output:
        from dragoman.data.durable import write_durably

        write_durably(output.resolve(), lambda sink: _pour(lines, sink.write))
    else:
        _pour(lines, _say)


def _pour(lines: Iterable[bytes], write: Callable[[bytes], object]) -> None:
    for line in lines:
        write(line)


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()  # whoever reads may be waiting for it
