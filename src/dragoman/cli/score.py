"""`dragoman score`: compute the log-probability of given translations under a model."""

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.command import (
    PAIRS_HELP,
    FieldsOption,
    ModelArgument,
    ToOption,
    json_option,
    open_model,
    output_option,
)
from dragoman.cli.output_files import STDOUT, check_different, check_output_file, write_output


def score(
    model: ModelArgument,
    source: Annotated[str | None, typer.Option(metavar="FILE", help="Source sentences, one per line.")] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Translations of --source, one per line.")] = None,
    pairs: Annotated[str | None, typer.Option(metavar="FILE", help=f"{PAIRS_HELP}.")] = None,
    fields: FieldsOption = None,
    to: ToOption = None,
    output: Annotated[Path | None, output_option("Write to FILE instead of standard output.")] = None,
    json: Annotated[Path | None, json_option("Write one JSON object per pair")] = None,
) -> None:
    """Score given translations by their log-probability under a model.

    Prints one line per sentence pair, separated by tabs: the log-probability of the target, the mean log-probability
    per token, and the number of tokens. The perplexity over all pairs follows on standard error.

        dragoman score demo --source a.en --target a.de

        dragoman score run/ --pairs memory.tmx --output memory.scores
    """
    from dragoman.cli.progress import show_progress
    from dragoman.evaluation.text_files import read_sides

    for name, path in (("--output", output), ("--json", json)):
        if path is not None:
            check_output_file(name, path, inputs=[file for file in (source, target, pairs) if file])
    check_different(("--output", output), ("--json", json))
    sources, targets = read_sides(source, target, pairs, fields)
    bundle = open_model(model, to)
    # torch takes seconds to import: a mistyped name is reported before.
    from dragoman.decoding.torch_engine import load_model
    from dragoman.evaluation.likelihood import score_pairs, total_likelihood

    with show_progress() as progress:
        scores = score_pairs(load_model(bundle), bundle.vocab, sources.lines, targets.lines, progress=progress)
    if json is not None:
        from json import dumps

        names = {"log_probability": "log_probability", "per_token": "per_token", "tokens": "num_tokens"}
        rows = [{key: getattr(pair, name) for key, name in names.items()} for pair in scores]
        write_output(json, "".join(f"{dumps(row)}\n" for row in rows))
    if output is not None or json is None:
        lines = (f"{pair.log_probability:.4f}\t{pair.per_token:.4f}\t{pair.num_tokens}\n" for pair in scores)
        write_output(output or STDOUT, "".join(lines))
    whole = total_likelihood(scores)
    typer.echo(
        f"{len(scores):,} pairs, {whole.num_tokens:,} target tokens: "
        f"{whole.per_token:.4f} per token, perplexity {whole.perplexity:.4f}",
        err=True,
    )
