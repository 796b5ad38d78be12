"""The options of `dragoman translate`, each with its help."""

from pathlib import Path
from typing import Annotated, Final

import typer

_FILES: Final = "Files"
_SHOWN: Final = "What is written beside the translation"
_HOW: Final = "How a text is read"
_SEARCH: Final = "Engine and search"
_BULK: Final = "Many files at once"

Model = Annotated[
    str | None, typer.Argument(metavar="MODEL", help="The folder of a model or of a run; left out with --demo.")
]
Text = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="What to translate; without it, lines are read from standard input."),
]
Demo = Annotated[bool, typer.Option("--demo", help="Use the small English-German model that is built in.")]

Input = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="FILE", rich_help_panel=_FILES, help="Translate FILE: text, .jsonl, .parquet; .gz and .zst."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=_FILES, help="Write here; FILE appears when all is translated."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="text|jsonl|parquet", rich_help_panel=_FILES, help="Of input and output; else by the name."
    ),
]
Field = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=_FILES, help="The field or column to translate; else text. Others are kept."
    ),
]
Into = Annotated[
    str | None, typer.Option(metavar="NAME", rich_help_panel=_FILES, help="The one to write; else translation.")
]

Nbest = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", rich_help_panel=_SHOWN, help="The N best: 0 ||| text ||| score, one a line."),
]
Scores = Annotated[
    bool,
    typer.Option(
        "--scores", rich_help_panel=_SHOWN, help="Log-probability under the model's length penalty: text ||| score."
    ),
]
Alignment = Annotated[
    bool,
    typer.Option("--alignment", rich_help_panel=_SHOWN, help="Which words belong together: text ||| 0-0 1-2."),
]

NoSplit = Annotated[
    bool,
    typer.Option(
        "--no-split", rich_help_panel=_HOW, help="A line is one sentence, as in test sets; else lines are split."
    ),
]
Protect = Annotated[
    bool,
    typer.Option(
        "--protect", rich_help_panel=_HOW, help="Keep URLs, e-mail addresses, numbers and placeholders as they are."
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option(metavar="TEXT", rich_help_panel=_HOW, help="What the translation begins with; for one text."),
]

Beam = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", rich_help_panel=_SEARCH, help="Hypotheses kept; else the model's own."),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", rich_help_panel=_SEARCH, help="Threads to compute with; else one for each core."),
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="auto|ctranslate2|torch",
        rich_help_panel=_SEARCH,
        help="Who computes; auto is CTranslate2 wherever it can.",
    ),
]
Compute = Annotated[
    str | None,
    typer.Option(
        metavar="float32|int16|int8",
        rich_help_panel=_SEARCH,
        help="What CTranslate2 multiplies; else float32. int8 is fastest, and may answer by the batch.",
    ),
]

Shards = Annotated[
    str | None,
    typer.Option(
        metavar="GLOB", rich_help_panel=_BULK, help="Translate every file so named, each into one of the same name."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", rich_help_panel=_BULK, help="Where they go. Run it again: what is done is kept."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", rich_help_panel=_BULK, help="Processes; else one for every two cores."),
]
ShardIndex = Annotated[
    str | None,
    typer.Option(metavar="I/N", rich_help_panel=_BULK, help="Only every N-th file, from the I-th on; from 0."),
]
Ray = Annotated[bool, typer.Option("--ray", rich_help_panel=_BULK, help="Let Ray Data hand out the files.")]
