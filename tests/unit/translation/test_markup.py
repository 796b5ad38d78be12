"""Markup: all of it stays, each tag once, around the words that are linked to its words."""

import random
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from html import escape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.translation.document import TextDocument
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.markup import MarkupDocument, parse_html, parse_xml

VOID = ("br", "img", "wbr")
INLINE = ("b", "i", "a", "span", "em", "strong", "u")
WORDS = ("house", "Tom", "red", "3", "Größe", "don't", "x<y", "R&D", "“so”", "50%", "café", "end.", "(maybe)", "a\xa0b")
Translation = tuple[str, frozenset[tuple[int, int]] | None]


def translate(document: MarkupDocument, sentence_of: Callable[[str], Translation]) -> str:
    """Return a document whose sentences are translated by a function from a sentence to a translation and links."""
    texts = [TextDocument.of(text) for text in document.texts]
    return document.join(
        [
            [
                LinkedSentence(span, *sentence_of(sentence))
                for span, sentence in zip(text.spans, text.sentences, strict=True)
            ]
            for text in texts
        ]
    )


def upper(sentence: str) -> tuple[str, None]:
    return sentence.upper(), None


def reverse(sentence: str) -> tuple[str, frozenset[tuple[int, int]]]:
    words = sentence.split()
    return " ".join(reversed(words)), frozenset((i, len(words) - 1 - i) for i in range(len(words)))


def html(text: str, sentence_of: Callable[[str], Translation] = upper) -> str:
    return translate(parse_html(text), sentence_of)


class Events(HTMLParser):
    """The tags, attributes, comments and words of a document, as Python's own parser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags = Counter[object]()
        self.text = ""
        self.open: list[str] = []
        self.is_nested = True
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag, *attrs] += 1
        if tag not in VOID:
            self.open.append(tag)
        self.text += "" if tag in INLINE else " "

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags["/", tag, *attrs] += 1

    def handle_endtag(self, tag: str) -> None:
        self.is_nested = self.is_nested and bool(self.open) and self.open.pop() == tag
        self.text += "" if tag in INLINE else " "

    def handle_comment(self, data: str) -> None:
        self.tags["!", data] += 1

    def handle_data(self, data: str) -> None:
        self.text += data


def make_inline(draw: random.Random, depth: int, is_xml: bool) -> str:
    """Return words with nested inline tags, white space in and around them, entities, comments and empty elements."""
    pieces = []
    for _ in range(draw.randint(1, 5)):
        kind = draw.random()
        if kind < 0.45 or depth > 5:
            pieces.append(" ".join(escape(draw.choice(WORDS), quote=False) for _ in range(draw.randint(1, 4))))
        elif kind < 0.8:
            name, inner = draw.choice(INLINE), make_inline(draw, depth + 1, is_xml)
            attribute = draw.choice(
                ["", f' id="n{draw.randint(0, 999)}"', ' title="a &gt; b &quot;c&quot;"', " class='x y'"]
            )
            pieces.append(f"<{name}{attribute}>{inner}</{name}>")
        elif kind < 0.86:
            pieces.append(
                "<br/>" if is_xml else draw.choice(["<br>", "<br/>", '<img src="a.png" alt="red house">', "<wbr>"])
            )
        elif kind < 0.9:
            pieces.append(f"<!-- note {draw.randint(0, 99)} -->")
        elif kind < 0.95:
            pieces.append(f'<span class="icon{draw.randint(0, 99)}"></span>')
        else:
            pieces.append(
                draw.choice(["&lt;", "&amp;", "&#8212;", "&quot;"] + ([] if is_xml else ["&eacute;", "&mdash;"]))
            )
    return draw.choice(["", " ", " ", "\n  "]).join(pieces)


def make_document(draw: random.Random, is_xml: bool) -> str:
    blocks = [f'<p n="{i}">{make_inline(draw, 0, is_xml)}</p>' for i in range(draw.randint(1, 4))]
    return "<div>\n" + "\n".join(blocks) + "\n</div>"


def make_translator(draw: random.Random) -> Callable[[str], Translation]:
    """Return a translator that reorders words, drops some and adds some, with links or without."""

    def sentence_of(sentence: str) -> Translation:
        words = list(enumerate(sentence.split()))
        draw.shuffle(words)
        words = [word for word in words if draw.random() < 0.9] or words
        links = frozenset((i, j) for j, (i, _) in enumerate(words) if draw.random() < 0.8)
        return " ".join(word.upper() if draw.random() < 0.5 else word for _, word in words), draw.choice([links, None])

    return sentence_of


@pytest.mark.parametrize("is_xml", [False, True])
def test_500_documents_keep_every_tag_once_and_stay_well_formed(is_xml: bool) -> None:
    draw = random.Random(7)
    for _ in range(500):
        source = make_document(draw, is_xml)
        document = parse_xml(source) if is_xml else parse_html(source)
        written: list[str] = []
        sentence_of = make_translator(draw)

        def remember(sentence: str, sentence_of=sentence_of, written=written) -> Translation:
            found = sentence_of(sentence)
            written.append(found[0])
            return found

        result = translate(document, remember)
        before, after = Events(source), Events(result)
        assert before.is_nested
        assert after.is_nested, (source, result)
        assert before.tags == after.tags, (source, result)
        letters = Counter("".join(after.text.split()))
        assert not Counter("".join("".join(written).split())) - letters, (source, result)
        if is_xml:
            elements = [
                Counter((e.tag, *e.attrib.items()) for e in ET.fromstring(text).iter()) for text in (source, result)
            ]
            assert elements[0] == elements[1]


def test_a_translation_that_is_the_source_gives_the_source() -> None:
    draw = random.Random(3)
    for _ in range(200):
        source = " ".join(make_document(draw, False).split())
        result = html(source, lambda sentence: (sentence, frozenset((i, i) for i in range(len(sentence.split())))))
        assert Events(result).tags == Events(source).tags
        assert "".join(Events(result).text.split()) == "".join(Events(source).text.split())


PLACED = {
    "an element": ("Hello <b>world</b>!", "HELLO <b>WORLD</b>!"),
    "white space inside": ("One<b> two </b>three", "ONE<b> TWO </b>THREE"),
    "line breaks": ("a<br>b<br/>\n  c <br> d", "A<br>B<br/>\n  C <br> D"),
    "a picture": ('See <img src="x>y"> here', 'SEE <img src="x>y"> HERE'),
    "entities": ("1 &lt; 2 &amp; &quot;x&quot;&nbsp;y &#8212; z", "1 &lt; 2 &amp; &quot;X&quot;&nbsp;Y &#8212; Z"),
    "escaped tags": ("Write &lt;b&gt; here", "WRITE &lt;B&gt; HERE"),
    "an ampersand": ("Salt & pepper, R&D", "SALT & PEPPER, R&amp;D"),
    "punctuation": ('(<b>one</b>), <i>two,</i> <u>"three"</u>.', '(<b>ONE</b>), <i>TWO,</i> <u>"THREE"</u>.'),
    "two sentences": ("<b>One here. Two</b> there.", "<b>ONE HERE. TWO</b> THERE."),
    "a part of a word": ("H<sub>2</sub>O is wet", "H<sub>2</sub>O IS WET"),
    "a note": ("It is so<sup>[1]</sup>. Yes", "IT IS SO<sup>[1]</sup>. YES"),
    "code": ("Call <code>run()</code> now", "CALL <code>run()</code> NOW"),
    "not translated": ('At <b translate="no">Acme &amp; Co</b> today', 'AT <b translate="no">Acme &amp; Co</b> TODAY'),
    "a class": ("<i class='x notranslate'>Acme</i> is here", "<i class='x notranslate'>Acme</i> IS HERE"),
    "a block": ('<p translate="no">one</p><p>two</p><pre> three</pre>',
                '<p translate="no">one</p><p>TWO</p><pre> three</pre>'),
    "a script": ("<script>if (a<b) '</p>'</script>one<style>p > a</style>",
                 "<script>if (a<b) '</p>'</script>ONE<style>p > a</style>"),
    "attributes": ('<a href="/one" title="two">three</a>', '<a href="/one" title="two">THREE</a>'),
    "comments": ("<!-- one -->two <!-- three --> four", "<!-- one -->TWO <!-- three --> FOUR"),
    "no letters": ("<td> 12 <b>&ndash;</b> </td>", "<td> 12 <b>&ndash;</b> </td>"),
    "an unknown entity": ("By &company; for you", "BY &company; FOR YOU"),
    "a lone tag": ("one <b>two <p>three</b> four", "ONE <b>TWO <p>THREE</b> FOUR"),
    "crossing tags": ("<b>a <i>b</b> c</i> d", "<b>A <i>B</b> C</i> D"),
    "a lone bracket": ("one < two <3", "ONE &lt; TWO &lt;3"),
    "upper case": ("<P>one <B>two</b></P>", "<P>ONE <B>TWO</b></P>"),
    "a page": ("<!DOCTYPE html>\n<html><head><title>one</title></head>\n<body>two</body></html>\n",
               "<!DOCTYPE html>\n<html><head><title>ONE</title></head>\n<body>TWO</body></html>\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_only_the_text_changes(name: str) -> None:
    source, expected = PLACED[name]
    assert html(source) == expected


REORDERED = {
    "one word": ("<b>one</b> two three", "three two <b>one</b>"),
    "nested": ("<a><i>one</i> two</a> three", "three <a>two <i>one</i></a>"),
    "two elements": ("<b>one two</b> three <i>four</i>", "<i>four</i> three <b>two one</b>"),
    "a break goes before its next word": ("one <br>two three", "three <br>two one"),
    "code": ("use <code>f()</code> now", "now <code>f()</code> use"),
    "a break between sentences": ("One two.<br>Three <b>four</b>.", "two. One<br><b>four</b>. Three"),
    "everything": ("<b>one two</b>", "<b>two one</b>"),
}


@pytest.mark.parametrize("name", REORDERED)
def test_tags_follow_the_links(name: str) -> None:
    source, expected = REORDERED[name]
    assert html(source, reverse) == expected


def test_an_element_takes_the_words_that_are_linked_to_it_and_not_a_stray_one() -> None:
    links = frozenset({(0, 0), (1, 1), (2, 2), (3, 3), (1, 5), (4, 4)})
    assert html("a <b>b c</b> d e", lambda _: ("A B C D E F", links)) == "A <b>B C</b> D E F"


def test_of_a_verb_in_two_parts_an_element_has_the_longer_and_no_words_of_others() -> None:
    links = frozenset({(0, 0), (1, 1), (1, 4), (2, 2), (3, 3)})
    bought = html("He <b>bought</b> a car", lambda _: ("Er hat ein Auto gekauft", links))
    assert bought == "Er hat ein Auto <b>gekauft</b>"
    links = frozenset({(0, 0), (1, 1), (2, 5), (3, 2), (4, 3), (5, 4)})
    seen = html("He <b>has seen the big</b> dog", lambda _: ("Er hat den großen Hund gesehen", links))
    assert seen == "Er <b>hat den großen</b> Hund gesehen"


def test_an_element_without_links_is_put_beside_its_neighbours() -> None:
    assert html("a <b>b</b> c", lambda _: ("A C", frozenset({(0, 0), (2, 1)}))) == "A <b></b>C"
    assert html("a <b>b</b> c", lambda _: ("A B C", frozenset({(0, 0), (2, 2)}))) == "A <b>B</b> C"


def test_content_that_the_translation_lost_is_written_nevertheless() -> None:
    assert html("use <code>f()</code> now", lambda _: ("benutze jetzt", None)).count("<code>f()</code>") == 1
    twice = html("use <code>f()</code> now", lambda _: ("X1 benutze X1", None))
    assert twice.count("<code>f()</code>") == 1
    assert "X1" not in twice


def test_the_texts_of_a_document_can_be_translated_as_one() -> None:
    document = parse_html("<p>One <b>two</b>.</p><p>---</p><p>Three. <i>Four</i>.</p>")
    whole = TextDocument.of("\n".join(document.texts))
    sentences = [LinkedSentence(span, text.upper()) for span, text in zip(whole.spans, whole.sentences, strict=True)]
    assert (
        document.join(document.split_sentences(sentences))
        == "<p>ONE <b>TWO</b>.</p><p>---</p><p>THREE. <i>FOUR</i>.</p>"
    )


def test_elements_of_xml_stand_within_a_text_if_there_is_text_beside_them() -> None:
    source = (
        '<?xml version="1.0"?>\n<r><t>One <g id="1">two</g></t>\n <größe>three</größe><x/><u><![CDATA[four]]></u></r>'
    )
    document = parse_xml(source)
    assert document.texts == ["One two", "three"]
    assert translate(document, upper) == source.replace("One", "ONE").replace("two", "TWO").replace("three", "THREE")


@pytest.mark.parametrize("text", ["", "text", "<a>", "<a></b>", "<a>&nbsp;</a>", "<a/><b/>", "<a b=c/>", "\ud800"])
def test_xml_that_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=": "):
        parse_xml(text)


PIECES = st.sampled_from(
    [
        "<", ">", "</", "<b>", "</b>", "<i x='", '"', "'", "<!--", "-->", "&", "&lt;", "&#", "&x;", "<p>", "</p>",
        "<br>",
        "<script>", "</script>", "<code>", "</code>", "<pre>", "=", "/", " ", "\n", "word", "Two words. ", "X1", "<?",
        "<![CDATA[", "]]>", "<span translate=no>", "</span>", "\xa0", "<a b=c>", "</a>", "&#0;", "&#10;", "\x1c",
        "\u2028",
    ]
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(PIECES | st.text(max_size=3), max_size=30).map("".join), st.booleans())
def test_broken_html_is_read_and_nothing_is_lost(text: str, has_links: bool) -> None:
    document = parse_html(text)
    result = translate(document, reverse if has_links else lambda sentence: (sentence, None))
    raw = Counter("".join(part for part in document.parts if isinstance(part, str)))
    assert not raw - Counter(result)
    texts = Counter(
        "".join(translate(MarkupDocument((part,)), reverse) for part in document.parts if not isinstance(part, str))
    )
    assert not raw + texts - Counter(result) if has_links else True
    for word in ("word", "words"):
        assert result.count(word) >= text.count(word) - text.count("X1")


@settings(max_examples=50)
@given(st.lists(PIECES | st.text(max_size=3), max_size=20).map("".join))
def test_broken_xml_is_refused_and_never_crashes(text: str) -> None:
    with suppress(ValueError):
        document = parse_xml(f"<r>{text}</r>")
        ET.fromstring(translate(document, reverse))


@pytest.mark.parametrize(
    "text",
    ["<a ", "<b>", "</b>", "<!--", "<script>", "<a b='", "<code>", "<?", "<!DOCTYPE [", "&x;", "<b>a</i>", "x<br>"],
)
def test_repeated_markup_takes_no_longer_than_its_length(text: str) -> None:
    start = time.process_time()
    html(text * (20_000 // len(text)))
    assert time.process_time() - start < 5
