"""`dragoman triage`: rank the translations of a test set by signs of errors, with evidence."""

from pathlib import Path
from typing import Annotated

from typer import Option

from dragoman.cli.command import MODEL_HELP, PAIRS_HELP, FieldsOption, ToOption, json_option, open_model, option
from dragoman.cli.output_files import STDOUT, check_different, check_output_file, write_output


def triage(
    source: Annotated[
        str | None, Option(metavar="FILE", help="Source sentences, one per line; - for standard input.")
    ] = None,
    target: Annotated[str | None, Option(metavar="FILE", help="Translations to check; default: use --model.")] = None,
    pairs: Annotated[str | None, Option(metavar="FILE", help=f"{PAIRS_HELP}.")] = None,
    fields: FieldsOption = None,
    model: Annotated[str | None, option("MODEL", f"{MODEL_HELP[:-1]}; default without --target: `demo`.")] = None,
    to: ToOption = None,
    dev: Annotated[
        str | None,
        Option(metavar="FILE", help="Pairs with references, as for --pairs, to fit the weights of the score on."),
    ] = None,
    top: Annotated[int, Option(min=1, metavar="N", help="Show the N most suspicious lines.")] = 20,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Write an HTML report; with torch, with links to traces.")
    ] = None,
    json: Annotated[Path | None, json_option("Write the ranking as JSON lines")] = None,
    traces: Annotated[int | None, Option(min=0, metavar="N", help="Trace the N top-ranked lines; default: 20.")] = None,
) -> None:
    """Rank translations by a score of the model's own signals, and flag signs of errors, with the evidence.

    The score is the chance that a translation is bad (chrF below 40). It weighs the log-probability per token, the
    least probable token, the disagreement between the model's hypotheses, the entropy and the gaps of the attention
    that aligns, and a length that falls short. The weights were fitted on dev sets with the built-in model. For another
    model, or for translations given by --target, the score compares the lines with each other, unless --dev gives pairs
    to fit the weights on, 1,000 or more.

    Flags mark dropped source words, repetitions, untranslated text, numbers and addresses that differ, and odd lengths.
    A flag or a high score is a reason to check a translation, not a verdict; others may be wrong too.

    Without --model, two files are compared as text:

        dragoman triage --source test.en --target test.de

        dragoman triage --pairs test.xlf

    With --model, the model translates --source, or reads --target under teacher forcing:

        dragoman triage --source test.en --model run/ --dev dev.tsv --html report.html
    """
    from importlib.util import find_spec

    from rich.console import Console

    from dragoman.evaluation.text_files import read_sides, read_text
    from dragoman.triage.ranking import json_lines, rank_texts, ranking_table, summarise
    from dragoman.triage.report_page import report, traces_folder

    if traces is not None and html is None:
        raise ValueError("--traces needs an HTML report: add --html FILE")
    has_targets = target is not None or pairs is not None
    if traces and model is None and has_targets:
        raise ValueError("--traces needs a model to trace: add --model MODEL, or leave out --traces")
    if to is not None and model is None and has_targets:
        raise ValueError("--to is the target language of a model: add --model MODEL, or leave out --to")
    if dev is not None and has_targets:
        raise ValueError("--dev fits a score for the model's own translations: leave out the targets, or --dev")
    if traces and find_spec("torch") is None:
        raise ValueError("--traces needs torch: pip install 'dragoman[train]', or leave out --traces")
    check_different(("--html", html), ("--json", json))
    inputs = [name for name in (source, target, pairs, dev) if name]
    if json is not None:
        check_output_file("--json", json, inputs=inputs)
    if html is not None:
        check_output_file("--html", html, (".html", ".htm"), inputs)
        folder = traces_folder(html)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file, but traces need a folder of this name: give another --html")
    if source is not None and not has_targets:
        sources, targets = read_text(source), None
    else:
        sources, targets = read_sides(source, target, pairs, fields)
    pages: dict[int, str] = {}
    if model is None and targets is not None:
        ranked, method = rank_texts(sources.lines, targets.lines)
    else:
        bundle = open_model(model or "demo", to)
        references = None if dev is None else read_sides(None, None, dev, fields)
        # The engine takes a second to load: a mistyped name is reported before.
        from dragoman.cli.progress import show_progress
        from dragoman.triage.model_triage import TriageModel, fit_model, rank_measured, save_traces

        loaded = TriageModel.of(bundle)
        with show_progress() as progress:
            fitted = None
            if references is not None:
                fitted = fit_model(loaded, references[0].lines, references[1].lines, str(dev), progress)
            lines = loaded.measure(sources.lines, targets.lines if targets else None, progress)
            ranked, method = rank_measured(lines, loaded.sha256, targets is None, fitted)
            if html is not None and traces != 0 and find_spec("torch") is not None:
                from dragoman.inspection.inspector import Inspector

                inspector = Inspector.of(bundle)
                pages = save_traces(inspector, ranked, method, html, traces or 20, progress)
    if json is not None:
        write_output(json, json_lines(ranked))
    if html is not None:
        write_output(html, report(ranked, method, pages))
    console = Console(stderr=json == STDOUT, highlight=False, markup=False)
    has_table = json != STDOUT and any(line.is_suspect for line in ranked)
    console.print(ranking_table(ranked, top) if has_table else summarise(ranked))
    console.print(*method.sentences(), sep="\n")
    if html is not None:
        console.print(f"Report: {html}", soft_wrap=True)
