"""Scores are those of the real `sacrebleu` command, to the last digit; compounds are split as perl does it."""

import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dragoman.evaluation.metric_options import MetricName, MetricOptions
from dragoman.evaluation.metrics import MetricScore, compare, corpus_value, score_translations, split_compounds

pytestmark = pytest.mark.slow

SACREBLEU = Path(sys.executable).with_name("sacrebleu")

WHO = ["Ein alter Mann", "Die Frau im E-Mail-Büro", "Herr Öz-Ünal", "Der 2-Jährige", "Eine Gruppe Kinder"]
DOES = ["liest", "verkauft", "sucht schon wieder", "malt", "übersetzt", "zählt", "fotografiert"]
WHAT = ["3.5 Zeitungen", "das „rote“ Auto", "einen (sehr) großen Hund", 'die "Äpfel"', "U-Bahn-Pläne", "nichts"]
REFERENCE = [f"{WHO[i % 5]} {DOES[i % 7]} {WHAT[i % 6]}{'.!?'[i % 3]}" for i in range(61)]
REFERENCE += [
    "Zeile mit\u2028Umbruch, und\x0cSeite.",
    "&quot;Zitat&quot; am Ende",
    "Schluss",
    "GROSS und klein - getrennt",
]
OTHER_REFERENCE = [line.replace("Ein", "Irgendein").replace("sucht schon wieder", "sucht erneut") for line in REFERENCE]
FIRST = [line.replace("große", "kleine") if i % 3 else f"{line[:-1]} heute." for i, line in enumerate(REFERENCE)]
FIRST[7], FIRST[9] = "", "ganz anderes Ende  "
SECOND = [line.replace("liest", "las") if i % 4 else line.replace(" ", " sehr ", 1) for i, line in enumerate(REFERENCE)]
THIRD = [" ".join(reversed(line.split())) if i % 2 else line.upper() for i, line in enumerate(REFERENCE)]
SYSTEMS = {"first": FIRST, "second": SECOND, "third": THIRD}

NAMED: tuple[MetricName, ...] = ("bleu", "chrf", "ter")
METRICS = ("-m", *NAMED)
PLUS_PLUS = ("-m", "chrf", "-cw", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name, lines in {"reference": REFERENCE, "other": OTHER_REFERENCE, **SYSTEMS}.items():
        write(folder / name, lines)
    return folder


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


@cache
def sacrebleu(folder: Path, *arguments: str) -> str:
    command = [SACREBLEU, *arguments, "-q", "-nc"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=120).stdout.decode()


def scored(folder: Path, *arguments: str) -> Any:
    """The command's JSON, with as many digits as tell every float from its neighbours."""
    return json.loads(sacrebleu(folder, *arguments, "-w", "17"))


def bleu(hypotheses: list[str], *references: list[str], options: MetricOptions | None = None) -> MetricScore:
    return score_translations(hypotheses, references, ["bleu"], options or MetricOptions())["bleu"]


def assert_equal(ours: MetricScore, theirs: Any) -> None:
    assert ours.metric == theirs["name"]
    assert ours.value == theirs["score"]
    assert ours.signature == theirs["signature"]
    assert f"{(ours.low + ours.high) / 2:.10f}" == f"{theirs['confidence_mean']:.10f}"
    assert f"{(ours.high - ours.low) / 2:.10f}" == f"{theirs['confidence_var']:.10f}"


@pytest.mark.parametrize("system", SYSTEMS)
def test_scores_intervals_and_signatures_are_the_commands(system: str, folder: Path) -> None:
    theirs = scored(folder, "reference", "-i", system, *METRICS, "--confidence")
    [ours] = compare([SYSTEMS[system]], [REFERENCE], NAMED)
    for score, expected in zip(ours, theirs, strict=True):
        assert_equal(score, expected)
        assert 0.0 < score.low < score.high


def test_the_digits_printed_without_decoration_are_the_same(folder: Path) -> None:
    printed = sacrebleu(folder, "reference", "-i", "first", *METRICS, "-b", "-w", "10", "-f", "text")
    [ours] = compare([FIRST], [REFERENCE], NAMED)
    assert [f"{score.value:.10f}" for score in ours] == printed.splitlines()


def test_several_references_are_the_commands(folder: Path) -> None:
    theirs = scored(folder, "reference", "other", "-i", "second", *METRICS, "--confidence")
    [ours] = compare([SECOND], [REFERENCE, OTHER_REFERENCE], NAMED)
    for score, expected in zip(ours, theirs, strict=True):
        assert_equal(score, expected)
        assert "nrefs:2" in score.signature


def test_lower_case_is_the_commands(folder: Path) -> None:
    theirs = scored(folder, "reference", "-i", "third", *METRICS, "-lc", "--chrf-lowercase", "--confidence")
    [ours] = compare([THIRD], [REFERENCE], NAMED, MetricOptions(lower_case=True))
    [cased] = compare([THIRD], [REFERENCE], NAMED)
    for score, expected in zip(ours, theirs, strict=True):
        assert_equal(score, expected)
        assert "case:lc" in score.signature
    assert [a.value > b.value for a, b in zip(ours, cased, strict=True)] == [True, True, False]


def test_chrf_plus_plus_is_the_commands(folder: Path) -> None:
    theirs = scored(folder, "reference", "-i", "first", *PLUS_PLUS, "--confidence")
    [[ours]] = compare([FIRST], [REFERENCE], ["chrf++"])
    assert_equal(ours, theirs)
    assert ours.metric == "chrF2++"


def test_tokenised_lower_cased_bleu_is_the_commands(folder: Path) -> None:
    theirs = scored(folder, "reference", "-i", "second", "--tokenize", "none", "-lc", "--confidence")
    ours = bleu(SECOND, REFERENCE, options=MetricOptions(tokenised=True, lower_case=True))
    assert_equal(ours, theirs)
    assert "case:lc|eff:no|tok:none" in ours.signature


def test_values_without_intervals_are_the_same_floats(folder: Path) -> None:
    theirs = scored(folder, "reference", "-i", "first", *METRICS, "--confidence")
    for ours, expected in zip(score_translations(FIRST, [REFERENCE]).values(), theirs, strict=True):
        assert_equal(ours, expected)
    assert corpus_value("bleu", FIRST, [REFERENCE]) == bleu(FIRST, REFERENCE).value
    both = [REFERENCE, OTHER_REFERENCE]
    assert corpus_value("chrf", FIRST, both) == score_translations(FIRST, both)["chrf"].value


def test_paired_bootstrap_is_the_commands(folder: Path) -> None:
    table = sacrebleu(folder, "reference", "-i", *SYSTEMS, *METRICS, "--paired-bs", "-w", "10", "-f", "latex")
    theirs = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)(?: \(p = ([\d.]+)\))?", table)
    ours = compare(list(SYSTEMS.values()), [REFERENCE], NAMED)
    assert [
        (
            f"{score.value:.10f}",
            f"{(score.low + score.high) / 2:.10f}",
            f"{(score.high - score.low) / 2:.10f}",
            format_p(score.p_value),
        )
        for scores in ours
        for score in scores
    ] == theirs
    for scores in ours:
        assert all(f" {score.signature}\n" in table for score in scores)


def format_p(p_value: float | None) -> str:
    return "" if p_value is None else f"{p_value:.4f}"


def test_p_values_are_the_commands_to_the_float(folder: Path) -> None:
    theirs = json.loads(sacrebleu(folder, "reference", "-i", *SYSTEMS, "--paired-bs"))
    ours = [scores[0] for scores in compare(list(SYSTEMS.values()), [REFERENCE], ["bleu"])]
    assert [score.p_value for score in ours] == [row["BLEU"]["p_value"] for row in theirs]
    assert ours[0].p_value is None
    assert ours[1].p_value is not None
    assert ours[1].p_value > 1 / 1001  # the smallest there is: a wrong p would not be seen there


@pytest.mark.parametrize("tokeniser", ["none", "13a"])
def test_compound_split_bleu_is_the_commands_on_text_split_by_perl(tokeniser: str, folder: Path) -> None:
    if tokeniser == "none":
        texts = {"reference": REFERENCE, "first": FIRST}
    else:  # the command has no place for a step between its tokeniser and its counting, so its tokeniser comes first
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

        texts = {
            name: [Tokenizer13a()(x.rstrip()) for x in lines]
            for name, lines in [("reference", REFERENCE), ("first", FIRST)]
        }
    for name, lines in texts.items():
        write(folder / f"{name}.{tokeniser}.atat", perl(lines))
    files = (f"reference.{tokeniser}.atat", "-i", f"first.{tokeniser}.atat")
    theirs = scored(folder, *files, "--tokenize", "none", "--confidence")
    ours = bleu(FIRST, REFERENCE, options=MetricOptions(tokenised=tokeniser == "none", compounds=True))
    assert ours.value == theirs["score"] != bleu(FIRST, REFERENCE).value
    assert f"{(ours.high - ours.low) / 2:.10f}" == f"{theirs['confidence_var']:.10f}"
    assert ours.signature == theirs["signature"].replace("tok:none", f"tok:{tokeniser}+compounds")


def perl(lines: list[str]) -> list[str]:
    """The line of tensor2tensor's get_ende_bleu.sh."""
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    command = ["perl", "-ple", "s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g"]
    text = "".join(f"{line}\n" for line in lines).encode()
    return subprocess.run(command, input=text, capture_output=True, check=True).stdout.decode().split("\n")[:-1]


def test_compounds_are_split_as_perl_does_it() -> None:
    hard = [
        "a-b-c",
        "a-ö-c",
        "ä-ö-ü",
        "a--b",
        "---",
        "-a- b-",
        "1-2-3-4",
        "x\u00a0-\u2003y-\u2028z",
        "日-本-語",
        "a-\x0bb",
        "p\u0085-q-r",
        "",
    ]
    assert [split_compounds(line) for line in hard] == perl(hard)
