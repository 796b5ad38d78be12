"""Whatever a model does, placeholders, addresses and numbers come through."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.decoding.model import Model
from dragoman.decoding.protect import protected, rescued
from dragoman.decoding.translated import Sentence, Written
from dragoman.decoding.verbatim import VERBATIM, masked, survives

SENTENCES = (Path(__file__).parent / "documents" / "protected.txt").read_text().splitlines()


def said(source: str, *texts: str) -> Sentence:
    return Sentence(source, tuple(Written(text, -float(rank), -2.0 * rank) for rank, text in enumerate(texts, 1)))


class Stub:
    """Translates by a function, and remembers what it was asked."""

    def __init__(self, write: Callable[[str], str]) -> None:
        self.write = write
        self.asked: list[list[str]] = []

    def __call__(self, sentences: list[str]) -> list[Sentence]:
        self.asked.append(sentences)
        return [said(sentence, self.write(sentence)) for sentence in sentences]


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
        (":count of :total_2: not a:b, 10:30, or : so", [":count", ":total_2", "10:30"]),
        ("2024年3月见https://a.cn/x。好", ["2024", "3", "https://a.cn/x"]),
        ("Nothing here: a@b, 'http', {two words}, $ 5", ["5"]),
    ],
)
def test_what_means_itself_is_found(text: str, strings: list[str]) -> None:
    assert VERBATIM.findall(text) == strings


def test_what_survives_is_there_as_often_as_before() -> None:
    assert survives("{a} and {a} in 5", "5: {a}, {a}")
    assert not survives("{a} and {a} in 5", "5: {a}")
    assert not survives("{a} in 5", "5: {a}, {a}")
    assert not survives("in 5", "in 15")
    assert survives("nothing", "anything, even 7")


@given(st.text(st.sampled_from("ab1.@{}<>%$s:/w ,|\n-;&_#")))
def test_a_mask_keeps_every_place(text: str) -> None:
    plain = masked(text)
    assert len(plain) == len(text)
    assert all(new in (old, "_") for new, old in zip(plain, text, strict=True))


def test_what_came_through_is_not_tried_again() -> None:
    stub = Stub(str.upper)
    found = [said("Take 5.", "Nimm 5."), said("Go.", "Geh.")]
    assert rescued(found, stub) == found
    assert [asked for asked in stub.asked if asked] == []


def test_codes_stand_in_and_are_put_back() -> None:
    stub = Stub(lambda text: f"«{text}»")
    (one,) = rescued([said("Open {Name} 7 times.", "Öffne name.")], stub)
    assert stub.asked[0] == ["Open X1 21 times."]
    assert one.text == "«Open {Name} 7 times.»"
    assert one.source == "Open {Name} 7 times."


def test_one_code_stands_in_for_strings_without_a_gap() -> None:
    stub = Stub(lambda text: f"«{text}»")
    found = [said("Progress: %d%%.", "%d"), said("Take 100%% now.", ""), said("Take a 7B and ½.", "")]
    assert [one.text for one in rescued(found, stub)] == [f"«{one.source}»" for one in found]
    assert stub.asked[0] == ["Progress: X1.", "Take 21 now.", "Take a X1 and 21."]


def test_names_stand_in_where_codes_are_lost_and_none_that_is_there_already() -> None:
    stub = Stub(lambda text: text.replace("X1", "X"))
    (one,) = rescued([said("Jackson opens {a}.", "")], stub)
    assert stub.asked[:2] == [["Jackson opens X1."], ["Jackson opens Tom."]]
    assert one.text == "Jackson opens {a}."


def test_otherwise_the_words_between_are_translated_and_the_rest_stays_in_its_place() -> None:
    stub = Stub(lambda text: f"{text.upper().replace('X', '').replace('TOM', '').replace('2', '')}.")
    source = "“Press <b>this key</b>,  then {a} (5 kg).”"
    (one,) = rescued([said(source, "")], stub)
    assert one.text == "“PRESS <b>THIS KEY</b>,  THEN {a} (5 KG).”"
    assert one.score == -4.0
    assert one.log_probability == -8.0


def test_a_word_that_would_grow_together_with_a_stand_in_is_never_hidden_in_it() -> None:
    stub = Stub(str.upper)
    (one,) = rescued([said("Click <b>here</b> now.", "")], stub)
    assert [asked for asked in stub.asked if asked] == [["Click", "here", "now"]]
    assert one.text == "CLICK <b>HERE</b> NOW."


def test_words_are_not_lost_where_the_model_writes_nothing_for_them() -> None:
    (one,) = rescued([said("At 5 in {a}.", "")], Stub(lambda _: ""))
    assert one.text == "At 5 in {a}."


def test_what_holds_only_verbatim_strings_comes_back_as_it_is() -> None:
    (one,) = rescued([said("{a}: 5 \u2013 https://x.org", "Unsinn.")], Stub(lambda _: "Unsinn."))
    assert one.text == "{a}: 5 \u2013 https://x.org"


def test_more_strings_than_stand_ins_are_no_harm() -> None:
    source = " ".join(f"word {{name{number}}}" for number in range(12))
    (one,) = rescued([said(source, "")], Stub(str.upper))
    assert one.text == source.replace("word", "WORD")


def test_of_several_translations_those_that_have_everything_are_kept_in_their_order() -> None:
    found = said("Take 5.", "Nimm fünf.", "Nimm 5.", "Nehmt 5.")
    (one,) = rescued([found], Stub(str.upper))
    assert one.hypotheses == found.hypotheses[1:]


def test_all_that_need_another_try_go_together() -> None:
    stub = Stub(lambda text: text.replace("X1", "").replace("Jackson", ""))
    found = [said(f"Word {{a{number}}} w{'o' * number}rd.", "") for number in range(100)]
    assert [one.text for one in protected(found, stub, 2048)] == [one.source for one in found]
    assert [len(asked) for asked in stub.asked] == [64, 64, 65, 36, 36, 37]


def test_order_and_number_are_kept() -> None:
    found = [said(f"Sentence {number}.", f"Satz {number if number % 3 else ''}.") for number in range(200)]
    done = list(protected(iter(found), Stub(str.upper), 50))
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

    (one,) = rescued([said(source, write(source))], Stub(write))
    missing = Counter(VERBATIM.findall(source))
    assert [string for string, count in missing.items() if one.text.count(string) < count] == []


@pytest.mark.slow
def test_the_demo_brings_every_string_through(demo: Model) -> None:
    assert len(SENTENCES) >= 30
    plain = demo.translate(SENTENCES, split=False)
    kept = demo.translate(SENTENCES, split=False, protect=True)
    assert [source for source, text in zip(SENTENCES, kept, strict=True) if not survives(source, text)] == []
    lost = [source for source, text in zip(SENTENCES, plain, strict=True) if not survives(source, text)]
    assert len(lost) > 20, "or else nothing is shown"
    for source, before, after in zip(SENTENCES, plain, kept, strict=True):
        assert source in lost or after == before
    text = "\n".join(SENTENCES)
    assert survives(text, demo.translate(text, protect=True))
