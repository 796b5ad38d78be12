"""A request to translate: all options of `dragoman translate`, checked before anything is loaded."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final, get_args

from dragoman.decoding.checks import check_choice, check_int
from dragoman.decoding.options import MOST_HYPOTHESES, Compute, EngineName, SamplingOptions
from dragoman.device import AUTO, check_device
from dragoman.io.remote_path import AnyPath
from dragoman.io.streams import is_same_file, suggest_path
from dragoman.translation.file_formats import MARKUP, FieldNames, FormatName, format_by_name, refuse_unsupported

_FORMAT_TITLES: Final[dict[FormatName, str]] = {
    "text": "text",
    "jsonl": "JSON lines",
    "parquet": "Parquet",
    "html": "HTML",
    "xml": "XML",
    "markdown": "Markdown",
    "srt": "subtitles",
    "po": "gettext",
    "docx": "a Word document",
}
_FOR_SHARDS: Final = ("out", "workers", "shard_index", "ray")
_EXCLUSIVE: Final = {
    "shards": (
        "others",
        "texts",
        "input",
        "output",
        "format",
        "nbest",
        "scores",
        "alignment",
        "terms",
        "prefix",
        "mbr",
        "rerank",
    ),
    "sampling": ("nbest", "beam", "prefix", "glossary", "rerank"),
    "prefix": ("glossary", "mbr", "rerank"),
    "glossary": ("mbr", "rerank"),
    "mbr": ("rerank",),
}
"""Options that cannot be combined."""
_TITLES: Final = {"texts": "a text", "others": "several models", "sampling": "--sample"}


@dataclass(frozen=True)
class TranslateRequest:
    """A request to translate texts, files or shards. The fields are named like the options on the command line."""

    model: Path
    others: tuple[Path, ...] = ()
    """Models that translate together with `model`, as an ensemble."""
    texts: tuple[str, ...] = ()
    to: str | None = None
    """The target language; None: the only one of the model."""
    input: Path | None = None
    """The input file; None: standard input, if there are no texts."""
    output: Path | None = None
    """The output file; None: standard output."""
    format: FormatName | None = None
    """The file format; None: according to the extension of the input."""
    field: str | None = None
    into: str | None = None
    nbest: int | None = None
    scores: bool = False
    alignment: bool = False
    terms: bool = False
    """Add the terms of the glossary that each text contains, used or not."""
    split: bool = True
    protect: bool | None = None
    """Keep placeholders, addresses, code, emoji and numbers; None: if the model's bundle says so."""
    prefix: str | None = None
    glossary: Path | None = None
    """A table of source terms and target terms that translations use."""
    beam: int | None = None
    mbr: int | None = None
    """The number of hypotheses among which minimum Bayes risk chooses."""
    rerank: Path | None = None
    """The model of the opposite direction that chooses among the hypotheses of the beam."""
    threads: int | None = None
    engine: EngineName = "auto"
    compute: Compute | None = None
    device: str = AUTO
    sampling: SamplingOptions | None = None
    shards: str | None = None
    """Glob pattern or fsspec URL of input files, each translated to a file of the same name in `out`."""
    out: AnyPath | None = None
    """The folder of the translated shards, which may be in an object store, like the shards."""
    workers: int | None = None
    """The number of worker processes; None: one per two cores."""
    shard_index: str | None = None
    ray: bool = False

    def __post_init__(self) -> None:
        check_choice("--format", self.format, get_args(FormatName))
        check_choice("--engine", self.engine, get_args(EngineName))
        check_choice("--compute", self.compute, get_args(Compute))
        check_device(self.device, "--device")
        check_int("--beam", self.beam, MOST_HYPOTHESES)
        check_int("--nbest", self.nbest, MOST_HYPOTHESES)
        check_int("--mbr", self.mbr, MOST_HYPOTHESES)
        if self.fields.text == self.fields.into:
            raise ValueError(f"--into {self.fields.into} is also the field to translate: give another name with --into")
        self._check_combinations()
        if self.shards is None:
            self._check_files()
            self._check_formats()

    @property
    def kind(self) -> FormatName:
        """The file format of both input and output."""
        return self.format or (self.input and format_by_name(self.input)) or "text"

    @property
    def fields(self) -> FieldNames:
        """The name of the field to translate, and of the field to add for the translation."""
        return FieldNames(self.field or "text", self.into or "translation")

    @property
    def reads_standard_input(self) -> bool:
        return not self.texts and self.input is None

    def _given(self, *options: str) -> list[str]:
        """Return the options that were given, as written on the command line."""
        given = [option for option in options if getattr(self, option) not in (None, False, ())]
        return [_TITLES.get(option, f"--{option.replace('_', '-')}") for option in given]

    def _check_combinations(self) -> None:
        if self.shards is None:
            for option in self._given(*_FOR_SHARDS):
                raise ValueError(f"{option} needs --shards: name the input files, as in --shards 'in/*.parquet'")
        elif self.out is None:
            raise ValueError("--shards needs an output folder: give --out DIR")
        for option, others in _EXCLUSIVE.items():
            for one, other in product(self._given(option), self._given(*others)):
                quotes = "; put the pattern in quotes, as in --shards 'in/*.parquet'" if other == "a text" else ""
                raise ValueError(f"{one} and {other} cannot be combined: give only one of them{quotes}")
        if self.nbest is not None and self.beam is not None and self.nbest > self.beam:
            raise ValueError(f"--nbest {self.nbest} is more than --beam {self.beam}: give --beam {self.nbest} or more")
        if self.nbest is not None and self.mbr is not None and self.nbest > self.mbr:
            raise ValueError(f"--nbest {self.nbest} is more than --mbr {self.mbr}: give --mbr {self.nbest} or more")
        if self.engine == "torch" and self.compute not in (None, "float32"):
            raise ValueError(f"--compute {self.compute} does not work with --engine torch: give --engine ctranslate2")
        if self.prefix is not None and (len(self.texts) != 1 or "\n" in self.texts[0]):
            raise ValueError("--prefix needs exactly one text of one line: give that text on the command line")
        if self.terms and self.glossary is None:
            raise ValueError("--terms needs a glossary: give --glossary FILE")

    def _check_files(self) -> None:
        texts, source, output = self.texts, self.input, self.output
        if texts and source:
            raise ValueError("a text and --input cannot be combined: give only one of them")
        if any(text.encode(errors="ignore").decode() != text for text in texts):
            raise ValueError("the text on the command line is not valid UTF-8: give the text as UTF-8")
        if len(texts) == 1 and _is_file(texts[0]):
            raise ValueError(f"{texts[0]} is a file: to translate the file, give --input {texts[0]}")
        if source and not source.exists():
            raise ValueError(f"--input {source}: there is no such file{suggest_path(str(source))}")
        if source and source.is_dir():
            raise ValueError(f"--input {source} is a folder: translate its files with --shards '{source}/*' --out DIR")
        if output and output.is_dir():
            raise ValueError(f"--output {output} is a folder: give the path of a file")
        if output and not output.exists() and not output.resolve().parent.is_dir():
            raise ValueError(f"--output {output}: the folder does not exist: create the folder, or give another path")
        if source and output and is_same_file(source, output):
            raise ValueError(f"--output {output} is also the input: give another path")

    def _check_formats(self) -> None:
        kind, source, output = self.kind, self.input, self.output
        if source and self.format is None:
            refuse_unsupported(source, ", or give --format text to translate its lines")
        if kind in MARKUP:
            self._check_markup()
        if kind == "docx" and (source is None or output is None or source.suffix.lower() != ".docx"):
            raise ValueError(
                "a Word document needs an input file and an output file: give --input FILE.docx and --output"
            )
        if kind == "text" and (self.field is not None or self.into is not None):
            what = f"{source} is" if source else "the input is"
            raise ValueError(f"--field and --into need JSON lines or Parquet, but {what} text: give --format jsonl")
        if kind == "text" and self.terms:
            raise ValueError("--terms needs JSON lines or Parquet, but the input is text: give --format jsonl")
        if self.texts and kind in ("jsonl", "parquet"):
            raise ValueError(f"--format {kind} needs a file or standard input: give --input instead of a text")
        if kind == "parquet" and (source is None or output is None or not source.is_file()):
            raise ValueError("Parquet needs an input file and an output file: give --input and --output")
        other = format_by_name(output) if output else None
        if other not in (None, kind) and (self.format is None or "parquet" in (other, kind)):
            title = _FORMAT_TITLES[kind]
            raise ValueError(f"--output {output}: the format is {title}, as in the input: change the extension")

    def _check_markup(self) -> None:
        title = _FORMAT_TITLES[self.kind]
        for option in self._given("field", "into", "nbest", "scores", "alignment", "terms", "prefix"):
            raise ValueError(f"{option} does not work with {title}: leave it out, or give --format text")
        if not self.split:
            raise ValueError(f"--no-split does not work with {title}: leave it out")


def _is_file(text: str) -> bool:
    """Return True if a text is the path of an existing file; a text of 256 bytes or more is not."""
    return len(text.encode(errors="surrogateescape")) < 256 and Path(text).is_file()
