"""Every mistake that can be made with `dragoman translate` is one clear line and exit code 2, and leaves nothing."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fork_server import DRAGOMAN

from dragoman.bundle import open_bundle
from dragoman.bundle.writing import write_bundle
from dragoman.io import hashed_json

MODEL = str(Path(__file__).parents[1] / "golden" / "v1")

Mistake = Callable[[Path], list[str]]


def with_input(content: bytes, name: str = "a.en", *options: str) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        (folder / name).write_bytes(content)
        return [MODEL, "--input", str(folder / name), "--output", str(folder / "a.de"), *options]

    return mistake


def with_json(content: str, *options: str) -> Mistake:
    return with_input(content.encode(), "a.jsonl", *options)


def with_parquet(*options: str, **columns: object) -> Mistake:
    def mistake(folder: Path) -> list[str]:
        pq.write_table(pa.table(columns), folder / "a.parquet")
        return [MODEL, "--input", str(folder / "a.parquet"), "--output", str(folder / "a.de"), *options]

    return mistake


def given(*arguments: str) -> Mistake:
    return lambda _: [MODEL, *arguments]


def prepared(folder: Path) -> list[str]:
    (folder / "manifest.json").write_bytes(hashed_json.render({"format_version": 1, "corpora": []}))
    return [str(folder), "text"]


def damaged(folder: Path) -> list[str]:
    shutil.copytree(MODEL, folder / "model")
    with (folder / "model" / "model.safetensors").open("ab") as file:
        file.write(b"x")
    return [str(folder / "model"), "text"]


def onto_itself(folder: Path) -> list[str]:
    with_input(b"two\n")(folder)
    return [MODEL, "--input", str(folder / "a.en"), "--output", str(folder / "a.en")]


def a_file_for_a_text(folder: Path) -> list[str]:
    with_input(b"two\n")(folder)
    return [MODEL, str(folder / "a.en")]


def without_attention(folder: Path) -> list[str]:
    from dragoman.models.build import build
    from dragoman.models.config import RecurrentConfig
    from dragoman.models.weights import weights_of

    golden = open_bundle(Path(MODEL))
    config = RecurrentConfig(context="first", source_vocabulary=300, target_vocabulary=300, d_model=8, d_embedding=6)
    info = golden.info.model_copy(update={"model": config})
    write_bundle(folder / "blind", info, weights_of(build(config)), golden.vocab, golden.card)
    return [str(folder / "blind"), "two", "--alignment", "--output", str(folder / "a.de")]


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "an alignment by a model without attention": (without_attention, "this model cannot align"),
    "no model at all": (lambda _: [], "no model: give a folder or `demo`"),
    "a text and no model": (lambda _: ["A text."], "A text.: no such folder: give the model first"),
    "a folder that is not there": (lambda f: [str(f / "nowhere"), "text"], "there is no such folder"),
    "a folder without a model": (lambda f: [str(f), "text"], "a folder that dragoman train has written"),
    "a prepared folder": (prepared, "this is a prepared folder, not a model"),
    "a damaged model": (damaged, "model.safetensors: the file has 76537 bytes instead of 76536"),
    "a file for a model": (lambda _: [__file__, "text"], "this is a file, not a model"),
    "a file for a text": (a_file_for_a_text, "to translate the file, give --input"),
    "a text and an input": (given("text", "--input", __file__), "a text and --input cannot be combined"),
    "an input that is not there": (lambda f: [MODEL, "--input", str(f / "a.en")], "a.en: there is no such file"),
    "an output in no folder": (
        lambda f: [MODEL, "text", "--output", str(f / "b" / "a.de")],
        "the folder does not exist",
    ),
    "an output that is a folder": (
        lambda f: [MODEL, "text", "--output", str(f)],
        "is a folder: give the path of a file",
    ),
    "an input that is a folder": (lambda f: [MODEL, "--input", str(f)], "is a folder: translate its files"),
    "Parquet from a pipe": (
        given("--input", "/dev/null", "--format", "parquet", "--output", "a.parquet"),
        "Parquet needs an input file",
    ),
    "JSON": (with_input(b"[1]\n", "a.json"), "a.json: .json files are not supported"),
    "packed CSV": (with_input(b"a,b\n", "a.csv.gz"), "give --format text to translate its lines"),
    "a name for the translation of lines": (
        with_input(b"a\n", "a.en", "--into", "q"),
        "a.en is text: give --format jsonl",
    ),
    "a text and a dash": (given("text", "--input", "-"), "a text and --input cannot be combined"),
    "an output that is the input": (onto_itself, "is also the input: give another path"),
    "a line that is not UTF-8": (with_input(b"two\nr\xe4d\ndogs\n"), "a.en: line 2 is not UTF-8"),
    "UTF-16": (with_input("two red dogs.\n".encode("utf-16")), "this looks like UTF-16 text"),
    "half a character": (lambda _: [MODEL, os.fsdecode(b"two \xff")], "not valid UTF-8"),
    "a gzip file that is none": (with_input(b"two\n", "a.gz"), "a.gz: not gzip"),
    "Parquet by another name": (with_input(b"PAR1", "a.en"), "rename the file to .parquet, or give --format parquet"),
    "an unknown format": (
        given("--format", "csv"),
        "--format csv: give text, jsonl, parquet, html, xml, markdown, srt, po or docx",
    ),
    "an unknown engine": (given("a", "--engine", "onnx"), "--engine onnx: give auto, ctranslate2 or torch"),
    "an unknown way to compute": (
        given("a", "--compute", "int4"),
        "--compute int4: give float32, int16, int8 or float16",
    ),
    "a field of a text": (given("a", "--field", "b"), "--field and --into need JSON lines or Parquet"),
    "a text as JSON": (given("a", "--format", "jsonl"), "--format jsonl needs a file or standard input"),
    "Parquet to standard output": (lambda f: with_parquet(text=["a"])(f)[:3], "give --input and --output"),
    "Parquet into JSON lines": (
        lambda f: [*with_parquet(text=["a"])(f)[:3], "--output", str(f / "a.jsonl")],
        "the format is Parquet",
    ),
    "JSON lines into text": (
        lambda f: [*with_json('{"text": "a"}\n')(f)[:3], "--output", str(f / "a.txt")],
        "the format is JSON lines",
    ),
    "a translation onto its text": (with_json("{}\n", "--into", "text"), "--into text is also the field to translate"),
    "a line that is no JSON": (with_json('{"text": "a"}\n{"text": \n'), "a.jsonl, line 2: the line is not JSON"),
    "a line that is no object": (with_json('{"text": "a"}\n\n[1]\n'), "a.jsonl, line 3: `[1]` is not a JSON object"),
    "a line without the field": (
        with_json('{"text": "a"}\n{"txt": "a", "b": 1}\n'),
        "a.jsonl, line 2: no field 'text' (fields: 'txt', 'b'): name the text field with --field",
    ),
    "a field that is no text": (with_json('{"text": 7}\n'), "line 1: the field 'text' is 7: write a string or null"),
    "a field that is taken": (with_json('{"text": "a", "translation": 1}\n'), "the field 'translation' exists already"),
    "half a character in JSON": (with_json('{"text": "a"}\n{"text": "\\ud800"}\n'), "a lone surrogate"),
    "no such column": (with_parquet("--field", "english", text=["a"]), "no column 'english' (columns: 'text')"),
    "a column that is no text": (with_parquet(text=[1, 2]), "column 'text' holds int64, not text"),
    "a column that is taken": (with_parquet(text=["a"], translation=["b"]), "the column 'translation' exists already"),
    "Parquet that is none": (with_input(b"PAR1 and no more", "a.parquet"), "not a valid Parquet file"),
    "more than the beam": (given("a", "--nbest", "5", "--beam", "4"), "--nbest 5 is more than --beam 4"),
    "more than the model's beam": (given("a", "--nbest", "4"), "--nbest 4 is more than the beam size 3"),
    "int8 by torch": (
        given("a", "--engine", "torch", "--compute", "int8"),
        "--compute int8 does not work with --engine torch",
    ),
    "an export that is not there": (given("a", "--engine", "ctranslate2"), "the ctranslate2 engine cannot be used"),
    "a temperature without sampling": (given("a", "--temperature", "2"), "--temperature needs sampling: add --sample"),
    "a temperature of nothing": (given("a", "--sample", "--temperature", "0"), "--temperature 0"),
    "a share beyond all": (given("a", "--sample", "--top-p", "1.5"), "--top-p 1.5"),
    "a sample of the best": (given("a", "--sample", "--nbest", "2"), "--sample and --nbest cannot be combined"),
    "a sample by CTranslate2": (
        given("a", "--sample", "--engine", "ctranslate2"),
        "the ctranslate2 engine cannot be used",
    ),
    "a prefix of many": (given("a", "b", "--prefix", "c"), "--prefix needs exactly one text"),
    "a prefix of standard input": (given("--prefix", "c"), "--prefix needs exactly one text"),
    "a beam beyond reason": (given("a", "--beam", "100000"), "--beam 100,000 is too large: give 1,000 or less"),
    "a prefix of no text": (given("", "--prefix", "c"), "no sentence to translate with the prefix: give a sentence"),
    "a prefix of nothing": (given(" ", "--prefix", "c"), "give a sentence"),
    "shards and an input": (
        given("--shards", "*", "--out", "b", "--input", "a"),
        "--shards and --input cannot be combined",
    ),
    "shards and a text": (
        given("a", "--shards", "*", "--out", "b"),
        "give only one of them; put the pattern in quotes, as in",
    ),
    "shards to nowhere": (given("--shards", "*.parquet"), "--shards needs an output folder: give --out DIR"),
    "workers for one file": (given("a", "--workers", "2"), "--workers needs --shards"),
    "a folder for one file": (given("a", "--out", "b"), "--out needs --shards"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, tmp_path: Path) -> None:
    mistake, named = MISTAKES[name]
    arguments = mistake(tmp_path)
    there = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [DRAGOMAN, "translate", *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, b""), done.stderr.decode()
    assert done.stderr.decode().startswith("error: ")
    assert done.stderr.count(b"\n") == 1, done.stderr.decode()
    assert named in done.stderr.decode()
    assert sorted(tmp_path.iterdir()) == there
