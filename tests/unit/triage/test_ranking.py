import io
import json
import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from dragoman.inspection.html_file import save_text
from dragoman.inspection.trace import Trace
from dragoman.triage.ranking import (
    CAVEAT,
    SEVERITY,
    TranslationPair,
    TriageMethod,
    TriageResult,
    combine_severities,
    json_lines,
    rank_pairs,
    ranking_table,
    summarise,
    usual_ratio,
)
from dragoman.triage.report_page import mark_spans, report, trace_note
from dragoman.triage.text_flags import Flag, FlagRules, quote

Traced = Callable[..., Trace]

GOOD = TranslationPair("The man sees the dog.", "Der Mann sieht den Hund.")
NUMBER = TranslationPair("He has 300 dogs.", "Er hat 500 Hunde.")
BOTH = TranslationPair("He has 300 dogs.", "Er hat Er hat 500 Hunde.")
TEXTS = TriageMethod(FlagRules(expected_ratio=1.2), num_lines=34)
HOSTILE = TranslationPair('<img src=x onerror="a()"> 17 & more', "</article><script>alert(1)</script> 18 & mehr")


def drawn(ranked: list[TriageResult], limit: int = 20) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(ranking_table(ranked, limit))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_worst_come_first_and_equals_in_their_order() -> None:
    ranked = rank_pairs([GOOD, NUMBER, GOOD, BOTH, NUMBER])
    assert [one.number for one in ranked] == [4, 2, 5, 1, 3]
    assert [len(one.flags) for one in ranked] == [2, 1, 1, 0, 0]
    assert ranked[-1].severity == 0


def test_severities_add_up_like_chances() -> None:
    flags = [Flag(name="length", severity=severity, evidence="") for severity in (0.5, 0.2)]
    assert combine_severities(flags) == pytest.approx(0.6)
    assert combine_severities([]) == 0


def test_a_trace_brings_its_own_texts_and_its_shares(traced: Traced) -> None:
    trace = traced()
    share = np.array([0.1, 0.2, 0.1, 0.9], np.float32)
    (one,) = rank_pairs([TranslationPair("other", "texts", trace, share)], FlagRules(low_run=3))
    assert (one.source, one.target) == (trace.source.text, trace.target.text)
    assert "low source share" in {flag.name for flag in one.flags}


def test_traces_may_come_one_by_one(traced: Traced) -> None:
    def one_by_one() -> Iterator[TranslationPair]:
        for _ in range(3):
            trace = traced()
            gone.append(weakref.ref(trace))
            yield TranslationPair("", "", trace)
            del trace
            assert [kept() is not None for kept in gone[:-1]] == [False] * (len(gone) - 1)

    gone: list[weakref.ref[Trace]] = []
    assert len(rank_pairs(one_by_one())) == len(gone) == 3


def test_the_usual_ratio_is_the_median_of_enough_pairs() -> None:
    pairs = (
        [TranslationPair("ab", "abc")] * 15
        + [TranslationPair("ab", "abcdefgh")] * 5
        + [TranslationPair("", "a"), TranslationPair("a", "")]
    )
    assert usual_ratio(pairs) == 1.5
    assert usual_ratio(pairs[:19]) == 1.0


def test_json_lines_hold_everything_and_read_back() -> None:
    ranked = rank_pairs([GOOD, TranslationPair("Straße 17\nEnde", "Straße 18 ende"), HOSTILE])
    lines = json_lines(ranked).splitlines()
    assert [TriageResult.model_validate_json(line) for line in lines] == ranked
    assert "Straße" in json_lines(ranked)
    first = json.loads(lines[0])
    assert set(first) == {"number", "severity", "source", "target", "flags"}


def test_the_table_fits_into_80_columns_and_says_what_was_seen() -> None:
    long = TranslationPair("word " * 60 + "300", "Wort " * 60 + "x" * 120 + " 500")
    shown = drawn(rank_pairs([long, GOOD, NUMBER, TranslationPair("[red]3[/red]", "[bold]4")]))
    assert max(map(len, shown.splitlines())) == 80
    assert 'lacks "300"' in shown
    assert "[red]3[/red]" in shown
    assert GOOD.source not in shown


def test_the_table_ends_at_its_limit_and_says_how_many_are_left() -> None:
    shown = drawn(rank_pairs([NUMBER] * 5), limit=2)
    assert shown.count("300 dogs") == 2
    assert "and 3 more with flags" in shown


def test_the_table_is_safe_to_print() -> None:
    assert "\x1b" not in drawn(rank_pairs([TranslationPair("\x1b[2J 17", "\x1b]0;owned\x07 18")]))


def test_the_summary_counts_sentences() -> None:
    assert summarise(rank_pairs([GOOD, NUMBER, BOTH])) == "2 of 3 have flags: numbers 2, repeated 1"
    assert summarise(rank_pairs([GOOD])) == "0 of 1 have flags"


def test_what_is_equally_frequent_stands_in_the_order_of_the_alphabet() -> None:
    assert summarise(rank_pairs([BOTH])) == "1 of 1 have flags: numbers 1, repeated 1"


def test_the_report_lists_what_has_flags_and_links_to_the_traces() -> None:
    text = report(rank_pairs([GOOD, NUMBER, BOTH]), TEXTS, {2: 'traces/a "b" #2.html'})
    assert re.findall(r'<h2 id="heading-\d">Line (\d)', text) == ["3", "2"]
    assert re.findall(r'href="([^#"]*)"', text) == ["traces/a%20%22b%22%20%232.html"]
    assert "<mark>300</mark>" in text
    assert CAVEAT in text


def test_the_report_counts_each_flag_and_leads_to_its_worst_lines() -> None:
    text = report(rank_pairs([NUMBER] * 14 + [BOTH]), TEXTS)
    rows = re.findall(r'<th scope="row">([^<]*)</th><td>(\d+)</td><td>(.*?)</td>', text)
    assert [(name, count) for name, count, _ in rows] == [("repeated", "1"), ("numbers", "15")]
    assert re.findall(r'href="#line-(\d+)"', rows[0][2]) == ["15"]
    assert re.findall(r'href="#line-(\d+)"', rows[1][2]) == ["15", *map(str, range(1, 12))]
    assert rows[1][2].endswith(", …")
    assert set(re.findall(r'href="#(line-\d+)"', text)) <= set(re.findall(r'<article id="(line-\d+)"', text))


def test_the_report_of_nothing_is_a_page_too() -> None:
    text = report(rank_pairs([GOOD]), TEXTS)
    assert "0 of 1 have flags" in text
    assert "<table" not in text
    assert "<em>nothing</em>" in report(rank_pairs([TranslationPair("", "Ja")]), TEXTS)


def test_the_method_names_every_measure_and_the_model() -> None:
    assert TEXTS.sentences() == [
        CAVEAT,
        SEVERITY,
        "Length: 1.20 characters are expected for each of the source, the median of these 34 lines.",
        "Only texts were compared: dropped words and the source share need a model.",
    ]
    rules = FlagRules(expected_share=0.6)
    untraced = {9: "it is long", 7: "it is empty"}
    lines = "\n".join(TriageMethod(rules, "forced; model 0123", True, untraced, 21, 1234).sentences())
    for part in (
        "Model: forced; model 0123.",
        "a row is the token being written. Where it looked, not why.",
        "ALTI+ (Ferrando et al., 2022); 0.60 is the median of these 1,234 tokens.",
        "2 lines; line 7: it is empty.",
    ):
        assert part in lines
    without = "\n".join(TriageMethod(rules, "free-running; model 4567").sentences())
    assert "the mean of all heads of all layers; a row is the token being written" in without
    assert "not known for this model" in without
    assert "Judged by the text alone" not in without


def test_what_few_lines_cannot_tell_is_called_a_guess() -> None:
    lines = TriageMethod(FlagRules(), "free-running; model 4567", has_share=True, num_lines=1).sentences()
    few = "1 line is too few to know (20 are enough)."
    assert f"Length: 1.00 characters are expected for each of the source, a guess, as {few}" in lines
    assert lines[-1].endswith(f"2022); 0.50 is taken for usual, as {few}")
    unlike = TriageMethod(FlagRules(expected_ratio=None), num_lines=3).sentences()
    assert "Length: not judged, for the two scripts differ and 3 lines are too few to know (20 are enough)." in unlike


def test_few_lines_of_unlike_scripts_have_no_odd_length() -> None:
    pair = TranslationPair(
        "一个女人在花园里看书她的狗在树下睡觉。",
        "Eine Frau liest im Garten ein Buch, und ihr Hund schläft unter dem Baum.",
    )
    assert usual_ratio([pair]) is None
    assert usual_ratio([TranslationPair(pair.target, pair.source)]) is None
    assert usual_ratio([TranslationPair(pair.source, pair.source), GOOD]) == 1.0
    assert usual_ratio([pair] * 20) == len(pair.target) / len(pair.source)
    (one,) = rank_pairs([pair], FlagRules(expected_ratio=None))
    assert one.flags == ()
    assert [flag.name for flag in rank_pairs([pair])[0].flags] == ["length"]
    assert [flag.name for flag in rank_pairs([TranslationPair("一", "")], FlagRules(expected_ratio=None))[0].flags] == [
        "length"
    ]


def test_the_page_of_a_trace_says_what_was_flagged_marks_it_and_leads_back() -> None:
    (one,) = rank_pairs([NUMBER])
    text = trace_note(one, "../my report.html")
    assert '<a href="../my%20report.html#line-1">Back to line 1 of the report</a>' in text
    assert "<strong>numbers</strong> 0.90: the target lacks &quot;300&quot;" in text
    assert "He has <mark>300</mark> dogs." in text
    assert "Er hat <mark>500</mark> Hunde." in text
    assert "mean of all heads" not in text
    dropped = one.model_copy(update={"flags": (Flag(name="dropped", severity=0.5, evidence="x", source=((0, 2),)),)})
    assert "<mark>He</mark> has" in trace_note(dropped, "r.html")
    assert "the mean of all heads of all layers" in trace_note(dropped, "r.html")
    hostile = trace_note(rank_pairs([HOSTILE])[0], "r.html")
    assert "<script" not in hostile
    assert "<img" not in hostile


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", '"short"'),
        (
            "front of an old yellow house while a small brown dog runs behind",
            '"front of an old yellow house … a small brown dog runs behind"',
        ),
        ("a" * 61, f'"{"a" * 30} … {"a" * 30}"'),
        (f"in the old house, {'x' * 40} and a brown dog", '"in the old house, … and a brown dog"'),
    ],
)  # fmt: skip
def test_a_long_quotation_is_cut_between_words(text: str, expected: str) -> None:
    assert quote(text) == expected


def test_the_report_runs_nothing_and_loads_nothing() -> None:
    text = report(rank_pairs([HOSTILE]), TEXTS, {1: "javascript:alert(1)"})
    assert "<script" not in text
    assert "<img" not in text
    assert "default-src 'none'" in text
    assert "&lt;/article&gt;&lt;script&gt;" in text
    assert 'href="javascript:' not in text


def test_marks_that_overlap_are_one() -> None:
    assert mark_spans("ab<cdefg", [(4, 6), (1, 3), (2, 5)]) == "a<mark>b&lt;cde</mark>fg"
    assert mark_spans("a&b", []) == "a&amp;b"


def test_a_report_is_written_all_at_once(tmp_path: Path) -> None:
    ranked = rank_pairs([NUMBER])
    save_text(report(ranked, TEXTS), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report(ranked, TEXTS)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
