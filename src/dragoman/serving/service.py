"""Texts in, translations out, for many who ask at once: cut into sentences, let in, translated, put together."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from dragoman.decoding.document import Document
from dragoman.serving.dispatch import Dispatcher
from dragoman.serving.facts import Facts
from dragoman.serving.limits import Limits
from dragoman.serving.piece import Piece, Wish, cost_of
from dragoman.serving.refusal import BusyError, MistakenError, TooLargeError, UnknownModelError


class Found(NamedTuple):
    """A text's translation, and the sentences it is made of."""

    text: str
    document: Document
    answers: list[dict[str, Any]]
    """As the engines gave them, one for each sentence."""

    def other(self, place: int) -> str:
        """The text made of each sentence's translation in this place of its ranking, or of its last one."""
        ranked = [answer["hypotheses"] for answer in self.answers]
        return self.document.joined([some[min(place, len(some) - 1)][0] for some in ranked])


class Service:
    """What the routes of HTTP stand on."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self.draining = False
        """Whether it was told to stop: it answers still, but says that it is not ready."""

    @property
    def models(self) -> dict[str, Facts]:
        return self.dispatcher.crew.facts

    @property
    def ready(self) -> bool:
        return self.dispatcher.crew.ready and not self.draining

    def model(self, name: str | None, source: str | None = None, target: str | None = None) -> Facts:
        """The one of this name, or the first from this language to that."""
        if name is not None:
            if name not in self.models:
                raise UnknownModelError(f"no model is called {_short(name)}: {_listed(list(self.models))}")
            return self.models[name]
        for facts in self.models.values():
            if source in (None, facts.source) and target in (None, facts.target):
                return facts
        pairs = [f"{facts.source} to {facts.target}" for facts in self.models.values()]
        raise UnknownModelError(f"no model from {_short(source)} to {_short(target)}: {_listed(pairs)}")

    def refuse_too_much(self, texts: Sequence[str], prefix: str = "") -> None:
        """What one request may not bring, and what is no text."""
        limits = self.limits
        if len(texts) > limits.texts:
            raise TooLargeError(f"{len(texts):,} texts: at most {limits.texts:,} in a request")
        characters = sum(map(len, texts)) + len(prefix)
        if characters > limits.characters:
            raise TooLargeError(f"{characters:,} characters: at most {limits.characters:,} in a request")
        for number, text in enumerate([prefix, *texts]):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                which = f"text {number}" if number else "prefix"
                raise MistakenError(f"{which}: half a character at place {error.start}") from None

    async def translate(self, texts: Sequence[str], wish: Wish, split: bool = True) -> list[Found]:
        """One for each text. Whoever is cancelled while waiting leaves the queue."""
        self.refuse_too_much(texts, wish.prefix)
        facts = self.models[wish.model]
        language = None if facts.source == "und" else facts.source
        documents = [Document.of(text, language) if split else Document.of_lines(text) for text in texts]
        sentences = [sentence for document in documents for sentence in document.sentences]
        if wish.prefix and (len(documents) != 1 or len(sentences) != 1):
            raise MistakenError("a prefix is the beginning of one translation: give one text of one sentence")
        answers = iter(await self._answers(sentences, wish) if sentences else [])
        return [_joined(document, [next(answers) for _ in document.spans]) for document in documents]

    async def _answers(self, sentences: list[str], wish: Wish) -> list[dict[str, Any]]:
        loop, costs = asyncio.get_running_loop(), list(map(cost_of, sentences))
        self.dispatcher.let_in(sum(costs))
        pairs = zip(sentences, costs, strict=True)
        pieces = [Piece(text, wish, cost, loop.time(), loop.create_future()) for text, cost in pairs]
        self.dispatcher.put(pieces)
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await asyncio.gather(*(piece.answer for piece in pieces))
        except TimeoutError:
            raise BusyError(f"not done within {self.limits.seconds:g} seconds: send less at once", 1.0) from None
        finally:
            self.dispatcher.discard(pieces)
            for piece in pieces:
                piece.answer.cancel()


def _joined(document: Document, answers: list[dict[str, Any]]) -> Found:
    return Found(document.joined([answer["hypotheses"][0][0] for answer in answers]), document, answers)


def _listed(known: list[str]) -> str:
    return f"there is {', '.join(known[:20])}" + (" and more" if len(known) > 20 else "")


def _short(given: str | None) -> str:
    """What somebody sent, as it may be repeated in an answer."""
    return "anything" if given is None else repr(given[:40])
