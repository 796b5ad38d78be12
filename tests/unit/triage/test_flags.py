"""Each flag: what must raise it, and the near misses that must not."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from dragoman.inspection.trace import Trace
from dragoman.triage.attention_flags import check_dropped, coverage
from dragoman.triage.numerals import find_addresses, find_number_words, find_numerals, parse_number
from dragoman.triage.text_flags import Flag, FlagRules, flag_text

Traced = Callable[..., Trace]

CROSS = "decoder.layers.0.cross_attention"
BOAT = ("▁the", "▁old", "▁fisherman", "▁mended", "▁a", "▁broken", "▁wooden", "▁boat", ".", "</s>")
BOOT = ("▁der", "▁alte", "▁Fischer", "▁flickte", "▁ein", "▁Boot", ".", "</s>")


def named(name: str, found: list[Flag]) -> list[Flag]:
    return [flag for flag in found if flag.name == name]


def raised(name: str, source: str, target: str) -> list[Flag]:
    return named(name, flag_text(source, target))


def looking(trace: Trace, places: list[int], rest: float = 0.01) -> Trace:
    """A trace of one layer and one head, in which step i looks at source token places[i]."""
    weights = np.full((1, len(trace.target), len(trace.source)), rest, np.float32)
    weights[0, np.arange(len(places)), places] = 1 - rest * (len(trace.source) - 1)
    return replace(trace, attention={CROSS: weights}, norms={CROSS: weights[:, :, ::-1].copy()})


def covered(trace: Trace, expected: float | None = None) -> np.ndarray:
    return coverage(trace.source, trace.attention[CROSS][0], "written", expected)


def dropped(trace: Trace, rules: FlagRules | None = None) -> list[Flag]:
    rules = rules or FlagRules(coverage=0.6)
    return list(check_dropped(trace.source, covered(trace, rules.expected_tokens), rules))


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("1000", "1000"),
        ("1,000", "1000"),
        ("1.000", "1000"),
        ("1 000", "1000"),
        ("1\u202f000", "1000"),
        ("1'000", "1000"),
        ("12.345.678", "12345678"),
        ("1,234.50", "1234.5"),
        ("1.234,5", "1234.5"),
        ("1 234,5", "1234.5"),
        ("0.125", "0.125"),
        ("0,125", "0.125"),
        ("3,5", "3.5"),
        ("3.50", "3.5"),
        ("10.0", "10"),
        ("2010,5", "2010.5"),
        ("٣٫٥", "3.5"),  # noqa: RUF001
        ("１２", "12"),  # noqa: RUF001
        ("007", "7"),
    ],
)
def test_a_number_is_the_same_in_whatever_way_it_is_written(written: str, number: str) -> None:
    assert parse_number(written) == [Decimal(number)]
    assert [found.value for found in find_numerals(f"about {written}.")] == [Decimal(number)]


def test_a_date_is_its_parts() -> None:
    for written in ("12.05.2020", "12/5/2020", "12-05-2020"):
        assert [int(found.value) for found in find_numerals(written)] == [12, 5, 2020], written


def test_numbers_know_where_they_stand_and_addresses_hold_none() -> None:
    text = "See https://a.org/2024/x, or 17 more."
    assert [(found.value, found.span) for found in find_numerals(text)] == [(Decimal(17), (29, 31))]
    assert [text[slice(*span)] for span in find_addresses(text)] == ["https://a.org/2024/x"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It costs 1,000 euros.", "Es kostet 1.000 Euro."),
        ("It costs 1,234.50 euros.", "Es kostet 1 234,50 Euro."),
        ("On 5/12/2020 it rained.", "Am 12.05.2020 regnete es."),
        ("at 10:30", "um 10.30 Uhr"),
        ("at 10:30 p.m.", "um 22:30 Uhr"),
        ("at 9pm", "um 21:00 Uhr"),
        ("2 million people", "2.000.000 Menschen"),
        ("22,900 crimes", "22,9 Tausend Delikte"),
        ("the 21st of May, in the 1990s", "am 21. Mai, in den 1990ern"),
        ("3 dogs", "drei Hunde"),
        ("two cats", "2 Katzen"),
        ("from 4 to 7", "7 von 4 an"),
        ("no number", "keine Zahl"),
        ("eighteen children", "18 Kinder"),
        ("over a hundred kilometres", "über 100 km"),
        ("three hundred dollars", "300 Dollar"),
        ("the 21 houses", "die einundzwanzig Häuser"),
        ("in the 20th century", "im zwanzigsten Jahrhundert"),
        ("15 or fifteen", "15 oder 15"),
        ("两百只狗 5", "five dogs"),
    ],
)
def test_numbers_that_say_the_same_raise_nothing(source: str, target: str) -> None:
    assert raised("numbers", source, target) == []


@pytest.mark.parametrize(
    ("source", "target", "lost", "new"),
    [
        ("It costs 1,000 euros.", "Es kostet 1.001 Euro.", ["1,000"], ["1.001"]),
        ("It costs 1,000 euros.", "Es kostet 1 Euro.", ["1,000"], ["1"]),
        ("3 dogs", "4 Hunde", ["3"], ["4"]),
        ("In 1997 he left.", "Er ging.", ["1997"], []),
        ("He left.", "Er ging 1997.", [], ["1997"]),
        ("15 and 15", "15", ["15"], []),
        ("3.5 kg", "35 kg", ["3.5"], ["35"]),
        ("at 10:30", "um 22:30 Uhr", ["10"], ["22"]),
        ("2 people", "2.000.000 Menschen", ["2"], ["2.000.000"]),
        ("eighteen children", "19 Kinder", [], ["19"]),
        ("three pounds", "9 Kilo", [], ["9"]),
        ("4 dogs and two cats", "drei Hunde und zwei Katzen", ["4"], []),
        ("18 of eighteen", "18 von 18 und 18", [], ["18"]),
    ],
)
def test_numbers_that_differ_are_shown_on_both_sides(source: str, target: str, lost: list[str], new: list[str]) -> None:
    (flag,) = raised("numbers", source, target)
    assert [source[slice(*span)] for span in flag.source] == lost
    assert [target[slice(*span)] for span in flag.target] == new
    assert all(f'"{number}"' in flag.evidence for number in [*lost, *new])


@pytest.mark.parametrize("around", ["{}.", "({})", "„{}“", "«{}»", "“{}”,", "「{}」。"])
def test_marks_around_an_address_are_not_of_it(around: str) -> None:
    text = around.format("https://a.org/b")
    assert [text[slice(*span)] for span in find_addresses(text)] == ["https://a.org/b"]


@pytest.mark.parametrize("address", ["https://example.org/a?b=1", "www.example.org", "ann.lee@example.org"])
def test_an_address_must_come_through_as_it_is(address: str) -> None:
    source = f"Write to ({address})."
    assert raised("addresses", source, f"Schreib an {address}!") == []
    (flag,) = raised("addresses", source, f"Schreib an {address.replace('example', 'beispiel')}!")
    assert [source[slice(*span)] for span in flag.source] == [address]
    assert "beispiel.org" in flag.evidence
    assert len(raised("addresses", source, "Schreib!")) == 1


@pytest.mark.parametrize(
    ("source", "target", "again"),
    [
        ("The man sees the dog.", "Der Mann sieht sieht den Hund.", "sieht sieht"),
        ("The man sees the dog.", "Der Mann sieht den Mann sieht den Hund.", "Mann sieht den Mann sieht den"),
        ("The man sees the dog.", "Der der der Mann sieht den Hund.", "Der der der"),
        ("A very very big dog", "Ein sehr sehr sehr großer Hund", "sehr sehr sehr"),
        ("I like apples.", "我喜欢苹果我喜欢苹果。", "我喜欢苹果我喜欢苹果"),
    ],
)
def test_words_that_come_again_at_once_are_a_repetition(source: str, target: str, again: str) -> None:
    (flag,) = raised("repeated", source, target)
    assert [target[slice(*span)] for span in flag.target] == [again]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Those who knew it kept silent.", "Die, die die Antwort kannten, schwiegen."),
        ("A very very big dog", "Ein riesig riesig großer Hund"),
        ("Bora Bora is far.", "Bora Bora ist weit."),
        ("They live life.", "Sie wollen ein Leben leben."),
        ("If it had been so, he would go.", "Wenn das so gewesen würde, würde er gehen."),
        ("Step by step, more and more.", "Schritt für Schritt, mehr und mehr."),
        ("I know this.", "I know that that is so."),
        ("Let us study it.", "我们研究研究吧。"),
        ("The steamship company's captain's hat", "Die Dampfschifffahrtsgesellschaftskapitänsmütze"),
        ("a million", "1000000"),
    ],
)
def test_words_that_good_sentences_say_twice_are_no_repetition(source: str, target: str) -> None:
    assert raised("repeated", source, target) == []


def test_a_phrase_that_comes_again_later_is_one_unless_the_source_repeats_itself_too() -> None:
    target = "In der alten Stadt am Fluss wohnt er, und in der alten Stadt am Fluss arbeitet er."
    (flag,) = raised("repeated", "He lives in the old town by the river, and works elsewhere.", target)
    assert [target[slice(*span)] for span in flag.target] == [
        "In der alten Stadt am Fluss",
        "in der alten Stadt am Fluss",
    ]
    assert raised("repeated", "In the old town he lives, and in the old town he works.", target) == []


def test_words_taken_over_from_the_source_are_a_copy() -> None:
    source = "The man sees a big brown dog today."
    target = "Der Mann sees a big brown dog heute."
    (flag,) = raised("copied", source, target)
    assert [source[slice(*span)] for span in flag.source] == ["sees a big brown dog"]
    assert [target[slice(*span)] for span in flag.target] == ["sees a big brown dog"]
    assert "5 words" in flag.evidence


@pytest.mark.parametrize(
    ("source", "target", "copies"),
    [
        ("good morning", "good morning", 1),
        ("他昨天去了北京的图书馆", "He said 昨天去了北京的图书馆 then", 1),
        ("Angela Merkel", "Angela Merkel", 0),
        ("He studies at the University of California in Los Angeles.", "Er studiert University of California.", 0),
        ("Read The Lord of the Rings now.", "Lies jetzt The Lord of the Rings.", 0),
        ("See http://en.some.where.org/so/it/goes/on now", "Siehe http://en.some.where.org/so/it/goes/on jetzt", 0),
        ("10 20 30 40 50", "10 20 30 40 50", 0),
        ("The hand in the sand was warm.", "Die Hand in dem Sand war warm.", 0),
        ("On a busy street walks a lady.", "On a busy street geht eine Dame.", 1),
        ("The letters are a, b, c, d, e, f.", "Die Buchstaben sind a, b, c, d, e, f.", 0),
        (r"Open C:\\home\\pages\\index.html now", r"Öffne C:\\home\\pages\\index.html jetzt", 0),
        ("the file my_${name}-of-the.pack.rpm", "die Datei my_${name}-of-the.pack.rpm", 0),
        ("a well-known blue-green bird sings", "ein well-known blue-green bird singt", 1),
        ("他去了北京大学", "He went to 北京大学", 0),
    ],
)
def test_names_numbers_and_addresses_may_be_taken_over(source: str, target: str, copies: int) -> None:
    assert len(raised("copied", source, target)) == copies


def test_a_target_much_too_short_or_too_long_is_flagged_by_what_is_expected() -> None:
    source = "x" * 100
    assert raised("length", source, "y" * 72) == raised("length", source, "y" * 154) == []
    (short,), (long,) = raised("length", source, "y" * 63), raised("length", source, "y" * 156)
    assert short.evidence == "63 characters for 100, where about 100 were expected"
    assert long.severity == pytest.approx(1 - 110 / 166)
    assert named("length", flag_text(source, "y" * 40, FlagRules(expected_ratio=0.4))) == []
    assert raised("length", "Yes.", "Jawohl, ja") == []


def test_a_side_without_text_is_as_bad_as_it_gets() -> None:
    assert [flag.severity for flag in raised("length", "Yes", "")] == [1.0]
    assert [flag.severity for flag in raised("length", "", "Ja")] == [1.0]
    assert flag_text("", "") == []


def test_an_empty_side_says_so() -> None:
    (flag,) = raised("length", "Yes", " ")
    assert flag.evidence == "3 characters on one side, and nothing on the other"


def test_content_words_that_got_next_to_nothing_are_dropped(traced: Traced) -> None:
    trace = looking(traced(BOAT, BOOT), [0, 1, 2, 3, 4, 7, 8, 9])
    (flag,) = dropped(trace)
    assert trace.source.text[slice(*flag.source[0])] == "broken wooden"
    # Each of 7 pieces gives 0.01 to either word; an even share of 8 target tokens on 10 source tokens is 0.8.
    assert f"2 content words got {7 * 0.01 / 0.8:.2f} of an even share of the attention" in flag.evidence
    lack = 2 * (1 - 7 * 0.01 / 0.8 / 0.6)
    assert flag.severity == pytest.approx(0.3 + lack / 5)  # of fisherman, mended, broken, wooden, boat


def test_what_is_usual_decides_how_much_is_little(traced: Traced) -> None:
    trace = looking(traced(BOAT, BOOT), [0, 1, 2, 3, 4, 7, 8, 9], rest=0.05)
    got = 7 * 0.05
    assert covered(trace, 1.25)[5:7] == pytest.approx([got / 1.25] * 2)
    (flag,) = dropped(trace, FlagRules(expected_tokens=1.25, coverage=0.6))
    assert f"{got / 1.25:.2f} of the attention that is usual" in flag.evidence
    assert dropped(trace, FlagRules(expected_tokens=0.5, coverage=0.6)) == []


def test_a_target_that_is_too_short_shows_even_where_attention_is_spread_evenly(traced: Traced) -> None:
    trace = traced(BOAT, ("▁das", "▁Boot", "</s>"))
    even = replace(trace, attention={CROSS: np.full((1, 3, 10), 0.1, np.float32)}, norms={})
    assert dropped(even) == []
    (flag,) = dropped(even, FlagRules(expected_tokens=1.0, coverage=0.6))
    assert trace.source.text[slice(*flag.source[0])] == "fisherman mended a broken wooden boat."


def test_a_word_of_several_tokens_needs_as_much_for_each(traced: Traced) -> None:
    trace = looking(traced(("▁steam", "ship", "s", "▁here", "</s>"), ("▁Dampf", "▁hier", "</s>")), [0, 3, 4])
    assert covered(trace, 1.0)[0] == pytest.approx((0.96 + 5 * 0.01) / 3)


def test_what_a_compound_looks_at_piece_by_piece_is_not_dropped(traced: Traced) -> None:
    trace = traced(("▁steam", "▁ship", "▁captain", "▁here", "</s>"), ("▁Dampf", "schiff", "kapitän", "▁hier", "</s>"))
    assert dropped(looking(trace, [0, 1, 2, 3, 4])) == []
    (flag,) = dropped(looking(trace, [0, 3, 3, 3, 4]))
    assert trace.source.text[slice(*flag.source[0])] == "ship captain"
    (flag,) = dropped(looking(trace, [0, 1, 3, 3, 4]))
    assert trace.source.text[slice(*flag.source[0])] == "captain"
    assert dropped(looking(trace, [0, 1, 3, 3, 4]), FlagRules(coverage=0.6, lack=1.1)) == []


def test_short_words_are_not_missed_but_do_not_end_what_is(traced: Traced) -> None:
    trace = traced(("▁he", "▁has", "▁to", "▁go", "▁sail", "</s>"), ("▁Er", "▁segelt", "</s>"))
    assert dropped(looking(trace, [0, 4, 5])) == []
    trace = traced(("▁she", "▁sails", "▁to", "▁the", "▁harbour", "</s>"), ("▁Sie", "</s>"))
    (flag,) = dropped(looking(trace, [0, 5]), FlagRules(coverage=0.6, lack=1.5))
    assert trace.source.text[slice(*flag.source[0])] == "sails to the harbour"


def test_words_that_lack_a_little_each_lack_enough_together(traced: Traced) -> None:
    trace = looking(traced(BOAT, BOOT), [0, 1, 2, 3, 4, 7, 8, 9], rest=0.045)
    got = 7 * 0.045 / 0.8
    one = 1 - got / 0.6
    assert len(dropped(trace, FlagRules(coverage=0.6, lack=2 * one - 0.01))) == 1
    assert dropped(trace, FlagRules(coverage=0.6, lack=2 * one + 0.01)) == []
    assert dropped(trace, FlagRules(coverage=got - 0.01, lack=0.01)) == []


def test_an_attention_that_reads_a_token_is_of_the_step_after_it(traced: Traced) -> None:
    trace = looking(traced(("▁ship", "▁here", "</s>"), ("▁Schiff", "▁hier", "</s>")), [2, 0, 1], rest=0.0)
    weights = trace.attention[CROSS][0]
    np.testing.assert_allclose(coverage(trace.source, weights, "read", 1.0), [1, 1])
    np.testing.assert_allclose(coverage(trace.source, weights, "written", 1.0), [1, 0])


def test_flags_come_worst_first() -> None:
    found = flag_text("He paid 300 euros to www.a.org and left.", "Er zahlte 500.")
    assert {flag.name for flag in found} == {"numbers", "addresses", "length"}
    assert [flag.severity for flag in found] == sorted((flag.severity for flag in found), reverse=True)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("two dogs, three cats", [2, 3]),
        ("Twenty-one", [21]),
        ("three hundred and one", [301]),
        ("a hundred", [100]),
        ("two thousand nineteen", [2019]),
        ("six million people", [6_000_000]),
        ("the third, fourth and twentieth", [3, 4, 20]),
        ("two three and nineteen fifty", [2, 3, 19, 50]),
        ("the sixtieth", [60]),
        ("a dozen", [12]),
        ("einundzwanzig", [21]),
        ("dreihundertfünfundvierzig", [345]),
        ("neunzehnhundertachtzig", [1980]),
        ("eintausendzwei", [1002]),
        ("zweitausend", [2000]),
        ("hundert Leute", [100]),
        ("zwei Millionen", [2_000_000]),
        ("Dreißig, dreissig", [30, 30]),
        ("am zwanzigsten Mai, dem dritten", [20, 3]),
        ("der einundzwanzigste", [21]),
    ],
)
def test_numbers_are_read_in_english_and_german(text: str, numbers: list[int]) -> None:
    assert find_number_words(text) == numbers


@pytest.mark.parametrize(
    "text",
    ["", "one or a", "ein Hund", "Jahrhundert", "hunderte", "Rest und Zelt", "beachten", "weighty", "ten5t", "und"],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert find_number_words(text) == []
