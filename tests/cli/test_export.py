"""`dragoman export` as installed: what was compared is said, what cannot be exported too, and mistakes in one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fork_server import DRAGOMAN

from dragoman.bundle import BundleInfo, Card, ExportCheck, demo_folder, open_bundle, write_bundle
from dragoman.cli.export import describe_check, find_torch_only_option
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.weights import weights_of

GOLDEN = Path(__file__).parents[1] / "golden"
ENGLISH = ["ten old houses.", "two red dogs.", "", "four green women."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "v1", tmp_path / "model")
    (tmp_path / "test.en").write_text("".join(f"{line}\n" for line in ENGLISH), encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str, command: str = "export", **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", **more}
    return subprocess.run(
        [DRAGOMAN, command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_it_says_what_was_compared_and_what_was_kept(folder: Path) -> None:
    done = run(folder, "model", "--texts", "test.en", "--store", "float32", "--store", "int8")
    assert done.returncode == 0, done.stderr
    assert "float32: 3 of 3 sentences of test.en" in done.stdout
    bundle = open_bundle(folder / "model")
    assert [(export.store, export.kept) for export in bundle.exports] == [("float32", True), ("int8", True)]
    for export in bundle.exports:
        assert f"exported: model: {export.file.file} (" in done.stdout
    assert f"hash is now {bundle.sha256[:12]}" in done.stdout


def test_a_description_is_enough_and_made_up_text_is_called_so(folder: Path) -> None:
    done = run(folder, "model", "--derived")
    assert done.returncode == 0, done.stderr
    assert "sentences of made-up text (give --texts for real sentences)" in done.stdout
    (export,) = open_bundle(folder / "model").exports
    assert (export.kept, export.proof.held_out) == (False, False)


def test_a_run_is_tried_on_what_it_kept_from_training(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "model").rename(folder / "run" / "bundle")
    shutil.copy(folder / "test.en", folder / "run" / "dev.source")
    shutil.copy(folder / "test.en", folder / "run" / "dev.target")
    (folder / "run" / "recipe.yaml").write_text(
        "name: phrases\ndata:\n  train:\n  - {name: train, source: train.en, target: train.de}\n"
        "  dev: {name: dev, source: dev.source, target: dev.target}\n",
        encoding="utf-8",
    )
    done = run(folder, "run")
    assert done.returncode == 0, done.stderr
    assert "float32: 3 of 3 sentences of the dev set" in done.stdout
    assert open_bundle(folder / "run").exports[0].proof.held_out
    (folder / "run" / "dev.source").unlink()
    assert "sentences of made-up text" in run(folder, "run").stdout


def test_a_rounded_one_says_how_to_use_it_what_it_saves_and_how_much_it_changes(exported: Path, folder: Path) -> None:
    shutil.copytree(exported, folder / "exported")
    done = run(folder, "exported", "--texts", "test.en", "--store", "int8")
    assert done.returncode == 0, done.stderr
    plain, rounded = open_bundle(folder / "exported").exports
    said = f"({rounded.file.num_bytes / 1e6:.1f} MB instead of {plain.file.num_bytes / 1e6:.1f} MB in float32, and"
    assert said in done.stdout
    assert done.stdout.endswith("to use int8: dragoman translate exported --compute int8\n")
    others = rounded.proof.texts - rounded.proof.identical
    assert ("\nwarning: " in done.stdout) == (others > 0.2 * rounded.proof.texts)


@pytest.mark.parametrize(("identical", "warned"), [(142, True), (160, False), (159, True)])
def test_a_warning_tells_of_more_than_a_fifth(identical: int, warned: bool) -> None:
    check = ExportCheck(texts=200, identical=identical, largest_difference=0.5, mean_difference=0.02, held_out=True)
    text = describe_check("int8", check, "the dev set")
    assert text.startswith(f"int8: {identical} of 200 sentences of the dev set")
    assert (f"\nwarning: {200 - identical} " in text) == warned


@pytest.mark.parametrize(
    ("search", "alone"),
    [({"stop": "count"}, None), ({}, None), ({"stop": "never"}, None), ({"min_length": 3}, "min_length: 3")],
)
def test_a_search_that_only_torch_can_do_is_named(search: dict[str, Any], alone: str | None, tmp_path: Path) -> None:
    golden = open_bundle(GOLDEN / "v1")
    info = golden.info.model_copy(update={"search": search})
    bundle = write_bundle(tmp_path / "model", info, golden.weights(), golden.vocab, golden.card)
    assert find_torch_only_option(bundle) == alone


def test_a_folder_for_ctranslate2_alone(folder: Path) -> None:
    done = run(folder, "model", "--as", "ctranslate2", "--texts", "test.en", "--out", "plain")
    assert done.returncode == 0, done.stderr
    assert "float32: 3 of 3 sentences of test.en" in done.stdout
    assert "ctranslate2.Translator('plain')" in done.stdout
    code = """
import ctranslate2, sentencepiece
subwords = sentencepiece.SentencePieceProcessor(model_file="plain/vocab.model")
rows = [subwords.encode("ten old houses.", out_type=str)]
print(subwords.decode(ctranslate2.Translator("plain").translate_batch(rows)[0].hypotheses[0]))
"""
    used = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert used.stdout == "zehn alte Häuser.\n", used.stderr


def heads_of_other_widths(folder: Path) -> None:
    vocab = open_bundle(GOLDEN / "v1").vocab
    shape = TransformerConfig(
        source_vocabulary=300, target_vocabulary=300, d_model=8, num_heads=2, d_ff=8, d_k=3, d_v=5,
        num_encoder_layers=1, num_decoder_layers=1,
    )  # fmt: skip
    write_bundle(folder, BundleInfo(model=shape), weights_of(build(shape)), vocab, Card())


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such model": (("nowhere",), "nowhere: there is no such folder"),
    "the built-in model": (("demo", "--store", "int8"), "the built-in model `demo` cannot be changed"),
    "the built-in model by a link": (("linked", "--store", "int8"), "the built-in model `demo` cannot be changed"),
    "a recurrent model": (
        (str(GOLDEN / "v1-recurrent"),),
        "this model cannot be exported: CTranslate2 has no recurrent models",
    ),
    "heads of other widths": (("wide",), "d_k 3 and d_v 5"),
    "a store that does not exist": (("model", "--store", "int4"), "--store int4: "),
    "no text in the file": (("model", "--texts", "empty.en"), "--texts empty.en has no text"),
    "no such text": (("model", "--texts", "tst.en"), "did you mean test.en"),
    "a folder for no program": (("model", "--out", "x"), "--as ctranslate2"),
    "a program that does not exist": (("model", "--as", "onnx", "--out", "x"), "--as onnx: "),
    "no folder for the program": (("demo", "--as", "argos"), "--out"),
    "a used folder for the program": (("model", "--as", "ctranslate2", "--out", "model"), "--out model "),
    "two types for one program": (
        ("model", "--as", "argos", "--store", "int8", "--store", "int16", "--out", "x"),
        "one weight type",
    ),
    "a rounded MarianMTModel": (("model", "--as", "transformers", "--store", "int8", "--out", "x"), "--store int8"),
    "texts for transformers": (("model", "--as", "transformers", "--texts", "test.en", "--out", "x"), "--texts"),
    "derived for a program": (("model", "--as", "argos", "--derived", "--out", "x"), "--derived"),
    "languages for no program": (("model", "--languages", "en,de"), "--languages"),
    "one language": (("model", "--as", "argos", "--languages", "en", "--out", "x"), "--languages en "),
    "a recurrent model for transformers": (
        (str(GOLDEN / "v1-recurrent"), "--as", "transformers", "--out", "x"),
        "cannot be exported: transformers has no recurrent models",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, folder: Path) -> None:
    (folder / "empty.en").write_text("\n \n", encoding="utf-8")
    heads_of_other_widths(folder / "wide")
    (folder / "linked").symlink_to(demo_folder())
    arguments, said = MISTAKES[name]
    done = run(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert open_bundle(folder / "model").exports == ()
    assert not (folder / "x").exists()


WITHOUT_TORCH = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else found(name, *more)
sys.modules["torch"] = None
sys.argv = ["dragoman", "export", *sys.argv[1:]]
from dragoman.cli.main import main
main()
"""
FILES = {
    "transformers": "model.safetensors",
    "argos": "translate-en_de-1_0.argosmodel",
    "ctranslate2": "model.bin",
}


@pytest.mark.parametrize("kind", FILES)
def test_another_programs_folder_is_written_without_torch_and_changes_no_model(kind: str, folder: Path) -> None:
    before = {path: path.read_bytes() for path in (folder / "model").iterdir()}
    arguments = ["model", "--as", kind, "--languages", "en,de", "--out", "new/x"]
    command = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "new" / "x" / FILES[kind]).is_file()
    assert "exported: new/x" in done.stdout
    assert ("not compared with torch" in done.stderr) == (kind != "transformers")
    assert {path: path.read_bytes() for path in (folder / "model").iterdir()} == before
    assert [path.name for path in (folder / "new").iterdir()] == ["x"]


def test_the_check_of_an_earlier_export_is_shown_again(exported: Path, folder: Path) -> None:
    done = run(folder, str(exported), "--as", "ctranslate2", "--out", "x")
    assert done.returncode == 0, done.stderr
    check = open_bundle(exported).exports[0].proof
    assert f"float32: {check.identical} of {check.texts} sentences of an earlier check" in done.stdout


def test_without_torch_it_says_what_to_install(folder: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, "model"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "torch is needed to check an export, and is not installed: pip install 'dragoman[train]'" in done.stderr


def test_help_reads_well(folder: Path) -> None:
    done = run(folder, "--help", COLUMNS="100")
    for said in (
        "dragoman export run/ --store int8",
        "dragoman export run/ --as transformers",
        "--derived",
        "--as",
        "--out",
        "--texts",
    ):
        assert said in done.stdout
