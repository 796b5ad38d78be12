from pathlib import Path

import pyarrow as pa
import pytest

from dragoman.data.corpus import Chunk, CorpusConfig
from dragoman.data.pair_cleaning import LengthProfile, clean_pairs, hold_out, profile_of
from dragoman.text.cleaning import CleanConfig, Problem

SETTINGS = CleanConfig()
PROFILE = LengthProfile()


def chunk(*pairs: tuple[bytes, bytes], first_line: int = 30, unterminated: bool = False) -> Chunk:
    source, target = (pa.array([pair[side] for pair in pairs], pa.large_binary()) for side in (0, 1))
    return Chunk(3, first_line, source, target, unterminated)


GOOD = (b"A dog runs.", b"Ein Hund rennt.")


def test_what_stays_keeps_its_line_numbers() -> None:
    cleaned = clean_pairs(
        chunk(GOOD, (b"", b"x"), (b"two  spaces", b"zwei\r"), (b"\xff", b"x"), GOOD), SETTINGS, PROFILE
    )
    assert cleaned.line.tolist() == [30, 32, 34]
    assert cleaned.source.to_pylist() == ["A dog runs.", "two spaces", "A dog runs."]
    assert cleaned.target.to_pylist() == ["Ein Hund rennt.", "zwei", "Ein Hund rennt."]
    report = cleaned.report
    assert (report.pairs, report.dropped, report.fixed) == (5, 2, 1)
    assert report.counts == {
        Problem.EMPTY_SIDE: {"drop": 1},
        Problem.INVALID_UTF8: {"drop": 1},
        Problem.CRLF: {"fix": 1},
        Problem.SPACING: {"fix": 1},
    }
    assert [(e.line, e.source, e.target) for e in report.examples[Problem.INVALID_UTF8]] == [(34, r"\xff", "x")]


@pytest.mark.parametrize(
    ("pair", "problems"),
    [
        ((b"", b""), {Problem.BOTH_EMPTY}),
        ((b"x", b""), {Problem.EMPTY_SIDE}),
        ((b"", b"  "), {Problem.EMPTY_SIDE, Problem.WHITESPACE}),
        ((b" ", b" "), {Problem.WHITESPACE}),
        ((b"\xff", b"x" * 500), {Problem.INVALID_UTF8}),
        ((b"A small dog.", b"Ein Hund " * 40), {Problem.LENGTH_RATIO, Problem.SPACING}),
        ((b"A dog runs in here.", b"A dog runs in here."), {Problem.IDENTICAL}),
        ((b"A dog  runs in here.", b"A dog runs in here."), {Problem.IDENTICAL, Problem.SPACING}),
        ((b"New York", b"New York"), set()),
    ],
)
def test_a_pair_has_the_problems_of_its_sides_and_of_their_fit(pair, problems) -> None:
    assert set(clean_pairs(chunk(GOOD, pair), SETTINGS, PROFILE).report.counts) == problems


def test_where_copying_is_the_task_it_is_no_problem() -> None:
    pair = (b"A dog runs in here.", b"A dog runs in here.")
    assert len(clean_pairs(chunk(pair), SETTINGS, LengthProfile(identical=0.5)).line) == 1
    assert profile_of(chunk(*[pair] * 200), SETTINGS).identical == 1.0


def test_a_missing_last_newline_is_noted_once_and_nothing_lost() -> None:
    cleaned = clean_pairs(chunk(GOOD, GOOD, unterminated=True), SETTINGS, PROFILE)
    assert cleaned.report.counts == {Problem.UNTERMINATED: {"keep": 1}}
    assert [example.line for example in cleaned.report.examples[Problem.UNTERMINATED]] == [32]
    assert len(cleaned.line) == 2


def test_policies_decide_what_is_done() -> None:
    pairs = chunk(("on\u200be".encode(), b"eins"), (b"the end</s>", b"Ende"))
    kept = clean_pairs(pairs, CleanConfig(policies={Problem.ZERO_WIDTH: "keep"}), PROFILE)
    assert (kept.source.to_pylist(), kept.report.fixed) == (["on\u200be", "the end</s>"], 0)
    strict = CleanConfig(policies={Problem.ZERO_WIDTH: "drop", Problem.SPECIAL_TOKEN: "drop"})
    dropped = clean_pairs(pairs, strict, PROFILE)
    assert (len(dropped.line), dropped.report.dropped) == (0, 2)
    assert dropped.source.type == pa.large_string()


def test_a_leak_is_dropped_and_a_leaked_side_counted_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("other\tanders\nA dog runs.\tEin Hund rennt.\n", encoding="utf-8")
    dev = hold_out([CorpusConfig(source=str(tmp_path / "dev.tsv"))], SETTINGS)
    pairs = chunk((b"one", b"eins"), ("A\u200b dog runs.".encode(), b"Ein Hund rennt.\r"), (b"A dog runs.", b"Hund!"))
    cleaned = clean_pairs(pairs, SETTINGS, PROFILE, dev)
    assert cleaned.line.tolist() == [30, 32]
    assert cleaned.report.counts[Problem.LEAK] == {"drop": 1}
    assert cleaned.report.counts[Problem.LEAKED_SIDE] == {"keep": 1}
    for problem, line in ((Problem.LEAK, 32), (Problem.LEAKED_SIDE, 33)):
        [example] = cleaned.report.examples[problem]
        assert (example.line, example.note) == (line, f"{tmp_path}/dev.tsv, line 2")
