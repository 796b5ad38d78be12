"""Word documents: only text changes, and formatting goes around the words that belong to it."""

import io
import random
import re
import zipfile
from xml.etree import ElementTree

import pytest

from dragoman.translation.document import TextDocument
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.office_formats import DocxDocument, open_docx

NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
W = f"{{{NAMESPACE}}}"
PICTURE = bytes(range(256))


def pack(body: str, **parts: str) -> bytes:
    """Return a document with a body, and perhaps other files of XML."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"a comment"
        archive.writestr("[Content_Types].xml", "<Types/>")
        for name, content in {"document": body, **parts}.items():
            root = f'<w:{name} xmlns:w="{NAMESPACE}"><w:body>{content}</w:body></w:{name}>'
            archive.writestr(f"word/{name}.xml", f'<?xml version="1.0" encoding="UTF-8"?>\r\n{root}')
        archive.writestr(zipfile.ZipInfo("word/media/a.png", (2020, 1, 2, 3, 4, 6)), PICTURE)
    return target.getvalue()


def read(content: bytes, name: str = "document") -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = archive.read(f"word/{name}.xml").decode()
    return text.partition("<w:body>")[2].rpartition("</w:body>")[0]


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{f"<w:rPr>{properties}</w:rPr>" if properties else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'


def rewrite(document: DocxDocument, **words: str) -> bytes:
    """Translate word by word, each linked with its own."""
    results = []
    for text in document.page.texts:
        spans = TextDocument.of(text).spans
        found = []
        for start, end in spans:
            source = text[start:end].split(" ")
            links = frozenset((i, i) for i in range(len(source)))
            found.append(LinkedSentence((start, end), " ".join(words.get(one, one) for one in source), links))
        results.append(found)
    return document.encode(document.page.join(results))


BOLD, ITALIC = "<w:b/>", "<w:i/>"


def test_formatting_goes_around_its_words() -> None:
    body = f"<w:p>{run('Where is ')}{run('the', BOLD)}{run(' station')}</w:p>"
    found = read(rewrite(open_docx(pack(body)), Where="Wo", **{"is": "ist", "the": "der", "station": "Bahnhof"}))
    assert found == f"<w:p>{run('Wo ist ')}{run('der', BOLD)}{run(' Bahnhof')}</w:p>"


def test_the_most_frequent_formatting_is_that_of_all_words_without_another() -> None:
    body = f"<w:p><w:pPr><w:jc/></w:pPr>{run('Where is the', BOLD)}{run(' station', ITALIC)}</w:p>"
    assert open_docx(pack(body)).page.has_tags == [True]
    found = read(rewrite(open_docx(pack(body))))
    assert found == body


def test_runs_that_look_the_same_are_one_text() -> None:
    parts = [run("Where i", '<w:lang w:val="en-US"/>'), '<w:proofErr w:type="a"/>', run("s the sta"), run("tion", "")]
    document = open_docx(pack(f"<w:p>{''.join(parts)}</w:p>"))
    assert document.page.texts == ["Where is the station"]
    assert '<w:proofErr w:type="a"/>' in read(rewrite(document))


def test_links_tabs_breaks_notes_and_pictures_stay() -> None:
    link = f'<w:hyperlink r="1">{run("the", "<w:u/>")}</w:hyperlink>'
    note = "<w:r><w:footnoteReference/></w:r>"
    picture = "<w:r><w:drawing><a/></w:drawing></w:r>"
    start = '<w:r><w:t>one</w:t><w:tab/><w:t>Where</w:t><w:br/><w:t xml:space="preserve">is </w:t></w:r>'
    body = f"<w:p>{start}{link}{run(' station')}{note}{picture}</w:p>"
    document = open_docx(pack(body))
    assert document.page.texts == ["one", "Where is the station"]
    found = read(rewrite(document, the="der"))
    for once in (link.replace(">the<", ">der<"), note, picture, "<w:tab/>", "<w:br/>"):
        assert found.count(once) == 1, found
    assert found.index("<w:tab/>") < found.index("Where") < found.index("<w:br/>") < found.index(">der<")


def field(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def test_fields_and_deletions_are_kept_as_they_are() -> None:
    code = f"{field('begin')}<w:r><w:instrText>PAGE</w:instrText></w:r>{field('separate')}{run('four')}{field('end')}"
    gone = "<w:del><w:r><w:delText>never</w:delText></w:r></w:del>"
    document = open_docx(pack(f"<w:p>{run('See page ')}{code}{run(' for dogs')}{gone}</w:p>"))
    assert document.page.texts == ["See page X1 for dogs"]
    found = read(rewrite(document))
    assert found.count(code) == found.count(gone) == 1


def test_a_field_over_several_paragraphs_stays_where_it_is() -> None:
    body = f"<w:p>{field('begin')}{run('One dog')}</w:p><w:p>{run('Two dogs')}{field('end')}</w:p>"
    document = open_docx(pack(body))
    assert document.page.texts == ["One dog", "Two dogs"]
    assert read(rewrite(document)) == body


def test_all_else_is_the_same_byte_for_byte() -> None:
    box = f"<w:p><w:r><w:pict><w:txbxContent><w:p>{run('In a box')}</w:p></w:txbxContent></w:pict></w:r></w:p>"
    body = f"<w:p/>\n<w:p><w:r><w:t>12</w:t></w:r></w:p><!-- a -->{box}<w:p>{run('dogs')}</w:p><w:sectPr/>"
    content = pack(body, header1=f"<w:p>{run('dogs')}</w:p>", styles=f"<w:p>{run('dogs')}</w:p>")
    document = open_docx(content)
    assert document.page.texts == ["dogs", "dogs"]
    changed = rewrite(document, dogs="Hunde")
    assert read(changed) == body.replace("dogs", "Hunde")
    assert "Hunde" in read(changed, "header1")
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(io.BytesIO(changed)) as new:
        assert new.comment == old.comment
        assert [(one.filename, one.date_time, one.compress_type) for one in new.infolist()] == [
            (one.filename, one.date_time, one.compress_type) for one in old.infolist()
        ]
        assert [name for name in old.namelist() if old.read(name) != new.read(name)] == [
            "word/document.xml",
            "word/header1.xml",
        ]


def test_special_characters_are_written_as_entities() -> None:
    document = open_docx(pack(f"<w:p>{run('salt &amp; dogs &lt;a')}</w:p>"))
    assert document.page.texts == ["salt & dogs <a"]
    assert "Hunde &amp; &lt;b&gt;" in read(rewrite(document, dogs="Hunde & <b>"))


WRONG = {
    "no zip": b"a",
    "another zip": pack("").replace(b"word/document.xml", b"word/documend.xml"),
    "XML that is not well-formed": pack("<w:p>"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_document_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"^a\.docx: "):
        open_docx(WRONG[name], "a.docx")


def test_entities_of_a_document_type_and_too_much_xml_are_refused() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        root = f'<w:document xmlns:w="{NAMESPACE}">&b;</w:document>'
        archive.writestr("word/document.xml", f'<!DOCTYPE a [<!ENTITY b "c">]>{root}')
    with pytest.raises(ValueError, match="document type"):
        open_docx(target.getvalue())
    with pytest.raises(ValueError, match="bytes of XML"):
        open_docx(pack(""), most_bytes=10)


FORMATS = ["", BOLD, ITALIC, BOLD + ITALIC, '<w:color w:val="FF0000"/>']
WORDS = ["red", "dogs", "old", "house,", "station", "the", "and", "eat", "it."]


def make_paragraph(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.randint(1, 7)):
        words = [chance.choice(WORDS) for _ in range(chance.randint(1, 4))]
        piece = run(" ".join(words) + " ", chance.choice(FORMATS))
        kind = chance.random()
        if kind < 0.2:
            piece = f'<w:hyperlink w:anchor="{len(parts)}">{piece}{run("x ", chance.choice(FORMATS))}</w:hyperlink>'
        elif kind < 0.3:
            piece += f'<w:bookmarkStart w:id="{len(parts)}"/>'
        elif kind < 0.4:
            piece += f'<w:r><w:footnoteReference w:id="{len(parts)}"/></w:r>'
        elif kind < 0.5:
            piece = piece.replace("</w:t>", "</w:t><w:br/><w:t>more </w:t>")
        elif kind < 0.6:
            piece = f"<w:ins>{piece}</w:ins>"
        elif kind < 0.7:
            piece = piece.replace("</w:t>", "</w:t><w:tab/>")
        parts.append(piece)
    return f"<w:p><w:pPr><w:ind/></w:pPr>{''.join(parts)}</w:p>"


def visible(body: str) -> list[tuple[str, ...]]:
    """Return each letter with the formatting and the elements around it."""
    found: list[tuple[str, ...]] = []

    def walk(node: ElementTree.Element, around: tuple[str, ...]) -> None:
        name = node.tag.removeprefix(W)
        if name == "r":
            properties = node.find(f"{W}rPr")
            formats = [one.tag.removeprefix(W) for one in properties] if properties is not None else []
            around += tuple(sorted(formats))
        elif name in ("hyperlink", "ins"):
            around += (name, str(node.attrib))
        if name == "t":
            found.extend((letter, *around) for letter in node.text or "" if not letter.isspace())
        for child in node:
            walk(child, around)

    walk(ElementTree.fromstring(f'<w:a xmlns:w="{NAMESPACE}">{body}</w:a>'), ())
    return found


@pytest.mark.parametrize("seed", range(200))
def test_a_text_that_is_its_own_translation_looks_the_same(seed: int) -> None:
    body = "".join(make_paragraph(random.Random(10 * seed + i)) for i in range(3))
    found = read(rewrite(open_docx(pack(body))))
    assert visible(found) == visible(body)
    for name in ("bookmarkStart", "footnoteReference", "tab/", "br/", "w:hyperlink ", "w:ins>", "w:pPr>"):
        assert found.count(name) == body.count(name)
    assert not re.search(r"<w:r>(<w:rPr>((?!</w:rPr>).)*</w:rPr>)?</w:r>", found)
    assert "\0" not in found
