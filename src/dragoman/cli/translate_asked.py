"""What is asked of `dragoman translate`, and what is wrong with it: seen before anything is loaded."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from dragoman.cli.translate_answers import Shape
from dragoman.data.packed import unpacked_suffix
from dragoman.decoding.given import MOST_HYPOTHESES, Compute, EngineName, a_number, a_word

if TYPE_CHECKING:
    from dragoman.decoding.bulk.rows import Columns

FormatName = Literal["text", "jsonl", "parquet"]

_SUFFIXES: Final[dict[str, FormatName]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
}
_STANDARD: Final = ("-", "/dev/stdin", "/dev/stdout")
_SAID: Final[dict[FormatName, str]] = {"text": "text", "jsonl": "JSON lines", "parquet": "Parquet"}


@dataclass(frozen=True)
class Asked:
    """The command, its model told apart from its texts."""

    folder: Path
    texts: list[str]
    source: Path | None
    output: Path | None
    format: str | None
    field: str | None
    into: str | None
    nbest: int | None
    scores: bool
    alignment: bool
    split: bool
    protect: bool
    prefix: str | None
    beam: int | None
    threads: int | None
    engine: str
    compute: str | None

    @property
    def kind(self) -> FormatName:
        """Said, or by the name of the input."""
        if self.format is not None:
            return cast("FormatName", self.format)
        return _by_name(self.source) or "text" if self.source else "text"

    @property
    def engine_name(self) -> EngineName:
        return cast("EngineName", self.engine)

    @property
    def compute_type(self) -> Compute | None:
        return cast("Compute | None", self.compute)

    @property
    def reads_standard_input(self) -> bool:
        return not self.texts and self.source is None

    @property
    def shape(self) -> Shape:
        """What of an answer is to be seen."""
        return Shape(self.nbest is not None, self.scores, self.alignment)

    @property
    def columns(self) -> "Columns":
        """What is read of a row, and what is added to it."""
        from dragoman.decoding.bulk.rows import Columns

        return Columns(self.field or "text", self.into or "translation")

    def refuse_mistakes(self, many: bool = False) -> None:
        """What can be seen without the model; of many files, most is seen elsewhere."""
        for name, given, allowed in (
            ("format", self.format, get_args(FormatName)),
            ("engine", self.engine, get_args(EngineName)),
            ("compute", self.compute, get_args(Compute)),
        ):
            a_word(f"--{name}", given, allowed)
        self._refuse_search()
        if not many:
            self._refuse_files()
            self._refuse_formats()

    def _refuse_files(self) -> None:
        texts, source, output = self.texts, self.source, self.output
        if texts and source:
            raise ValueError("give a text or --input, not both")
        if any(text.encode(errors="ignore").decode() != text for text in texts):
            raise ValueError("the text holds half of a character: give it as UTF-8")
        if len(texts) == 1 and named(texts[0], Path.is_file):
            raise ValueError(f"{texts[0]} is a file: to translate its lines, give --input {texts[0]}")
        if source and not source.exists():
            raise ValueError(f"{source}: there is no such file")
        if source and source.is_dir():
            raise ValueError(f"{source}: this is a folder; to translate its files: --shards '{source}/*' --out FOLDER")
        if output and output.is_dir():
            raise ValueError(f"--output {output}: this is a folder; give the name of a file in it")
        if output and not output.exists() and not output.resolve().parent.is_dir():
            raise ValueError(f"--output {output}: give the name of a file in a folder that is there")
        if source and output and output.exists() and output.samefile(source):
            raise ValueError(f"--output {output} is the input: give another name")

    def _refuse_formats(self) -> None:
        kind = self.kind
        self._refuse_others()
        if kind == "text" and (self.field is not None or self.into is not None):
            whose = f"{self.source} is taken for text" if self.source else "for standard input"
            raise ValueError(f"--field and --into are for JSON lines and Parquet: {whose}, add --format jsonl")
        if self.texts and kind != "text":
            raise ValueError(f"--format {kind} is for files and standard input; a text on the command line is text")
        if kind == "parquet" and (self.source is None or self.output is None or not self.source.is_file()):
            raise ValueError("Parquet is read from a file and written to one: give --input and --output")
        other = _by_name(self.output) if self.output else None
        if other not in (None, kind) and (self.format is None or "parquet" in (other, kind)):
            raise ValueError(f"--output {self.output}: what comes in as {_SAID[kind]} goes out as {_SAID[kind]}")
        if (self.field or "text") == (self.into or "translation"):
            raise ValueError(f"--into {self.into}: the translation needs a name of its own, beside --field")

    def _refuse_others(self) -> None:
        """What is no text by its name, unless it is said to be."""
        from dragoman.decoding.bulk.formats import OTHERS

        inner = unpacked_suffix(self.source).lower() if self.source else ""
        if self.format is None and inner in OTHERS:
            anyway = "--format text translates its lines as they are"
            raise ValueError(f"{self.source}: this is {inner}, not text; {OTHERS[inner]}; {anyway}")

    def _refuse_search(self) -> None:
        a_number("--beam", self.beam, MOST_HYPOTHESES)
        a_number("--nbest", self.nbest, MOST_HYPOTHESES)
        if self.nbest is not None and self.beam is not None and self.nbest > self.beam:
            raise ValueError(f"--nbest {self.nbest} needs a beam as wide: give --beam {self.nbest} or more")
        if self.engine == "torch" and self.compute not in (None, "float32"):
            raise ValueError(f"--compute {self.compute} is for the ctranslate2 engine, and this is torch")
        if self.alignment and (self.protect or self.prefix is not None):
            other = "--protect" if self.protect else "--prefix"
            raise ValueError(f"--alignment and {other} do not go together: take one of them")
        if self.prefix is None:
            return
        if len(self.texts) != 1 or "\n" in self.texts[0]:
            raise ValueError("--prefix is for one text, given on the command line: each line would need its own")
        if self.protect:
            raise ValueError("--prefix and --protect do not go together: take one of them")


def told_apart(arguments: list[str], demo: bool) -> tuple[Path, list[str]]:
    """The model's folder and the texts."""
    from dragoman.bundle import demo_folder

    if demo:
        if arguments and named(arguments[0], _is_model):
            raise ValueError(f"--demo has a model of its own: leave out {arguments[0]}, or leave out --demo")
        return demo_folder(), arguments
    if not arguments:
        raise ValueError("which model? give its folder, as in: dragoman translate run/ 'A text.'; or try --demo")
    folder = Path(arguments[0])
    if not folder.exists() and not arguments[1:]:
        raise ValueError(f"{folder}: there is no such folder; the model comes first: dragoman translate run/ 'A text.'")
    return folder, arguments[1:]


def named_or_standard(path: Path | None) -> Path | None:
    """The file of this name; a dash stands for standard input or output, as everywhere.

    /dev/stdout may be a file that is added to, so it is never opened again.
    """
    return None if str(path) in _STANDARD else path


def named(text: str, kind: Callable[[Path], bool]) -> bool:
    """Whether a text is the name of something; what is too long for a name is a text."""
    return len(text.encode(errors="surrogateescape")) < 256 and kind(Path(text))


def _by_name(path: Path) -> FormatName | None:
    return _SUFFIXES.get(unpacked_suffix(path).lower())


def _is_model(folder: Path) -> bool:
    """A bundle, or a run with one in it."""
    return any((folder / place / "manifest.json").is_file() for place in ("", "bundle"))
