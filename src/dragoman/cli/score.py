"""`dragoman score`: how probable a model finds translations that are given."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model's folder.")],
    source: Annotated[str, typer.Option(metavar="FILE", help="Sentences.")],
    target: Annotated[str, typer.Option(metavar="FILE", help="Their translations, line by line.")],
    json_lines: Annotated[bool, typer.Option("--json-lines", help="Print JSON, one object a line.")] = False,
) -> None:
    """Show how probable a model finds given translations.

    For each pair a line with the log-probability of the target, the same per token, and the number of tokens, tabs
    between them. The perplexity of the whole comes last, on standard error.
    """
    from dragoman.bundle import open_bundle
    from dragoman.cli.progress import shown
    from dragoman.evaluation.text import read_text, require_same_length

    sources, targets = read_text(source), read_text(target)
    require_same_length(sources, targets)
    bundle = open_bundle(model)
    # torch takes seconds to import: whoever has mistyped a name is told before.
    from dragoman.decoding.torch_engine import load_model
    from dragoman.evaluation.likelihood import likelihoods, together

    with shown() as progress:
        scores = likelihoods(load_model(bundle), bundle.vocab, sources.lines, targets.lines, progress=progress)
    show = _json if json_lines else _columns
    sys.stdout.writelines(f"{show(of_one.log_probability, of_one.per_token, of_one.num_tokens)}\n" for of_one in scores)
    whole = together(scores)
    typer.echo(
        f"{len(scores):,} pairs, {whole.num_tokens:,} target tokens: "
        f"{whole.per_token:.4f} per token, perplexity {whole.perplexity:.4f}",
        err=True,
    )


def _columns(log_probability: float, per_token: float, num_tokens: int) -> str:
    return f"{log_probability:.4f}\t{per_token:.4f}\t{num_tokens}"


def _json(log_probability: float, per_token: float, num_tokens: int) -> str:
    return json.dumps({"log_probability": log_probability, "per_token": per_token, "tokens": num_tokens})
