"""`dragoman explain`: show step by step how one attention head computes its output for one word."""

from pathlib import Path
from typing import Annotated, cast

import typer

from dragoman.cli.command import MODEL_HELP, ToOption, check_map_options, json_option, open_model, option
from dragoman.cli.output_files import STDOUT, check_different, check_output_file, write_output
from dragoman.cli.verbosity import is_quiet


def explain(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="Sentence to explain, in quotes.")],
    model: Annotated[str, option("MODEL", MODEL_HELP)] = "demo",
    to: ToOption = None,
    word: Annotated[str | None, option("WORD", "Word to explain, or its index from 0; default: the longest.")] = None,
    row: Annotated[int | None, option("N", "Row of the map to explain, counted from 0, instead of a word.")] = None,
    layer: Annotated[int, option("N", "Layer of the head, counted from 0; -1 is the last.")] = 0,
    head: Annotated[int | None, option("N", "Head, counted from 0; default: the most instructive head.")] = None,
    key: Annotated[int | None, option("N", "Key to work through, counted from 0; default: largest weight.")] = None,
    kind: Annotated[str | None, option("encoder|cross|decoder", "Kind of attention; default: first in model.")] = None,
    target: Annotated[
        str | None, option("TEXT", "Target text for cross and decoder attention; default: the model's translation.")
    ] = None,
    html: Annotated[Path | None, option("FILE", "Write the studio's page to FILE instead of printing.")] = None,
    json: Annotated[Path | None, json_option("Write JSON instead of printing")] = None,
) -> None:
    """Explain one attention head step by step, with real numbers.

    Prints every step with its values, to check with a calculator: embedding and position, query, keys and values,
    scores, the division by the root of d_k, the mask, softmax, the weighted sum of values, and the head's output.

        dragoman explain "I ate an apple."

        dragoman explain "I ate an apple." --kind cross --html apple.html

    Kinds of attention: with encoder, the source attends to itself; with cross, the target attends to the source; with
    decoder, the target attends to itself. For cross and decoder, WORD is a target word, and the command explains the
    step that writes WORD.
    """
    if len(text) > 1:
        raise ValueError("several arguments: put the sentence in quotes, and give the model with --model")
    if not text[0].strip():
        raise ValueError("the sentence is empty: give some text, as in: dragoman explain 'I ate an apple.'")
    check_map_options(kind)
    if word is not None and row is not None:
        raise ValueError("--word and --row both choose the word: leave one out")
    check_different(("--html", html), ("--json", json))
    if html is not None:
        check_output_file("--html", html, (".html", ".htm"))
    if json is not None:
        check_output_file("--json", json, () if json == STDOUT else (".json",))
    bundle = open_model(model, to)
    # torch takes seconds to import: a mistyped name is reported before.
    from dragoman.attention.kinds import Kind
    from dragoman.inspection import explanation
    from dragoman.inspection.explanation.terminal_text import ExplanationText
    from dragoman.inspection.inspector import Inspector

    inspector = Inspector.of(bundle)
    kind = cast("Kind | None", kind)
    lesson = explanation.explain(
        inspector, text[0], target, kind=kind, word=word, row=row, layer=layer, head=head, key=key
    )
    if html is not None:
        write_output(html, explanation.page(inspector, lesson))
    if json is not None:
        write_output(json, explanation.to_json(lesson))
    for path in (html, json):
        if path not in (None, STDOUT) and not is_quiet():
            typer.echo(f"wrote {path}", err=json == STDOUT)
    if html is None and json is None:
        from rich.console import Console

        Console(highlight=False, soft_wrap=True).print(ExplanationText(lesson))
