"""Text in, translations out: mended as training text is, cut where too long, searched by an engine, decoded.

A text's translation depends on nothing but the text: batches only make it faster. No torch here: an engine has it, or
not.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.bundle import Bundle, open_bundle
from dragoman.data.characters import mended
from dragoman.data.vocab import Vocab
from dragoman.decoding.engines import Engine, open_engine
from dragoman.decoding.given import Compute, EngineName
from dragoman.decoding.hypothesis import Hypothesis, Result
from dragoman.decoding.options import SearchOptions, changed

Progress = Callable[[int, int], None]
"""How many sentences are done, and of how many."""

WINDOW: Final = 2048
"""Lines read ahead of what is written, when there is no end in sight."""

FIRST_WINDOW: Final = 64
"""Fewer at first, so that something is seen soon; then twice as many each time."""

_SPACE: Final = re.compile(r"\s+")
_BREAKS: Final = re.compile(r"[\r\n]+")


class Part(NamedTuple):
    """A text, or as much of a long one as the model takes at once, and what was written for it."""

    source: str
    """As the model read it: mended."""
    hypotheses: tuple[Hypothesis, ...]
    """What it wrote, best first."""
    text: str
    """The best as text, on one line."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """What it wrote, without EOS."""
        return self.hypotheses[0].tokens


class Translator:
    """An engine, the model's vocabulary and the way to search."""

    def __init__(self, engine: Engine, vocab: Vocab, options: SearchOptions | None = None) -> None:
        self.engine = engine
        self.vocab = vocab
        self.options = options or SearchOptions()
        self.reason: str | None = None
        """Why the engine is not the faster one, where that was left open."""

    @staticmethod
    def load(
        folder: Path | str,
        threads: int | None = None,
        beam_size: int | None = None,
        engine: EngineName = "auto",
        compute: Compute | None = None,
    ) -> "Translator":
        """The model of a bundle or a run."""
        return Translator.of(open_bundle(folder), threads, beam_size, engine, compute)

    @staticmethod
    def of(
        bundle: Bundle,
        threads: int | None = None,
        beam_size: int | None = None,
        engine: EngineName = "auto",
        compute: Compute | None = None,
        num_best: int | None = None,
    ) -> "Translator":
        """The model of a bundle that is open, with its own search options, or another beam."""
        options = changed(bundle.info.search, beam_size, num_best)
        choice = open_engine(bundle, options, engine, threads, compute)
        translator = Translator(choice.engine, bundle.vocab, options)
        translator.reason = choice.reason
        return translator

    def translate(self, texts: Sequence[str], progress: Progress | None = None) -> list[str]:
        """One translation for each text, in the same order. What holds nothing to translate gives an empty one.

        A text that is longer than the model can take is cut at white space, and the translations are joined.
        """
        return [" ".join(part.text for part in parts) for parts in self.parts(texts, progress)]

    def translate_iter(
        self, lines: Iterable[str], window: int = WINDOW, progress: Progress | None = None
    ) -> Iterator[str]:
        """One translation for each line, in the same order, however many there are."""
        for parts in self.parts_iter(lines, window, progress):
            yield " ".join(part.text for part in parts)

    def parts(self, texts: Sequence[str], progress: Progress | None = None) -> list[list[Part]]:
        """The same part by part, for whoever needs the tokens; of a text with nothing to translate there are none."""
        return self._collected(self._begun(texts), progress)

    def parts_iter(
        self, lines: Iterable[str], window: int = WINDOW, progress: Progress | None = None
    ) -> Iterator[list[Part]]:
        """The same for any number of lines, `window` of them at a time: while some are waited for, the engine has the
        next ones already.
        """
        begun: deque[tuple[_Begun, Progress | None]] = deque()
        ahead = 1 if window > 1 else 0  # whoever types a line at a time waits for its answer
        for some, within in windows(lines, window, progress):
            begun.append((self._begun(some), within))
            if len(begun) > ahead:
                yield from self._collected(*begun.popleft())
        while begun:
            yield from self._collected(*begun.popleft())

    def _begun(self, texts: Sequence[str]) -> "_Begun":
        """A text that is there twice is translated once."""
        pieces = {text: self._pieces(mended(text)) for text in dict.fromkeys(texts)}
        sources = list(dict.fromkeys(chain.from_iterable(pieces.values())))
        rows = self.vocab.source.encode(sources).rows()
        return _Begun(texts, pieces, sources, self.engine.submit(rows, self.options))

    def _collected(self, begun: "_Begun", progress: Progress | None) -> list[list[Part]]:
        found: dict[str, Part] = {}
        for place, result in begun.results:
            source, hypotheses = begun.sources[place], result.hypotheses
            found[source] = Part(source, hypotheses, self.text(hypotheses[0].tokens))
            if progress:
                progress(len(found), len(begun.sources))
        return [[found[piece] for piece in begun.pieces[text]] for text in begun.texts]

    def _pieces(self, text: str) -> list[str]:
        """The text in halves, quarters and so on, until each fits the model; cut inside a word only if it must be."""
        limit = self.engine.longest
        if not text.strip():
            return []
        if limit is None or len(text) < 2 or _most_tokens(text) <= limit:
            return [text]
        if len(self.vocab.source.encode([text]).ids) <= limit:
            return [text]
        middle = len(text) // 2
        spaces = [found.span() for found in _SPACE.finditer(text)]
        end, start = min(spaces, key=lambda span: abs(span[0] - middle), default=(middle, middle))
        return self._pieces(text[:end]) + self._pieces(text[start:])

    def text(self, tokens: tuple[int, ...]) -> str:
        """A translation stays on its line: a line break, which is a byte like others to a model, becomes a space."""
        return _BREAKS.sub(" ", self.vocab.target.decode(tokens))


def _most_tokens(text: str) -> int:
    """No vocabulary makes more of it: a token for each byte, with three for a space, one before it all, and EOS."""
    return len(text.encode(errors="surrogatepass")) + 2 * text.count(" ") + 4


class _Begun(NamedTuple):
    """Texts that an engine is at work on."""

    texts: Sequence[str]
    pieces: dict[str, list[str]]
    """Each text, in pieces that the model takes."""
    sources: list[str]
    """Every piece once."""
    results: Iterator[tuple[int, Result]]


def windows(
    lines: Iterable[str], window: int, progress: Progress | None = None
) -> Iterator[tuple[list[str], Progress | None]]:
    """So many lines at a time, fewer at first, and how to tell of progress in them as of progress in all."""
    lines, before, size = iter(lines), 0, min(window, FIRST_WINDOW)
    while some := list(islice(lines, size)):
        yield some, progress and _within(progress, before, len(some))
        before, size = before + len(some), min(window, 2 * size)


def _within(progress: Progress, before: int, lines: int) -> Progress:
    """Progress in one window as progress in all lines: how many are done, and how many have been read."""
    return lambda done, total: progress(before + done * lines // total, before + lines)
