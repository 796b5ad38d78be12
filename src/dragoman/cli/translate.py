"""`dragoman translate`: translate texts, files or standard input, with one output line per input line."""

from dataclasses import fields
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from dragoman.cli.command import (
    MODEL_HELP,
    ToOption,
    check_local_folder,
    complete_model,
    model_folder,
    option,
    output_option,
)
from dragoman.device import AUTO, DEVICE_CHOICES

_file = partial(option, panel="Files")
_column = partial(option, panel="Output with the translation")
_handling = partial(option, panel="Text handling")
_search = partial(option, panel="Engine and search")
_sample = partial(option, panel="Sampling instead of search (torch engine)")
_bulk = partial(option, panel="Many files at once")

_STANDARD: Final = ("-", "/dev/stdin", "/dev/stdout")


def translate(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_model)
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Texts to translate; default: lines of standard input. Folders of models join MODEL in an ensemble.",
        ),
    ] = None,
    to: ToOption = None,
    input_: Annotated[
        Path | None,
        _file(
            "FILE",
            "Translate FILE: text, .html, .xml, .md, .srt, .po, .docx, .jsonl or .parquet; also .gz and .zst.",
            "--input",
        ),
    ] = None,
    output: Annotated[Path | None, output_option("Write to FILE instead of standard output.", "Files")] = None,
    format_: Annotated[
        str | None,
        _file(
            "text|html|xml|markdown|srt|po|docx|jsonl|parquet",
            "Format of input and output; default: by file extension.",
            "--format",
        ),
    ] = None,
    field: Annotated[str | None, _file("NAME", "JSON or Parquet field to translate; default: text.")] = None,
    into: Annotated[str | None, _file("NAME", "JSON or Parquet field to add; default: translation.")] = None,
    nbest: Annotated[int | None, _column("N", "Write an N-best list: 0 ||| text ||| score.", least=1)] = None,
    scores: Annotated[bool, _column(None, "Add the score of each translation: text ||| score.", "--scores")] = False,
    alignment: Annotated[bool, _column(None, "Add the word alignment: text ||| 0-0 1-2.", "--alignment")] = False,
    terms: Annotated[
        bool, _column(None, "Add the glossary terms of each text, used or not (JSON lines, Parquet).", "--terms")
    ] = False,
    no_split: Annotated[bool, _handling(None, "Translate each line as one sentence.", "--no-split")] = False,
    protect: Annotated[
        bool | None,
        _handling(
            None,
            "Keep addresses, placeholders, tags, code, emoji and digits, and translate capitals by their usual "
            "letter case; default: if the model translates languages.",
            "--protect/--no-protect",
        ),
    ] = None,
    prefix: Annotated[str | None, _handling("TEXT", "Make the translation of a single text begin with TEXT.")] = None,
    glossary: Annotated[
        Path | None, _handling("FILE", "Use the terms of FILE: source term, tab, target term per line.")
    ] = None,
    beam: Annotated[int | None, _search("N", "Beam size; default: the model's own.", least=1)] = None,
    mbr: Annotated[
        int | None, _search("N", "Of the N best, or N samples, choose the one most like the others (chrF).", least=2)
    ] = None,
    rerank: Annotated[
        Path | None, _search("MODEL", "Choose in the beam with a model of the opposite direction too, such as de-en/.")
    ] = None,
    threads: Annotated[int | None, _search("N", "CPU threads; default: one per core.", least=1)] = None,
    engine: Annotated[str, _search("auto|ctranslate2|torch", "Inference engine; auto prefers CTranslate2.")] = "auto",
    compute: Annotated[
        str | None,
        _search(
            "float32|int16|int8|float16",
            "CTranslate2 compute type; int8 is fastest, but results depend on the batch; float16: GPUs only.",
        ),
    ] = None,
    device: Annotated[str, _search(DEVICE_CHOICES, "Device; auto: a GPU if the engine finds one.")] = AUTO,
    sample: Annotated[bool, _sample(None, "Sample tokens at random instead of beam search.", "--sample")] = False,
    temperature: Annotated[float | None, _sample("X", "Sampling temperature; default: 1.")] = None,
    top_k: Annotated[int | None, _sample("N", "Sample from the N most probable tokens.", least=1)] = None,
    top_p: Annotated[float | None, _sample("P", "Sample from the top tokens with total probability P.")] = None,
    seed: Annotated[int | None, _sample("N", "Random seed for sampling; default: 0.", least=0)] = None,
    shards: Annotated[str | None, _bulk("GLOB", "Translate every file that matches GLOB, a path or URL.")] = None,
    out: Annotated[str | None, _bulk("DIR", "Folder or URL for the translated files of --shards.")] = None,
    workers: Annotated[
        int | None, _bulk("N", "Number of worker processes; default: half the cores, or 1 on GPUs.", least=1)
    ] = None,
    shard_index: Annotated[str | None, _bulk("I/N", "Translate share I of N of the files; I starts at 0.")] = None,
    ray: Annotated[bool, _bulk(None, "Distribute the files with Ray Data.", "--ray")] = False,
) -> None:
    """Translate with a trained model.

    Each line is one text: the output has the same number of lines in the same order, and empty lines stay empty. A text
    may have any number of sentences; white space and list markers are preserved.

        dragoman translate demo "A text."

        dragoman translate run/ < a.en > a.de

        dragoman translate run/ --input a.jsonl --field question --output b.jsonl

        dragoman translate run/ --shards 'in/*.parquet' --out out/

        dragoman translate en-de-fr/ --to fr "A text."

        dragoman translate run-1/ run-2/ run-3/ "A text."
    """
    options = dict(locals())
    from dragoman.bundle import is_model_folder
    from dragoman.cli.translate_run import run_one, run_shards
    from dragoman.translation.translate_request import TranslateRequest

    arguments = ([] if model is None else [model]) + (text or [])
    if not arguments:
        raise ValueError("no model: give a folder or `demo`, as in: dragoman translate run/ 'A text.'")
    others = list(takewhile(lambda name: is_model_folder(Path(name)), arguments[1:]))
    folder, texts = model_folder(arguments[0]), tuple(arguments[1 + len(others) :])
    if not texts and not folder.exists():
        raise ValueError(f"{folder}: no such folder: give the model first, as in: dragoman translate run/ 'A text.'")
    options |= {
        "model": folder,
        "others": tuple(model_folder(name) for name in others),
        "texts": texts,
        "input": input_ if texts or shards else _file_or_standard(input_),
        "out": _folder_or_store(out),
        "output": output if shards else _file_or_standard(output),
        "format": format_,
        "rerank": None if rerank is None else model_folder(str(rerank)),
        "split": not no_split,
        "sampling": _sampling(sample, {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}),
    }
    request = TranslateRequest(**{field.name: options[field.name] for field in fields(TranslateRequest)})
    (run_one if shards is None else run_shards)(request)


def _folder_or_store(out: str | None) -> Any:
    """Return the path of --out: a local folder, or one in an object store."""
    if out is None:
        return None
    from dragoman.io.remote_path import parse_address

    address = parse_address(out)
    if isinstance(address, Path):
        check_local_folder(address)
    return address


def _file_or_standard(path: Path | None) -> Path | None:
    """Return None for `-`, /dev/stdin and /dev/stdout, otherwise the path.

    Opening /dev/stdout again could overwrite a file that the shell opened for appending.
    """
    return None if str(path) in _STANDARD else path


def _sampling(sample: bool, options: dict[str, float | None]) -> Any:
    """Return the sampling options, or None without --sample."""
    given = {name: value for name, value in options.items() if value is not None}
    if not sample:
        for name in given:
            raise ValueError(f"--{name.replace('_', '-')} needs sampling: add --sample")
        return None
    from pydantic import ValidationError

    from dragoman.decoding.options import SamplingOptions

    try:
        return SamplingOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"--{str(first['loc'][0]).replace('_', '-')} {first['input']}: {first['msg']}") from None
