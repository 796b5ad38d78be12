"""`dragoman evaluate`: compute BLEU, chrF, TER and other metrics for models and translation files."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dragoman.cli.command import (
    PAIRS_HELP,
    DeviceOption,
    FieldsOption,
    ToOption,
    complete_model,
    json_option,
    model_folder,
    option,
    output_option,
)
from dragoman.device import AUTO, check_device


def evaluate(
    systems: Annotated[
        list[str],
        Argument(
            metavar="SYSTEM",
            help="Models (folders or `demo`) or translation files; the first is the baseline.",
            autocompletion=complete_model,
        ),
    ],
    reference: Annotated[
        list[str] | None, Option(metavar="FILE", help="Reference translations, one per line (repeatable).")
    ] = None,
    source: Annotated[str | None, Option(metavar="FILE", help="Source sentences to translate, one per line.")] = None,
    pairs: Annotated[str | None, Option(metavar="FILE", help=f"{PAIRS_HELP}; instead of the two.")] = None,
    fields: FieldsOption = None,
    to: ToOption = None,
    metrics: Annotated[
        str,
        Option(
            metavar="LIST",
            help="Metrics, separated by commas: bleu, chrf, chrf++, ter, per, wer, exact, f1 or well-formed.",
        ),
    ] = "bleu,chrf,ter",
    tokenised: Annotated[bool, Option("--tokenised", help="Compute BLEU on text that is already tokenised.")] = False,
    lower_case: Annotated[bool, Option("--lower-case", help="Compute BLEU and chrF on lower-cased text.")] = False,
    compounds: Annotated[bool, Option("--compounds", help="Split compounds at hyphens before computing BLEU.")] = False,
    ensemble: Annotated[
        bool, Option("--ensemble", help="Score all models together too: their mean probabilities, as the last system.")
    ] = False,
    beam: Annotated[int | None, option("N", "Beam size of the models; default: their own.", least=1)] = None,
    mbr: Annotated[
        int | None, option("N", "Of the N best translations, choose the one most like the others (chrF).", least=2)
    ] = None,
    rerank: Annotated[
        Path | None, option("MODEL", "Choose in the beam with a model of the opposite direction too, such as de-en/.")
    ] = None,
    comet: Annotated[
        Path | None,
        Option(metavar="PATH", help="Compute COMET too, with a COMET checkpoint (.ckpt) on this machine."),
    ] = None,
    device: DeviceOption = AUTO,
    json: Annotated[Path | None, json_option("Write a JSON report")] = None,
    output: Annotated[list[Path] | None, output_option("Write a model's translations to FILE (repeatable).")] = None,
) -> None:
    """Score translations by BLEU, chrF and TER, and by COMET on request, with confidence intervals and signatures.

    The scores equal those of the sacrebleu command. Each other system is compared with the first by paired bootstrap
    resampling. To compare with papers that report tokenised lower-cased BLEU, give --tokenised --lower-case. For lines
    of symbols there are the error rates of phonemes (per) and of words (wer), and exact match (exact); for linearised
    trees labelled F1 (f1) and the share of well-formed trees (well-formed).

        dragoman evaluate run/ --source test.en --reference test.de

        dragoman evaluate theirs.de ours.de --reference test.de

        dragoman evaluate run-1/ run-2/ --ensemble --source test.en --reference test.de

        dragoman evaluate run/ --metrics per,wer --source test.letters --reference test.phonemes
    """
    from rich.console import Console

    from dragoman.cli.output_files import STDOUT, check_different, check_output_file, write_output
    from dragoman.cli.progress import show_progress
    from dragoman.evaluation.comet import load_comet
    from dragoman.evaluation.metric_options import MetricOptions, parse_metrics
    from dragoman.evaluation.report import ModelOptions, evaluate_outputs, gather_outputs, is_bundle
    from dragoman.evaluation.text_files import read_sides, read_text

    check_device(device, "--device")
    names, paths = parse_metrics(metrics), output or []
    options = MetricOptions(tokenised=tokenised, lower_case=lower_case, compounds=compounds)
    reverse = None if rerank is None else model_folder(str(rerank))
    model_options = ModelOptions(device=device, to=to, beam=beam, mbr=mbr, rerank=reverse, ensemble=ensemble)
    if compounds and "bleu" not in names:
        raise ValueError("--compounds needs BLEU: add bleu to --metrics")
    models = [model_folder(system) for system in systems if is_bundle(system)]
    num_models = len(models) + ensemble
    if paths and len(paths) != num_models:
        raise ValueError(f"{len(paths)} --output files for {num_models} models: give one --output per model")
    inputs = [*systems, *(reference or []), *filter(None, (source, pairs))]
    for path in paths:
        check_output_file("--output", path, inputs=inputs)
    if json is not None:
        check_output_file("--json", json, inputs=inputs)
    check_different(*(("--output", path) for path in paths), ("--json", json))
    text = read_text(source) if source is not None and pairs is None else None
    references = [read_text(address) for address in reference or []]
    if pairs is not None or fields is not None:
        text, in_pairs = read_sides(source, None, pairs, fields)
        references.insert(0, in_pairs)
    if not references:
        raise ValueError("no reference translations: give --reference FILE, or --pairs FILE")
    if comet is not None and text is None:
        raise ValueError("--comet reads the source too: add --source FILE")
    comet_model = None if comet is None else load_comet(comet)
    with show_progress() as progress:
        outputs = gather_outputs(systems, text, references, progress, model_options)
        for path, of_model in zip(paths, (each for each in outputs if each.kind == "bundle"), strict=False):
            write_output(path, "".join(f"{line}\n" for line in of_model.lines))
        progress("score", 0, None)
        command = shlex.join(["dragoman", *sys.argv[1:]])
        report = evaluate_outputs(outputs, text, references, names, options, command, comet_model)
    if json is not None:
        write_output(json, report.model_dump_json(indent=2) + "\n")
    console = Console(highlight=False, markup=False, stderr=json == STDOUT)
    console.print(report.table())
    console.print(*report.signatures, sep="\n", soft_wrap=True)
    console.print(*report.notes, sep="\n", end="\n" if report.notes else "")
