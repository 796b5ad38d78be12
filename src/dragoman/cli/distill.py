"""`dragoman distill`: train a small, fast student on the translations of a teacher."""

import shlex
import sys
from glob import escape
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from dragoman.cli.command import ModelArgument, ToOption, model_folder, option, out_option
from dragoman.cli.train import Overrides, Processes, Time
from dragoman.cli.verbosity import is_quiet, print_note

Test = Annotated[
    tuple[str, str] | None,
    Option(metavar="SOURCE REFERENCE", help="Test pairs; default: the teacher's translations of held-out lines."),
]


def distill(
    model: ModelArgument,
    source: Annotated[Path, option("FILE", "Source text for the teacher to translate, one sentence per line.")],
    out: Annotated[Path, out_option("Folder for the translations, the student and the comparison.")],
    size: Annotated[str, option("N+N", "Layers of the student's encoder and decoder.")] = "6+1",
    test: Test = None,
    to: ToOption = None,
    time: Time = None,
    set_: Overrides = None,
    processes: Processes = None,
    workers: Annotated[
        int | None, option("N", "Worker processes that translate; default: half the cores.", least=1)
    ] = None,
) -> None:
    """Train a student on the translations of a teacher, and compare both: sequence-level distillation.

    MODEL is the teacher. It translates FILE, as dragoman translate --shards does. The student has the width of the
    teacher and learns from these pairs, as dragoman train does without a recipe: --time and --set are its options. The
    end compares BLEU on --test, with intervals, and sentences per second, measured in turns.

    DIR/student is the run of the student. The same command resumes, in each part; when all is done, it compares again.

        dragoman distill run/ --source mono.en --out small/ --test test.en test.de

        dragoman distill demo --source mono.en --out small/ --size 3+1 --time 2h
    """
    from rich.console import Console

    from dragoman.bundle import open_bundle
    from dragoman.cli.output_files import write_output
    from dragoman.cli.progress import show_progress
    from dragoman.cli.train_display import TrainingDisplay
    from dragoman.cli.translate_run import run_shards
    from dragoman.data.corpus import CorpusConfig
    from dragoman.evaluation.text_files import read_text, require_same_length
    from dragoman.experiment.autopilot import check_changes
    from dragoman.experiment.distillation import (
        COMPARISON,
        DistillFolder,
        compare_with_teacher,
        cut_shards,
        join_shards,
        parse_size,
        student_overrides,
    )
    from dragoman.experiment.request import TrainRequest
    from dragoman.experiment.run_training import run_training
    from dragoman.training.config import parse_duration
    from dragoman.training.signals import TERMINATED, Terminated
    from dragoman.translation.translate_request import TranslateRequest

    layers, folder, command = parse_size(size), DistillFolder(out), shlex.join(["dragoman", *sys.argv[1:]])
    parse_duration(time or "60m")
    teacher = open_bundle(model_folder(model)).to(to)
    sides = folder.joined(teacher)
    overrides = (*student_overrides(teacher, layers), *(set_ or ()))
    corpus = CorpusConfig(source=str(sides[0]), target=str(sides[1]))
    check_changes([corpus], folder.student.name, overrides)
    if test:
        require_same_length(*map(read_text, test))
    if not cut_shards(source, folder.shards):
        raise ValueError(f"{source} has no text: give a file with one sentence per line")
    shards = f"{escape(str(folder.shards))}/*.txt"
    run_shards(
        TranslateRequest(teacher.folder, to=to, shards=shards, out=folder.translations, workers=workers, split=False)
    )
    join_shards(folder, teacher)
    request = TrainRequest(
        out=folder.student,
        overrides=overrides,
        source=(corpus.source,),
        target=(str(corpus.target),),
        time=time,
        processes=processes,
        command=command,
    )
    with TrainingDisplay(is_quiet()) as display:
        try:
            run_training(request, progress=display.progress, on_event=display)
        except KeyboardInterrupt:
            raise Exit(130) from None
        except Terminated:
            raise Exit(TERMINATED) from None
    with show_progress() as progress:
        found = compare_with_teacher(model, folder, test, to, command, progress)
    write_output(out / COMPARISON, found.model_dump_json(indent=2) + "\n")
    console = Console(highlight=False, markup=False)
    console.print(found.report.table())
    console.print(*found.report.signatures, sep="\n", soft_wrap=True)
    if not test:
        print_note("the references are translations of the teacher itself: give --test for those of people")
    for system, speed, number, engine in zip(
        found.report.systems, found.sentences_per_second, found.parameters, found.engines, strict=True
    ):
        times = (
            f", {speed / found.sentences_per_second[0]:.2f} times as many" if system != found.report.systems[0] else ""
        )
        console.print(f"{system.name}: {speed:,.1f} sentences/s{times} ({number:,} parameters, {engine})")
