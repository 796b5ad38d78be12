"""`dragoman translate`: texts, files or a stream through a model; as many lines out as in, in the same order."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from dragoman.cli import translate_options as options
from dragoman.cli.translate_answers import Answer
from dragoman.cli.translate_asked import Asked, named_or_standard, told_apart
from dragoman.cli.translate_bulk import Shards
from dragoman.cli.translate_bursts import Bursts
from dragoman.cli.translate_formats import texts_in, translate_all
from dragoman.cli.translate_stop import ending_well

if TYPE_CHECKING:
    from dragoman.cli.translate_work import Work
    from dragoman.decoding.translator import Progress

_MANY_WORDS: Final = 150
_TELLINGS: Final = 3


def translate(
    model: options.Model = None,
    text: options.Text = None,
    demo: options.Demo = False,
    source: options.Input = None,
    output: options.Output = None,
    format_: options.Format = None,
    field: options.Field = None,
    into: options.Into = None,
    nbest: options.Nbest = None,
    scores: options.Scores = False,
    alignment: options.Alignment = False,
    no_split: options.NoSplit = False,
    protect: options.Protect = False,
    prefix: options.Prefix = None,
    beam: options.Beam = None,
    threads: options.Threads = None,
    engine: options.Engine = "auto",
    compute: options.Compute = None,
    shards: options.Shards = None,
    out: options.Out = None,
    workers: options.Workers = None,
    shard_index: options.ShardIndex = None,
    ray: options.Ray = False,
) -> None:
    """Translate with a trained model.

    One line is one text: an empty line stays empty, and lines keep their order and number. A text may have any number
    of sentences; white space and the marks of lists come back as they were.

        dragoman translate run/ "A text."

        dragoman translate run/ < a.en > a.de

        dragoman translate run/ --input a.jsonl --field question --output b.jsonl

        dragoman translate run/ --shards 'in/*.parquet' --out out/
    """
    folder, texts = told_apart([*([] if model is None else [model]), *(text or [])], demo)
    if shards is None:
        source, output = source if texts else named_or_standard(source), named_or_standard(output)
    asked = Asked(
        *(folder, texts, source, output, format_, field, into, nbest, scores, alignment),
        *(not no_split, protect, prefix, beam, threads, engine, compute),
    )
    many = Shards(shards, out, workers, shard_index, ray)
    many.refuse_mistakes(asked)
    asked.refuse_mistakes(many.pattern is not None)
    if many.pattern is not None:
        many.carry_out(asked)
        return
    with ending_well(asked.output):
        _translate(asked)


def _translate(asked: Asked) -> None:
    from dragoman.bundle import open_bundle

    bundle = open_bundle(asked.folder)
    total = texts_in(asked)
    from dragoman.cli.translate_work import Work  # heavy, so after most that may be wrong

    work = Work(asked, bundle)
    typed = asked.reads_standard_input and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("type a text and press Enter; Ctrl-D ends", file=sys.stderr)
    quiet = bool(asked.texts) or typed or (asked.output is None and sys.stdout.isatty())
    with ExitStack() as stack:
        progress = None if quiet or not sys.stderr.isatty() else _progress(stack, total)
        translate_all(asked, lambda texts: _answers(work, asked, texts, progress))


def _answers(work: "Work", asked: Asked, texts: Iterable[str], progress: "Progress | None") -> Iterator[Answer]:
    lines = texts if asked.split else told_of_long_ones(texts)
    return _in_bursts(work, lines, progress) if asked.reads_standard_input else work.answers(lines, progress)


def _in_bursts(work: "Work", lines: Iterable[str], progress: "Progress | None") -> Iterator[Answer]:
    done = 0
    answers = Bursts(lines).each(lambda burst: work.answers(burst, progress and _after(progress, done)))
    for done, answer in enumerate(answers, 1):  # noqa: B007  # a later burst asks for it
        yield answer


def _after(progress: "Progress", before: int) -> "Progress":
    return lambda done, read: progress(before + done, before + read)


def _progress(stack: ExitStack, total: int | None) -> "Progress":
    from dragoman.cli.progress import shown

    tell = stack.enter_context(shown())
    tell("translate", 0, total)
    return lambda done, _: tell("translate", done, total)


def told_of_long_ones(lines: Iterable[str]) -> Iterator[str]:
    """The same lines. Models learn from single sentences, and lose much of a whole page without a sign of it."""
    told = 0
    for number, line in enumerate(lines, 1):
        num_words = len(line.split())
        if num_words > _MANY_WORDS and told < _TELLINGS:
            told += 1
            more = "; further ones are not told" if told == _TELLINGS else ""
            print(
                f"line {number:,} has {num_words:,} words: text may be lost in it; leave out --no-split{more}",
                file=sys.stderr,
            )
        yield line
