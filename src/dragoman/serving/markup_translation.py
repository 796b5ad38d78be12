"""Translation of texts with tags in the service: tags are carried over by the links that an engine returns."""

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.serving.engine_protocol import Answer, TranslationOptions
from dragoman.serving.service import RequestContext
from dragoman.translation.document import TextDocument
from dragoman.translation.glossary import Glossary
from dragoman.translation.inline_tags import LinkedSentence
from dragoman.translation.markup import MarkupDocument


class MarkupTranslation(NamedTuple):
    """A page and the engine's answer to each of its sentences."""

    document: TextDocument
    """The texts of the page, one per line."""
    answers: list[Answer]
    page: MarkupDocument

    def text(self, rank: int = 0) -> str:
        """Return the translated page; the alternatives of rank 1 and above have no word links."""
        sentences = []
        for span, answer in zip(self.document.spans, self.answers, strict=True):
            hypotheses = answer["hypotheses"]
            links = frozenset((i, j) for i, j in answer.get("alignment", ())) if not rank else None
            text = hypotheses[min(rank, len(hypotheses) - 1)]["text"]
            sentences.append(LinkedSentence(span, text, links))
        return self.page.join(self.page.split_sentences(sentences))


async def translate_markup(
    context: RequestContext,
    pages: Sequence[MarkupDocument],
    options: TranslationOptions,
    aligns: bool,
    split: bool = True,
    glossary: Glossary | None = None,
    source: str | None = None,
) -> list[MarkupTranslation]:
    """Translate pages; with `aligns`, the model links the words of texts that have tags."""
    options = options._replace(alignment=aligns and any(any(page.has_tags) for page in pages))
    texts = ["\n".join(page.texts) for page in pages]
    results = await context.translate(texts, options, split, glossary, source)
    return [MarkupTranslation(*result, page) for result, page in zip(results, pages, strict=True)]
