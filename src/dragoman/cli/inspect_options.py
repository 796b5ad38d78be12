"""The options of `dragoman inspect`, each with its help."""

from pathlib import Path
from typing import Annotated, Final

import typer

_WHERE: Final = "What to look at"
_WHAT_IF: Final = "What if"
_FILES: Final = "Files"

Sentence = Annotated[
    list[str] | None, typer.Argument(metavar="SENTENCE", help="What to translate; left out with --trace.")
]
Model = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="A model or a run; else the small demo, English to German.")
]
TraceFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Open what --save has kept; that needs no model.")]
Target = Annotated[
    str | None, typer.Option(metavar="TEXT", help="A translation that is given, instead of the model's own.")
]
Beam = Annotated[int | None, typer.Option(min=1, metavar="N", help="Hypotheses kept; else the model's own.")]
Kind = Annotated[
    str | None,
    typer.Option(metavar="cross|encoder|decoder", rich_help_panel=_WHERE, help="Who looks at whom; else cross."),
]
Layer = Annotated[
    int | None, typer.Option(metavar="N", rich_help_panel=_WHERE, help="Which layer, from 0; -1 is the last.")
]
Head = Annotated[
    str | None, typer.Option(metavar="N|mean", rich_help_panel=_WHERE, help="Which head, from 0, or their mean.")
]
Rows = Annotated[
    str | None,
    typer.Option(
        metavar="written|read",
        rich_help_panel=_WHERE,
        help="Whose row it is: the token just written, or the one just read.",
    ),
]
Measure = Annotated[
    str | None,
    typer.Option(metavar="attention|norm", rich_help_panel=_WHERE, help="Weights, or norms of what was weighted."),
]
Words = Annotated[bool, typer.Option("--words", rich_help_panel=_WHERE, help="Merge pieces to words.")]
HideSinks = Annotated[
    bool,
    typer.Option(
        "--hide-sinks", rich_help_panel=_WHERE, help="Leave out marks and punctuation, and renormalise the rows."
    ),
]
Heads = Annotated[
    bool,
    typer.Option(
        "--heads", rich_help_panel=_WHERE, help="Every head with its label and the evidence, instead of a map."
    ),
]
Without = Annotated[
    str | None, typer.Option(metavar="HEADS", rich_help_panel=_WHAT_IF, help="Switch heads off and translate again.")
]
Uniform = Annotated[
    str | None,
    typer.Option(
        metavar="HEADS", rich_help_panel=_WHAT_IF, help="Let heads look everywhere alike, and translate again."
    ),
]
Counterfactual = Annotated[
    bool,
    typer.Option(
        "--counterfactual",
        rich_help_panel=_WHAT_IF,
        help="How many first choices of the model stay so if cross-attention is permuted, or uniform.",
    ),
]
SvgFile = Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="The map, for pages.")]
PngFile = Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="The map, in dots.")]
PdfFile = Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="The map, for paper.")]
HtmlFile = Annotated[
    Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="A page with every map to choose from.")
]
JsonFile = Annotated[
    Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="Tokens, probabilities and the map.")
]
CsvFile = Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="The numbers of the map.")]
MosesFile = Annotated[
    Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="Links between words: 0-0 1-2.")
]
SaveFile = Annotated[
    Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="All of it, for --trace: a .trace file.")
]
History = Annotated[
    bool, typer.Option("--history", rich_help_panel=_FILES, help="Keep the candidates of the search in --save.")
]
