"""Translate the texts of a document in markup, and put its inline tags around the linked words. No torch."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from dragoman.translation.apply_glossary import LinksOf
from dragoman.translation.file_formats import FormatName
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.markup import MarkupDocument, parse_html, parse_xml
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
