"""Markdown, subtitles and gettext files: only their text changes."""

import time
from collections import Counter
from collections.abc import Callable

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dragoman.translation.document import TextDocument
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.markup import MarkupDocument
from dragoman.translation.text_formats import parse_markdown, parse_po, parse_subtitles


def upper(document: MarkupDocument) -> str:
    """Return the document with its sentences in upper case."""
    texts = [TextDocument.of(text) for text in document.texts]
    return document.join(
        [[LinkedSentence(span, text.text[slice(*span)].upper()) for span in text.spans] for text in texts]
    )


MARKDOWN = {
    "a heading": ("# One *two*\n\nThree\n=====\n", "# ONE *TWO*\n\nTHREE\n=====\n"),
    "emphasis": ("a **b** _c_ ~~d~~ ***e*** x_y_z 2 * 3 * 4", "A **B** _C_ ~~D~~ ***E*** X_Y_Z 2 * 3 * 4"),
    "links": ('[one **two**](a_(b) "three") [four][five]', '[ONE **TWO**](a_(b) "three") [FOUR][five]'),
    "references": ("[one] [two] [one][]\n\n[one]: /x\n", "[one] [TWO] [one][]\n\n[one]: /x\n"),
    "pictures": ("![two](three.png) four[^1]\n\n[^1]: Five six.", "![two](three.png) FOUR[^1]\n\n[^1]: FIVE SIX."),
    "code": ("run `a b` or ``c ` d`` now\n\n```sh\ne\n```\n\n    f\n",
             "RUN `a b` OR ``c ` d`` NOW\n\n```sh\ne\n```\n\n    f\n"),
    "addresses": ("see <https://a.b/c> or <d@e.f>", "SEE <https://a.b/c> OR <d@e.f>"),
    "lines": ("one\ntwo  \nthree\\\nfour *five\nsix* seven", "ONE\nTWO  \nTHREE\\\nFOUR *FIVE\nSIX* SEVEN"),
    "carriage returns": ("one\r\ntwo\r\n\r\n* three\r\n", "ONE\r\nTWO\r\n\r\n* THREE\r\n"),
    "quotes and lists": ("> one\n> two\n\n1. three\n   - four\n     five\n",
                         "> ONE\n> TWO\n\n1. THREE\n   - FOUR\n     FIVE\n"),
    "a table": ("| a | b c |\n|:--|---|\n| d | **e** a |\n", "| A | B C |\n|:--|---|\n| D | **E** A |\n"),
    "html": ("<div>\none <b>two</b>\n</div>\n\nthree <i>four</i>",
             "<div>\nONE <b>TWO</b>\n</div>\n\nTHREE <i>FOUR</i>"),
    "front matter": ("---\ntitle: one\n---\ntwo\n", "---\ntitle: one\n---\nTWO\n"),
    "escapes": (r"a \*b\* & c < d", r"A \*B\* & C < D"),
    "nothing": ("", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_keeps_its_marks(name: str) -> None:
    source, expected = MARKDOWN[name]
    assert upper(parse_markdown(source)) == expected


SUBTITLES = """\ufeff1
00:00:01,000 --> 00:00:02,500
<i>Where is R&D</i>
and the house?

2
00:00:03,000 --> 00:00:04,000 X1:1
- {\\an8}Yes.
- No.
12
"""


def test_subtitles_keep_times_styles_and_lines() -> None:
    document = parse_subtitles(SUBTITLES)
    assert document.texts == ["Where is R&D and the house?", "- Yes.", "- No. 12"]
    expected = SUBTITLES.replace("Where is", "WHERE IS").replace("and the house", "AND THE HOUSE")
    assert upper(document) == expected.replace("Yes", "YES").replace("No", "NO")


def test_webvtt_keeps_its_head_and_notes() -> None:
    source = "WEBVTT - title\n\nNOTE one\n\nintro\n00:01.000 --> 00:02.000 line:1\ntwo &amp; three\n"
    assert upper(parse_subtitles(source)) == source.replace("two", "TWO").replace("three", "THREE").replace(
        "amp", "AMP"
    )


PO = r"""# one
msgid ""
msgstr ""
"Language: de\n"

#: a.c:1
#, c-format
msgctxt "two"
msgid ""
"Open <b class=\"x\">\"%s\"</b>\n"
"now\\then"
msgstr ""

msgid "done"
msgstr "fertig"

msgid "long"
msgstr ""
"lang"

msgid "%d file"
msgid_plural "%d old files"
msgstr[0] ""
msgstr[1] ""

#~ msgid "past"
#~ msgstr ""
"""


def test_empty_translations_of_a_gettext_file_are_filled_in_and_nothing_else_changes() -> None:
    result = upper(parse_po(PO))
    entries = {entry.msgid: entry for entry in polib.pofile(result)}
    assert entries['Open <b class="x">"%s"</b>\nnow\\then'].msgstr == 'OPEN <b class="x">"%S"</b>\nNOW\\THEN'
    assert [entries[name].msgstr for name in ("done", "long")] == ["fertig", "lang"]
    assert entries["%d file"].msgstr_plural == {0: "%D FILE", 1: "%D OLD FILES"}
    assert entries["past"].msgstr == ""
    source, written = PO.splitlines(), result.splitlines()
    assert len(source) == len(written)
    assert [i for i, pair in enumerate(zip(source, written, strict=True)) if pair[0] != pair[1]] == [11, 22, 23]


PIECES = st.sampled_from(
    [
        "*", "**", "_", "`", "```\n", "[", "](x)", "](", "]", "\n", "\n\n", "> ", "- ", "# ", "|", "|-|-|\n", "word ",
        "\\", "<b>", "![", "~~", "    ", "\r\n", 'msgid "a"\n', 'msgstr ""\n', '"', "00:00:01,0 --> 00:00:02,0\n",
        "{\\an8}", "---\n", "\t",
    ]
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join))
@pytest.mark.parametrize("parse", [parse_markdown, parse_subtitles, parse_po])
def test_any_text_is_read_and_nothing_is_lost(parse: Callable[[str], MarkupDocument], text: str) -> None:
    document = parse(text)
    texts = [TextDocument.of(one) for one in document.texts]
    same = document.join([[LinkedSentence(span, one.text[slice(*span)]) for span in one.spans] for one in texts])
    assert Counter("".join(same.split())) >= Counter("".join(text.split()))


@pytest.mark.parametrize("mark", ["`", "`a", "``a`"])
def test_hostile_marks_of_code_take_little_time(mark: str) -> None:
    begin = time.process_time()
    parse_markdown("x " + mark * (30_000 // len(mark)))
    assert time.process_time() - begin < 5


def test_an_escaped_mark_before_code_is_text() -> None:
    assert parse_markdown("one \\``two` dogs").texts == ["one \\`X1 dogs"]


def test_the_structure_of_markdown_stays() -> None:
    source = "".join(text for text, _ in MARKDOWN.values() if not text.startswith("---"))
    before, after = (MarkdownIt().parse(text) for text in (source, upper(parse_markdown(source))))
    assert [token.type for token in before] == [token.type for token in after]
