import gzip
import json
import unicodedata
from pathlib import Path

import pytest

from dragoman.text.cleaning import SUSPECT, CleanConfig, Policy, Problem, find_problems, is_tokenised

SETTINGS = CleanConfig()


def problems(found: int) -> set[Problem]:
    return {problem for problem in Problem if found & int(problem.bit)}


@pytest.mark.parametrize(
    ("line", "expected", "problem"),
    [
        ("\ufeffHello", "Hello", Problem.BOM),
        ("one\u2028two", "one two", Problem.LINE_SEPARATOR),
        ("one\u2029two", "one two", Problem.LINE_SEPARATOR),
        ("one\x85two", "one two", Problem.LINE_SEPARATOR),
        ("one\ntwo", "one two", Problem.LINE_SEPARATOR),
        ("one\rtwo", "one two", Problem.LINE_SEPARATOR),
        ("one\x0b\x0ctwo", "one two", Problem.LINE_SEPARATOR),
        ("on\x00e", "one", Problem.CONTROL),
        ("on\x1b\x7fe", "one", Problem.CONTROL),
        ("it\x92s 5 \x80", "it\u2019s 5 €", Problem.CONTROL),
        ("on\x81e", "one", Problem.CONTROL),
        ("on\ufffee", "one", Problem.CONTROL),
        ("on\u200be", "one", Problem.ZERO_WIDTH),
        ("on\u2060e", "one", Problem.ZERO_WIDTH),
        ("on\ufeffe", "one", Problem.ZERO_WIDTH),
        ("Un\xadwahr", "Unwahr", Problem.ZERO_WIDTH),
        ("on\u200d\u200ce", "one", Problem.ZERO_WIDTH),
        ("abc \u202edcba\u202c", "abc dcba", Problem.BIDI),
        ("\u2066abc\u2069", "abc", Problem.BIDI),
        ("abc\u200e", "abc", Problem.BIDI),
        (unicodedata.normalize("NFD", "schön"), "schön", Problem.NOT_NFC),
        ("5 \u212b", "5 Å", Problem.NOT_NFC),
        ("▁The▁cat", "The cat", Problem.WORD_MARK),
        ("one  two", "one two", Problem.SPACING),
        ("one\ttwo", "one two", Problem.SPACING),
        (" one\u3000", "one", Problem.SPACING),
        ("lost \ufffd letter", "lost \ufffd letter", Problem.REPLACEMENT),
        (r"half \ud83d a face", r"half \ud83d a face", Problem.LONE_SURROGATE),
        (r"half \uDE00 a face", r"half \uDE00 a face", Problem.LONE_SURROGATE),
        ("the end </s>", "the end </s>", Problem.SPECIAL_TOKEN),
        ("<pad> <unk>", "<pad> <unk>", Problem.SPECIAL_TOKEN),
        ("<|endoftext|>", "<|endoftext|>", Problem.SPECIAL_TOKEN),
        ("fill the [MASK] in", "fill the [MASK] in", Problem.SPECIAL_TOKEN),
        ("he said , no .", "he said , no .", Problem.TOKENISED),
    ],
)
def test_each_character_problem_has_its_name_and_is_fixed(line: str, expected: str, problem: Problem) -> None:
    text, found = find_problems(line, SETTINGS)
    assert (text, problems(found)) == (expected, {problem})
    assert SUSPECT.search(line.encode()) or problem in (Problem.NOT_NFC, Problem.SPACING)


@pytest.mark.parametrize(
    "line",
    [
        "It\u2019s 5 €, “isn\u2019t it”? \u2013 Yes…",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian needs the non-joiner
        "क्\u200dष",  # Devanagari the joiner
        "👩\u200d👩\u200d👧",  # so does a family
        "ភាសា\u200bខ្មែរ",  # Khmer ends words with a zero-width space
        "(C++)\u200f שלום",  # marks of direction among Hebrew
        r"C:\users and \ud83d\ude00 and \u00e4",
        "<b>bold</b> [1] <source> a < b & c > d @ home [OK]",
        "&quot;quoted&quot; &amp; &lt;b&gt;",
        "5\u00a0km, 1\u202f000 €",
    ],
)
def test_what_a_language_or_markup_needs_is_left_alone(line: str) -> None:
    assert find_problems(line, SETTINGS) == (line, 0)


@pytest.mark.parametrize("problem", [Problem.BOM, Problem.ZERO_WIDTH, Problem.BIDI, Problem.NOT_NFC, Problem.SPACING])
@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_text_that_is_not_to_be_fixed_stays_as_it_is(problem: Problem, policy: Policy) -> None:
    line = {
        Problem.BOM: "\ufeffone",
        Problem.ZERO_WIDTH: "on\u200be",
        Problem.BIDI: "\u202eone",
        Problem.NOT_NFC: "o\u0308ne",
        Problem.SPACING: "one  two",
    }[problem]
    text, found = find_problems(line, CleanConfig(policies={problem: policy}))
    assert (text, problems(found)) == (line, {problem})


@pytest.mark.parametrize(
    "line",
    [
        "two young , white males are outside near many bushes .",
        "it &apos;s late",
        "a well @-@ known man",
        "mr. smith goes home .",
        "&quot; no &quot; , he said .",
        "see &#91; 1 &#93;",
    ],
)
def test_tokenised_text_is_recognised(line: str) -> None:
    assert is_tokenised(line)


@pytest.mark.parametrize(
    "line",
    [
        "Two young, white males are outside near many bushes.",
        "Ich sah , wie er die Straße überquerte.",  # a slip
        "Wie geht es dir ?",  # as in French
        "Vraiment ! Il a dit : « non » ; moi aussi.",
        "She used .NET and .5 of it.",
        "Well . . . no.",
        'MsgBox ( sText , 64, "Ja, ja")',
        "AT&T, R&D and a@b.org",
    ],
)
def test_normal_text_is_not_taken_for_tokenised(line: str) -> None:
    assert not is_tokenised(line)


def test_cleaning_twice_changes_nothing_more(shared_data: Path) -> None:
    strings = json.loads((shared_data / "naughty" / "blns.json").read_text(encoding="utf-8"))
    assert len(strings) > 500
    for line in strings:
        expected, _ = find_problems(line, SETTINGS)
        again, found = find_problems(expected, SETTINGS)
        assert (again, found & int(SETTINGS.bits("fix"))) == (expected, 0)


def test_a_line_without_suspicious_bytes_has_no_problem(shared_data: Path) -> None:
    with gzip.open(shared_data / "multi30k" / "train.de.gz", "rt", encoding="utf-8", newline="\n") as file:
        lines = [line.removesuffix("\n") for line in file][:5000]
    unsuspicious = [line for line in lines if not SUSPECT.search(line.encode())]
    assert len(unsuspicious) > 4900
    assert {find_problems(line, SETTINGS)[1] for line in unsuspicious} == {0}
