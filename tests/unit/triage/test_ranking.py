import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from dragoman.alignment.tokens import Tokens
from dragoman.inspection.html_file import save_text
from dragoman.triage.calibration import Calibration, SignalWeight
from dragoman.triage.model_signals import LABELS, ModelReadings, Signals
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

GOOD = TranslationPair("The man sees the dog.", "Der Mann sieht den Hund.")
NUMBER = TranslationPair("He has 300 dogs.", "Er hat 500 Hunde.")
BOTH = TranslationPair("He has 300 dogs.", "Er hat Er hat 500 Hunde.")
TEXTS = TriageMethod(FlagRules(expected_ratio=1.2), num_lines=34)
HOSTILE = TranslationPair('<img src=x onerror="a()"> 17 & more', "</article><script>alert(1)</script> 18 & mehr")


WEIGHTS = Calibration(
    model="0123",
    fitted_on="made up",
    num_lines=10,
    bias=-1.0,
    signals={name: SignalWeight(mean=1.0, scale=0.5, weight=2.0 if name == "nll" else 0.0) for name in Signals._fields},
)


def measured(pair: TranslationPair, nll: float) -> TranslationPair:
    """A pair with the readings of a made-up model."""
    words = re.findall(r"\S+", pair.source)
    spans = tuple(match.span() for match in re.finditer(r"\S+", pair.source))
    end = (len(pair.source), len(pair.source))
    source = Tokens(
        pair.source, tuple(range(len(words) + 1)), (*words, "</s>"), (*spans, end), (*range(len(words)), -1)
    )
    return pair._replace(readings=ModelReadings(source, np.full(len(words) + 1, -nll), ()))


def drawn(ranked: list[TriageResult], limit: int = 20) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(ranking_table(ranked, limit))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_worst_come_first_and_equals_in_their_order() -> None:
    ranked = rank_pairs([GOOD, NUMBER, GOOD, BOTH, NUMBER])
    assert [one.number for one in ranked] == [4, 2, 5, 1, 3]
    assert [len(one.flags) for one in ranked] == [2, 1, 1, 0, 0]
    assert ranked[-1].score == 0


def test_severities_add_up_like_chances() -> None:
    flags = [Flag(name="length", severity=severity, evidence="") for severity in (0.5, 0.2)]
    assert combine_severities(flags) == pytest.approx(0.6)
    assert combine_severities([]) == 0


def test_the_score_of_a_measured_line_is_its_chance_and_shows_why() -> None:
    sure, unsure = (measured(GOOD, nll) for nll in (0.2, 3.0))
    ranked = rank_pairs([sure, unsure], calibration=WEIGHTS)
    assert [line.number for line in ranked] == [2, 1]
    first = ranked[0].signals[0]
    assert (first.name, first.value, first.usual) == ("nll", 3.0, 1.0)
    assert first.effect == pytest.approx(2.0 * (3.0 - 1.0) / 0.5)
    log_odds = WEIGHTS.bias + sum(each.effect for each in ranked[0].signals)
    assert ranked[0].score == pytest.approx(1 / (1 + np.exp(-log_odds)))
    assert ranked[0].flags == ()
    assert ranked[0].is_suspect
    assert not ranked[1].is_suspect
    assert "-log p per token 3.00 (usual 1.00, +8.0)" in drawn(ranked).replace("\n", "")
    assert "1 of 2 have a score of at least 0.5; 0 of 2 have flags" in summarise(ranked)


def test_a_flag_raises_the_score_unless_the_signals_measure_the_same() -> None:
    number = measured(NUMBER, 0.2)
    short = measured(TranslationPair("The man sees the dog in the garden of the old house.", "Der Mann"), 0.2)
    ranked = {line.number: line for line in rank_pairs([number, short, measured(NUMBER, 3.0)], calibration=WEIGHTS)}
    assert ranked[1].score == 0.5
    assert [flag.name for flag in ranked[2].flags] == ["length"]
    assert ranked[2].score < 0.5
    assert ranked[3].score > 0.9
    (given,) = rank_pairs([number], calibration=WEIGHTS, is_free=False)
    log_odds = WEIGHTS.bias + sum(each.effect for each in given.signals)
    assert given.score == pytest.approx(1 - (1 - 0.5 / (1 + np.exp(-log_odds))) * (1 - 0.9))
    (given,) = rank_pairs([measured(GOOD, 9.0)], calibration=WEIGHTS, is_free=False)
    assert 0.49 < given.score < 0.5
    assert not given.is_suspect


def test_words_that_got_no_attention_are_dropped() -> None:
    pair = measured(GOOD, 0.2)
    assert pair.readings is not None
    covered = np.ones(len(pair.readings.source.word_spans))
    covered[2] = 0.0
    (line,) = rank_pairs(
        [pair._replace(readings=pair.readings._replace(coverage=covered))], FlagRules(expected_tokens=1)
    )
    assert [(flag.name, line.source[slice(*flag.source[0])]) for flag in line.flags] == [("dropped", "sees")]


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
    assert set(first) == {"number", "score", "source", "target", "signals", "flags"}


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
    assert "and 3 more to look at" in shown


def test_the_table_is_safe_to_print() -> None:
    assert "\x1b" not in drawn(rank_pairs([TranslationPair("\x1b[2J 17", "\x1b]0;owned\x07 18")]))


def test_the_summary_counts_sentences() -> None:
    assert summarise(rank_pairs([GOOD, NUMBER, BOTH])) == "2 of 3 have flags: numbers 2, repeated 1"
    assert summarise(rank_pairs([GOOD])) == "0 of 1 have flags"


def test_what_is_equally_frequent_stands_in_the_order_of_the_alphabet() -> None:
    assert summarise(rank_pairs([BOTH])) == "1 of 1 have flags: numbers 1, repeated 1"


def embedded_report(text: str) -> dict[str, Any]:
    """What the script of a report reads."""
    (data,) = re.findall(r'<script type="application/json" id="dragoman-triage">(.*?)</script>', text)
    return json.loads(data)


def without_scripts(text: str) -> str:
    (part,) = re.findall("<noscript>(.*)</noscript>", text, re.DOTALL)
    return part


def test_the_report_has_every_line_and_links_to_the_traces() -> None:
    ranked = rank_pairs([GOOD, NUMBER, measured(BOTH, 1.5)], calibration=WEIGHTS)
    text = report(ranked, TEXTS, {2: 'traces/a "b" #2.html'})
    data = embedded_report(text)
    assert data["report"]["lines"] == [json.loads(line.model_dump_json()) for line in ranked]
    assert data["report"]["caveat"] == CAVEAT
    assert data["report"]["summary"] == summarise(ranked)
    assert {signal["name"] for line in data["report"]["lines"] for signal in line["signals"]} <= set(LABELS)
    assert data["pages"] == {"2": "traces/a%20%22b%22%20%232.html"}


def test_without_scripts_the_report_is_a_table_of_the_lines_to_look_at() -> None:
    ranked = rank_pairs([GOOD, NUMBER, BOTH])
    text = without_scripts(report(ranked, TEXTS, {2: 'traces/a "b" #2.html'}))
    rows = re.findall(r'<tr id="line-(\d)"><th scope="row">\1</th><td>([\d.]+)<', text)
    assert rows == [("3", f"{ranked[0].score:.2f}"), ("2", f"{ranked[1].score:.2f}")]
    assert re.findall(r'href="([^"]*)"', text) == ["traces/a%20%22b%22%20%232.html"]
    assert "<mark>300</mark>" in text
    assert CAVEAT in text


def test_the_report_of_nothing_is_a_page_too() -> None:
    text = without_scripts(report(rank_pairs([GOOD]), TEXTS))
    assert "0 of 1 have flags" in text
    assert "<table" not in text
    assert "<em>nothing</em>" in report(rank_pairs([TranslationPair("", "Ja")]), TEXTS)


def test_the_method_names_every_measure_and_the_model() -> None:
    assert TEXTS.sentences() == [
        CAVEAT,
        SEVERITY,
        "Length: 1.20 characters are expected for each of the source, the median of these 34 lines.",
        "Only texts were compared: signals and dropped words need a model.",
    ]
    unmeasured = {9: "it is long", 7: "it is empty"}
    method = TriageMethod(FlagRules(), "forced; model 0123", WEIGHTS, unmeasured=unmeasured, num_lines=21)
    lines = "\n".join(method.sentences())
    for part in ("Model: forced; model 0123.", "a ranking, not a chance", "(made up)", "2 lines; line 7: it is empty."):
        assert part in lines
    own = "\n".join(TriageMethod(FlagRules(), "free-running; model 4567", WEIGHTS, is_calibrated=True).sentences())
    assert "the chance of a bad translation (chrF below 40)" in own
    assert "Judged by the text alone" not in own


def test_what_few_lines_cannot_tell_is_called_a_guess() -> None:
    lines = TriageMethod(FlagRules(), "free-running; model 4567", WEIGHTS, num_lines=1).sentences()
    few = "1 line is too few to know (20 are enough)."
    assert f"Length: 1.00 characters are expected for each of the source, a guess, as {few}" in lines
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
    dropped = one.model_copy(update={"flags": (Flag(name="dropped", severity=0.5, evidence="x", source=((0, 2),)),)})
    assert "<mark>He</mark> has" in trace_note(dropped, "r.html")
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


def test_the_report_runs_no_script_of_the_text_and_loads_nothing() -> None:
    text = report(rank_pairs([HOSTILE]), TEXTS, {1: "javascript:alert(1)"})
    assert text.count("<script") == 2  # the data and the viewer
    assert "<img" not in text
    assert "default-src 'none'" in text
    assert "&lt;/article&gt;&lt;script&gt;" in without_scripts(text)
    assert embedded_report(text)["report"]["lines"][0]["target"] == HOSTILE.target
    assert embedded_report(text)["pages"] == {"1": "javascript%3Aalert%281%29"}


def test_marks_that_overlap_are_one() -> None:
    assert mark_spans("ab<cdefg", [(4, 6), (1, 3), (2, 5)]) == "a<mark>b&lt;cde</mark>fg"
    assert mark_spans("a&b", []) == "a&amp;b"


def test_a_report_is_written_all_at_once(tmp_path: Path) -> None:
    ranked = rank_pairs([NUMBER])
    save_text(report(ranked, TEXTS), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report(ranked, TEXTS)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
