"""`dragoman explain`: the arithmetic of one attention head for one word of a sentence, with the model's own numbers."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

if TYPE_CHECKING:
    from dragoman.inspection.explanation import Explanation
    from dragoman.inspection.trace import Kind

_KINDS: Final = ("encoder", "cross", "decoder")


def explain(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="A sentence of your own.")],
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A model or a run; else the demo, English to German.")
    ] = None,
    word: Annotated[
        str | None, typer.Option(metavar="WORD", help="A word or its number from 0; else the longest.")
    ] = None,
    layer: Annotated[int, typer.Option(metavar="N", help="Counted from 0; -1 is the last.")] = 0,
    head: Annotated[
        int | None, typer.Option(metavar="N", help="Counted from 0; else the most instructive one.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="encoder: the source looks at itself. cross: the target looks at the source. decoder: the target "
            "looks at itself. Else the first of them that the model has.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="For cross and decoder: a translation; else the model's own.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page for the browser instead.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all numbers instead; - for here.")] = None,
) -> None:
    """Explain one attention head step by step, with real numbers.

    As a teacher would write it on a board: embedding and position, query, keys and values, scores, the division by the
    root of d_k, the mask, softmax, the mix of values, and what the head adds. You can check it with a calculator.

        dragoman explain "I ate an apple."

        dragoman explain "I ate an apple." --kind cross --html apple.html

    With cross and decoder the word is one of the target: the step that writes it is explained.
    """
    _refuse_mistakes(text, kind, html, json)
    (sentence,) = text
    from dragoman.bundle import demo_folder, open_bundle

    bundle = open_bundle(model or demo_folder())
    # torch takes seconds to import: whoever has mistyped a name is told before.
    from dragoman.inspection import explanation
    from dragoman.inspection.inspector import Inspector

    lesson = explanation.explain(
        Inspector.of(bundle), sentence, target, kind=cast("Kind | None", kind), word=word, layer=layer, head=head
    )
    texts: dict[Path, str] = {}
    if html:
        from dragoman.inspection.explanation.page import page

        texts[html] = page(lesson)
    if json:
        texts[json] = json_format.dumps(explanation.as_json(lesson), ensure_ascii=False, indent=1) + "\n"
    _write(texts)
    if not texts:
        _print(lesson)


def _refuse_mistakes(text: list[str], kind: str | None, html: Path | None, json: Path | None) -> None:
    from dragoman.cli import inspect_files

    if len(text) > 1:
        raise ValueError("put the sentence into quotes: one, not more")
    if not text[0].strip():
        raise ValueError("there is nothing to explain: give a sentence, as in: dragoman explain 'I ate an apple.'")
    if kind is not None and kind not in _KINDS:
        raise ValueError(f"--kind {kind}: choose {', '.join(_KINDS[:-1])} or {_KINDS[-1]}")
    if html and json and html.resolve() == json.resolve():
        raise ValueError(f"--html and --json both name {html}: give two names")
    inspect_files.refuse({option: path for option, path in (("html", html), ("json", json)) if path is not None})


def _write(texts: dict[Path, str]) -> None:
    """Each to its file, whose name is said where it is not read by a program."""
    from dragoman.cli.inspect_files import STANDARD_OUTPUT, put

    for path, text in texts.items():
        put(path, text)
        if path != STANDARD_OUTPUT:
            typer.echo(f"wrote {path}", err=STANDARD_OUTPUT in texts)


def _print(lesson: "Explanation") -> None:
    from rich.console import Console

    from dragoman.inspection.explanation.text import lesson as shown

    Console(highlight=False, soft_wrap=True).print(shown(lesson))
