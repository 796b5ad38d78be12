"""Translate the texts of a document in markup, and put its inline tags around the linked words. No torch."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from dragoman.translation.apply_glossary import LinksOf
from dragoman.translation.file_formats import FormatName
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.markup import MarkupDocument, parse_html, parse_xml
from dragoman.translation.office_formats import open_docx
from dragoman.translation.results import TextTranslation
from dragoman.translation.text_formats import parse_markdown, parse_po, parse_subtitles

_TEXTS: Final = 64
"""The number of texts whose words are linked at once."""

_PARSERS: Final[dict[FormatName, Callable[[str], MarkupDocument]]] = {
    "html": parse_html,
    "xml": parse_xml,
    "markdown": parse_markdown,
    "srt": parse_subtitles,
    "po": parse_po,
}


def parse_document(text: str, kind: FormatName, name: str = "") -> MarkupDocument:
    """Read a document of a format in `file_formats.MARKUP`; errors begin with the name of the file."""
    try:
        return _PARSERS[kind](text)
    except ValueError as error:
        raise ValueError(f"{name}, {error}" if name else str(error)) from None


class OpenDocument(NamedTuple):
    """The content of a file: text, or texts and markup, with the function that writes it."""

    text: str
    page: MarkupDocument | None
    encode: Callable[[str], bytes] = str.encode


def open_document(content: bytes, kind: FormatName, most_bytes: int) -> OpenDocument:
    """Read the content of a file: plain text, or a format in `file_formats.MARKUP`; raise ValueError if it is not.

    `most_bytes` is the limit of the file, or of the XML in a Word document.
    """
    if kind == "docx":
        docx = open_docx(content, most_bytes=most_bytes)
        return OpenDocument("", docx.page, docx.encode)
    if len(content) > most_bytes:
        raise ValueError(f"more than {most_bytes:,} bytes: divide the file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8: save the file as UTF-8") from None
    return OpenDocument(text, None if kind == "text" else parse_document(text, kind))


def join_translations(
    document: MarkupDocument, translations: Iterable[TextTranslation], links_of: LinksOf | None
) -> str:
    """Return a document with the translations of its texts; without `links_of`, tags are placed by position."""
    return document.join(list(_link(document, iter(translations), links_of)))


def _link(
    document: MarkupDocument, translations: Iterator[TextTranslation], links_of: LinksOf | None
) -> Iterator[list[LinkedSentence]]:
    """Yield the translated sentences of each text, with word links if the text has tags."""
    has_tags = iter(document.has_tags)
    while texts := list(islice(translations, _TEXTS)):
        tagged = list(islice(has_tags, len(texts)))
        sentences = [one for text, tags in zip(texts, tagged, strict=True) if tags for one in text.sentences]
        written = [one.text if one.kept or not one.segments else one.segments for one in sentences]
        links = iter(links_of([one.source for one in sentences], written) if links_of and sentences else ())
        for text, tags in zip(texts, tagged, strict=True):
            pairs = zip(text.document.spans, text.sentences, strict=True)
            yield [LinkedSentence(span, one.text, next(links, None) if tags else None) for span, one in pairs]
