"""`dragoman evaluate` as installed: a table for people, JSON for programs, one line for mistakes."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import DRAGOMAN

from dragoman.bundle import open_bundle
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.metrics import MetricScore, score_translations

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
ENGLISH = ["two red dogs.", "ten old houses.", "four green women.", "three red tables."]
GERMAN = ["zwei rote Hunde.", "zehn alte Häuser.", "vier grüne Frauen.", "drei rote Tische."]
OTHER = ["zwei rote Hunde.", "zehn neue Häuser.", "vier grüne Damen.", "die rote Tische."]


def bleu(hypotheses: list[str], *references: list[str], options: MetricOptions | None = None) -> MetricScore:
    return score_translations(hypotheses, references, ["bleu"], options or MetricOptions())["bleu"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in {"test.en": ENGLISH, "test.de": GERMAN, "other.de": OTHER}.items():
        write(tmp_path / name, lines)
    return tmp_path


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "80", "OMP_NUM_THREADS": "1"}
    command = [DRAGOMAN, "evaluate", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_model_is_compared_with_the_output_of_another_system(folder: Path) -> None:
    files = ("--source", "test.en", "--reference", "test.de", "--json", "report.json", "--output", "ours.de")
    done = run(folder, str(GOLDEN), "other.de", *files)
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["command"] == f"dragoman evaluate {GOLDEN} other.de {' '.join(files)}"
    ours, other = report["systems"]
    assert (ours["name"], ours["kind"], ours["sha256"]) == ("v1", "bundle", open_bundle(GOLDEN).sha256)
    assert (other["name"], other["kind"]) == ("other.de", "file")
    written = (folder / "ours.de").read_text(encoding="utf-8").splitlines()
    assert written[:3] == GERMAN[:3]
    assert [score["value"] for score in ours["scores"][:2]] == [
        bleu(written, GERMAN).value,
        score_translations(written, [GERMAN])["chrf"].value,
    ]
    assert other["scores"][0]["p_value"] is not None
    assert f"BLEU|{ours['scores'][0]['signature']}\n" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if "|" not in line) <= 80


def test_one_file_is_enough_and_may_be_packed(folder: Path) -> None:
    (folder / "test.de.gz").write_bytes(gzip.compress((folder / "test.de").read_bytes()))
    done = run(folder, "other.de", "--reference", "test.de.gz", "--metrics", "bleu")
    assert done.returncode == 0, done.stderr
    score = bleu(OTHER, GERMAN)
    assert f"other.de   BLEU     {score.value:.2f}   {score.low:.2f} - {score.high:.2f}" in done.stdout
    assert "difference" not in done.stdout


def test_tokenised_lower_cased_and_compound_split_text_is_what_the_flags_say(folder: Path) -> None:
    flags = ("--tokenised", "--lower-case", "--compounds", "--metrics", "bleu", "--json", "report.json")
    done = run(folder, "other.de", "--reference", "test.de", *flags)
    assert done.returncode == 0, done.stderr
    [[score]] = [system["scores"] for system in json.loads((folder / "report.json").read_text())["systems"]]
    expected = bleu(OTHER, GERMAN, options=MetricOptions(tokenised=True, lower_case=True, compounds=True))
    assert (score["value"], score["signature"]) == (expected.value, expected.signature)
    assert "case:lc|eff:no|tok:none+compounds" in done.stdout


def test_json_on_standard_output_has_it_to_itself(folder: Path) -> None:
    done = run(folder, "other.de", "--reference", "test.de", "--metrics", "bleu", "--json", "-")
    assert done.returncode == 0, done.stderr
    [[score]] = [system["scores"] for system in json.loads(done.stdout)["systems"]]
    assert score["value"] == bleu(OTHER, GERMAN).value
    assert "other.de" in done.stderr


def test_standard_input_is_a_system_too(folder: Path) -> None:
    command = f"{DRAGOMAN} evaluate - --reference test.de --metrics chrf < other.de"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{score_translations(OTHER, [GERMAN])['chrf'].value:.2f}" in done.stdout


def test_files_need_no_torch(folder: Path) -> None:
    code = "import sys; from dragoman.cli.main import app; "
    code += "app(['evaluate', 'other.de', '--reference', 'test.de'], standalone_mode=False); "
    code += "sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "score\n")


def with_file(name: str, content: bytes, *arguments: str) -> Callable[[Path], list[str]]:
    def mistake(folder: Path) -> list[str]:
        (folder / name).write_bytes(content)
        return list(arguments)

    return mistake


def plain(*arguments: str) -> Callable[[Path], list[str]]:
    return lambda folder: list(arguments)


REFERENCE = ("--reference", "test.de")
MISTAKES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "a reference that is not there": (
        plain("other.de", "--reference", "tset.de"),
        "tset.de: there is no such file; did",
    ),
    "fewer lines than references": (
        with_file("short.de", b"eins\nzwei\n", "short.de", *REFERENCE),
        "short.de has 2 lines but test.de has 4",
    ),
    "an empty test set": (
        with_file("empty.de", b"", "other.de", "--reference", "empty.de"),
        "empty.de: the file is empty",
    ),
    "an unknown metric": (plain("other.de", *REFERENCE, "--metrics", "blue"), "did you mean bleu?"),
    "neither a model nor a file": (
        plain("nowhere", *REFERENCE),
        "nowhere: no such folder or file",
    ),
    "a line that is not UTF-8": (
        with_file("latin.de", b"a\nb\nc\n\xfcber\n", "latin.de", *REFERENCE),
        "latin.de: line 4 is not UTF-8",
    ),
    "a model without a source": (plain(str(GOLDEN), *REFERENCE), "add --source FILE"),
    "a folder that is no model": (plain(".", *REFERENCE, "--source", "test.en"), "manifest"),
    "a system twice": (plain("other.de", "other.de", *REFERENCE), "other.de is given 2 times"),
    "no folder for the report": (plain("other.de", *REFERENCE, "--json", "no/report.json"), "folder no does not exist"),
    "a folder for the report": (plain("other.de", *REFERENCE, "--json", "."), "is a folder: give the name of a file"),
    "hypotheses of no model": (plain("other.de", *REFERENCE, "--output", "a"), "1 --output files for 0 models"),
    "compounds without BLEU": (
        plain("other.de", *REFERENCE, "--compounds", "--metrics", "ter"),
        "add bleu to --metrics",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line_and_exit_code_2(name: str, folder: Path) -> None:
    mistake, expected = MISTAKES[name]
    done = run(folder, *mistake(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr


def test_a_missing_reference_option_is_named(folder: Path) -> None:
    done = run(folder, "other.de")
    assert done.returncode == 2
    assert "--reference" in done.stderr
