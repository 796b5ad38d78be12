"""Whatever a model does, placeholders, addresses and numbers come through."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.api import Model
from dragoman.translation.protect import protect_prefixed, protect_sentences
from dragoman.translation.results import SentenceTranslation, TextHypothesis
from dragoman.translation.verbatim import find_strings, mask, shorten, split_at_runs, survives

SENTENCES = (Path(__file__).parent / "documents" / "protected.txt").read_text().splitlines()


def sentence_of(source: str, *texts: str) -> SentenceTranslation:
    return SentenceTranslation(
        source, tuple(TextHypothesis(text, -float(rank), -2.0 * rank) for rank, text in enumerate(texts, 1))
    )


class Stub:
    """Translates by a function, and keeps its calls."""

    def __init__(self, write: Callable[[str], str]) -> None:
        self.write = write
        self.calls: list[list[str]] = []

    def __call__(self, sentences: list[str]) -> list[SentenceTranslation]:
        self.calls.append(sentences)
        return [sentence_of(sentence, self.write(sentence)) for sentence in sentences]


@pytest.mark.parametrize(
    ("text", "strings"),
    [
        ("Hello {name}, {0} or {}.", ["{name}", "{0}", "{}"]),
        ("Dear {{ user.name }} and {{x|upper}}", ["{{ user.name }}", "{{x|upper}}"]),
        ("%s of %(x)d, %1$s and %.2f%%", ["%s", "%(x)d", "%1$s", "%.2f", "%%"]),
        ("Progress: %d%%, 100%% of it", ["%d", "%%", "100", "%%"]),
        ("50% of it, 100 %", ["50", "100"]),
        ("in ${HOME} or $HOME or %{name}", ["${HOME}", "$HOME", "%{name}"]),
        ("<b>bold</b> &amp; <br/> a < b > c", ["<b>", "</b>", "&amp;", "<br/>"]),
        ("(see https://a.org/b?c=1,2.) Or www.x.de!", ["https://a.org/b?c=1,2", "www.x.de"]),
        ("Mail a.b+c@d-e.co.uk.", ["a.b+c@d-e.co.uk"]),
        ("It was 1,234.56 or -3 at 10:30 on 2024-03-12.", ["1,234.56", "-3", "10:30", "2024-03-12"]),
        ("10kg, the 3rd, the 1960s, le 2e, at 5pm", ["10", "3", "1960", "2", "5"]),
        ("1e5, 1.5E-3, 0xFF and 0xff", ["1e5", "1.5E-3", "0xFF", "0xff"]),
        (
            "MP3, v2.0, a 7B, -7B, 10k, 1,5GB, file_1 or 3fa8",
            ["MP3", "v2.0", "7B", "-7B", "10k", "1,5GB", "file_1", "3fa8"],
        ),
        ("MP3播放, 第7B章, a_b, é7", ["MP3", "7B"]),
        ("½ a cup, 1½ or \u215d", ["½", "1", "½", "\u215d"]),
        (r"One\nTwo\t\u00e9 \q", [r"\n", r"\t", r"\u00e9"]),
        ("__NAME__ and __MY_2__, but not __so__ or a__B__", ["__NAME__", "__MY_2__"]),
        (":count of :total_2: not a:b, 10:30, or : so", [":count", ":total_2:", "10:30"]),
        ("Run `a.b()` or ``x ` y`` or `two words`: `, ok", ["`a.b()`", "``x ` y``", "`two words`"]),
        ("Yes 👍🏽👍🏽, 1️⃣ 👩‍💻 and 🇩🇪!", ["👍🏽👍🏽", "1️⃣", "👩‍💻", "🇩🇪"]),
        ("See example.com/a, not end.It or 3.de or a.b", ["example.com/a", "3.de"]),
        ("sftp://a.b/c, mailto:a@b.de, @tom, <0>x</0>", ["sftp://a.b/c", "mailto:a@b.de", "@tom", "<0>", "</0>"]),
        ("%PATH%, #{x}, {n, number}, <!-- a b -->", ["%PATH%", "#{x}", "{n, number}", "<!-- a b -->"]),
        ("2024年3月见https://a.cn/x。好", ["2024", "3", "https://a.cn/x"]),
        ("Nothing here: a@b, 'http', {two words}, $ 5", ["5"]),
    ],
)
def test_what_means_itself_is_found(text: str, strings: list[str]) -> None:
    assert find_strings(text) == strings


@given(
    st.text(
        st.sampled_from("a A Z0.7:/@{}<>%$&\\`_~#*\u20e3\ufe0f\u200d\xbd\u2192\U0001f600www com xe+-\n"), max_size=30
    )
)
@example("#\u20e3")
@example("see example.com")
@example("at :name")
def test_the_fast_test_for_verbatim_strings_misses_none(text: str) -> None:
    strings = find_strings(text)
    assert [*strings, "{x}"] == find_strings(f"{text}\n{{x}}")  # which passes the fast test in any case
    assert "".join(split_at_runs(text)[1::2]) == "".join(strings)
    assert "".join(split_at_runs(text)) == text


def test_what_survives_is_there_as_often_as_before() -> None:
    assert survives("{a} and {a} in 5", "5: {a}, {a}")
    assert not survives("{a} and {a} in 5", "5: {a}")
    assert not survives("{a} in 5", "5: {a}, {a}")
    assert not survives("in 5", "in 15")
    assert survives("nothing", "anything, even 7")


def test_separators_of_numbers_may_change_but_not_digits() -> None:
    for source, text in [("1,234.56", "1.234,56"), ("at 10:30", "um 10.30 Uhr"), ("-3.5", "\u22123,5")]:
        assert survives(source, text)
    for source, text in [("1.5", "15"), ("10:30", "10:31"), ("-3", "3"), ("1,234", "1,23"), ("7", "sieben")]:
        assert not survives(source, text)


@given(st.text(st.sampled_from("ab1.@{}<>%$s:/w ,|\n-;&_#")))
def test_a_mask_keeps_every_place(text: str) -> None:
    plain = mask(text)
    assert len(plain) == len(text)
    assert all(new in (old, "_") for new, old in zip(plain, text, strict=True))


def test_code_between_fences_is_one_line_without_letters() -> None:
    code = "```python\nprint('Hello. World')\n```"
    assert mask(f"One.\n{code}\nTwo.") == f"One.\n{'_' * len(code)}\nTwo."
    assert mask("One.\n  ~~~~\na\n~~~\n~~~~\nb") == f"One.\n{'_' * 17}\nb"
    assert mask("```js\nNo end.") == "_____\nNo end."


def test_emoji_around_the_words_are_not_shown_to_the_model() -> None:
    stub = Stub(str.upper)
    (one,) = protect_sentences([sentence_of("🎉 I like 😀 you! 👍🏽👍🏽", "")], stub)
    assert stub.calls[0] == ["I like X1 you!"]
    assert one.text == "🎉 I LIKE 😀 YOU! 👍🏽👍🏽"


def test_with_a_prefix_the_beginning_stays_and_nothing_is_lost() -> None:
    calls = []

    def complete(source: str, prefix: str) -> SentenceTranslation:
        calls.append((source, prefix))
        return sentence_of(source, f"{prefix} ist X1.")

    found = sentence_of("Where is {a} at 5?", "Dort {a} ist es.")
    assert protect_prefixed(found, "Dort {a}", complete).text == "Dort {a} ist es 5."
    assert calls == [("Where is X1 at 21?", "Dort X1"), ("Where is Jackson at Tom?", "Dort Jackson")]
    one = protect_prefixed(
        sentence_of("Where is {a}?", "Wo?"), "Wo", lambda _, prefix: sentence_of("", f"{prefix} X1?")
    )
    assert one.text == "Wo {a}?"


def test_strings_are_short_for_alignment_and_words_are_as_many() -> None:
    source, text = "Open <a href='x y'>this</a> {{ b c }} now.", "Nun {{ b c }} <a href='x y'>dies</a> öffnen."
    short, shown = shorten(source, text)
    assert len(short.split()) == len(source.split())
    assert len(shown.split()) == len(text.split())
    assert short.split()[4:8] == shown.split()[1:5]


@pytest.mark.slow
def test_long_text_is_searched_in_linear_time() -> None:
    for unit in ("a.", "a@", "`", "<a ", "{{", "a-", "%(", "🎉", "```\n", "1,", ":a", "x://"):
        begin = time.perf_counter()
        survives(unit * 20_000, mask(unit * 20_000))
        assert time.perf_counter() - begin < 3, unit


def test_what_came_through_is_not_tried_again() -> None:
    stub = Stub(str.upper)
    found = [sentence_of("Take 5.", "Nimm 5."), sentence_of("Go.", "Geh.")]
    assert protect_sentences(found, stub) == found
    assert [call for call in stub.calls if call] == []


def test_codes_stand_in_and_are_put_back() -> None:
    stub = Stub(lambda text: f"«{text}»")
    (one,) = protect_sentences([sentence_of("Open {Name} 7 times.", "Öffne name.")], stub)
    assert stub.calls[0] == ["Open X1 21 times."]
    assert one.text == "«Open {Name} 7 times.»"
    assert one.source == "Open {Name} 7 times."


def test_one_code_stands_in_for_strings_without_a_gap() -> None:
    stub = Stub(lambda text: f"«{text}»")
    found = [
        sentence_of("Progress: %d%%.", "%d"),
        sentence_of("Take 100%% now.", ""),
        sentence_of("Take a 7B and ½.", ""),
    ]
    assert [one.text for one in protect_sentences(found, stub)] == [f"«{one.source}»" for one in found]
    assert stub.calls[0] == ["Progress: X1.", "Take 21 now.", "Take a X1 and 21."]


def test_names_stand_in_where_codes_are_lost_and_none_that_is_there_already() -> None:
    stub = Stub(lambda text: text.replace("X1", "X"))
    (one,) = protect_sentences([sentence_of("Jackson opens {a}.", "")], stub)
    assert stub.calls[:2] == [["Jackson opens X1."], ["Jackson opens Tom."]]
    assert one.text == "Jackson opens {a}."


def test_otherwise_the_words_between_are_translated_and_the_rest_stays_in_its_place() -> None:
    stub = Stub(lambda text: f"{text.upper().replace('X', '').replace('TOM', '').replace('2', '')}.")
    source = "“Press <b>this key</b>,  then {a} (5 kg).”"
    (one,) = protect_sentences([sentence_of(source, "")], stub)
    assert one.text == "“PRESS <b>THIS KEY</b>,  THEN {a} (5 KG).”"
    assert one.score == -4.0
    assert one.log_probability == -8.0


def test_a_word_that_would_grow_together_with_a_stand_in_is_never_hidden_in_it() -> None:
    stub = Stub(str.upper)
    (one,) = protect_sentences([sentence_of("Click <b>here</b> now.", "")], stub)
    assert [call for call in stub.calls if call] == [["Click", "here", "now"]]
    assert one.text == "CLICK <b>HERE</b> NOW."


def test_the_suffix_of_a_number_stays_with_it() -> None:
    stub = Stub(str.upper)
    (one,) = protect_sentences([sentence_of("In the 1990s on 40th street", "")], stub)
    assert one.text == "IN THE 1990s ON 40th STREET"


def test_words_are_not_lost_where_the_model_writes_nothing_for_them() -> None:
    (one,) = protect_sentences([sentence_of("At 5 in {a}.", "")], Stub(lambda _: ""))
    assert one.text == "At 5 in {a}."


def test_what_holds_only_verbatim_strings_comes_back_as_it_is() -> None:
    (one,) = protect_sentences([sentence_of("{a}: 5 \u2013 https://x.org", "Unsinn.")], Stub(lambda _: "Unsinn."))
    assert one.text == "{a}: 5 \u2013 https://x.org"


def test_more_strings_than_stand_ins_are_no_harm() -> None:
    source = " ".join(f"word {{name{number}}}" for number in range(12))
    (one,) = protect_sentences([sentence_of(source, "")], Stub(str.upper))
    assert one.text == source.replace("word", "WORD")


def test_of_several_translations_those_that_have_everything_are_kept_in_their_order() -> None:
    found = sentence_of("Take 5.", "Nimm fünf.", "Nimm 5.", "Nehmt 5.")
    (one,) = protect_sentences([found], Stub(str.upper))
    assert one.hypotheses == found.hypotheses[1:]


def test_all_that_need_another_try_go_together() -> None:
    stub = Stub(lambda text: text.replace("X1", "").replace("Jackson", ""))
    found = [sentence_of(f"Word {{a{number}}} w{'o' * number}rd.", "") for number in range(100)]
    assert [one.text for one in protect_sentences(found, stub)] == [one.source for one in found]
    assert [len(call) for call in stub.calls] == [100, 100, 101]


def test_order_and_number_are_kept() -> None:
    found = [
        sentence_of(f"SentenceTranslation {number}.", f"Satz {number if number % 3 else ''}.") for number in range(200)
    ]
    done = protect_sentences(found, Stub(str.upper))
    assert [one.source for one in done] == [one.source for one in found]
    assert all(survives(one.source, one.text) for one in done)


PIECES = [
    "{a}",
    "{{b}}",
    "%s",
    "%%",
    "7B",
    "½",
    r"\n",
    "__N__",
    ":a",
    "<i>",
    "</i>",
    "a@b.de",
    "https://a.de/b",
    "7",
    "1,5",
    "😀",
    "`a b`",
    "Tom",
    "word",
    "x",
    ". ",
    ", ",
    " ",
    " ",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.randoms(use_true_random=False))
def test_whatever_the_model_writes_all_is_there(pieces: list[str], draw: Random) -> None:
    source = "".join(pieces)

    def write(_: str) -> str:
        return "".join(draw.choice([*PIECES, "X1", "21", "Jackson", ""]) for _ in range(5))

    (one,) = protect_sentences([sentence_of(source, write(source))], Stub(write))
    missing = Counter(find_strings(source))
    assert [string for string, count in missing.items() if one.text.count(string) < count] == []


@pytest.mark.slow
def test_the_demo_brings_every_string_through(demo: Model) -> None:
    assert len(SENTENCES) >= 30
    plain = demo.translate(SENTENCES, split=False, protect=False)
    kept = demo.translate(SENTENCES, split=False)
    assert [source for source, text in zip(SENTENCES, kept, strict=True) if not survives(source, text)] == []
    lost = [source for source, text in zip(SENTENCES, plain, strict=True) if not survives(source, text)]
    assert len(lost) > 20, "or else nothing is shown"
    for source, before, after in zip(SENTENCES, plain, kept, strict=True):
        assert source in lost or after == before
    text = "\n".join(SENTENCES)
    assert survives(text, demo.translate(text))
