"""Text in, translations out: mended as training text is, cut where too long, batched by length, searched, decoded.

A text's translation depends on nothing but the text: batches only make it faster.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from dragoman.bundle import Bundle, open_bundle
from dragoman.data.characters import mended
from dragoman.data.vocab import Vocab
from dragoman.decoding.batching import alike
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.models.seq2seq import Seq2Seq

Progress = Callable[[int, int], None]
"""How many sentences are done, and of how many."""

BATCH_TOKENS: Final = 4096
"""Source tokens of a batch, padding included, times the beam: more is no faster on a CPU."""

WINDOW: Final = 2048
"""Lines read ahead of what is written, when there is no end in sight."""

_SPACE: Final = re.compile(r"\s+")
_BREAKS: Final = re.compile(r"[\r\n]+")


class Part(NamedTuple):
    """A text, or as much of a long one as the model takes at once, and what was written for it."""

    source: str
    """As the model read it: mended."""
    tokens: tuple[int, ...]
    """What it wrote, without EOS."""
    text: str
    """The same as text, on one line."""


class Translator:
    """A model, its vocabulary and the way to search with it."""

    def __init__(self, model: Seq2Seq[Any, Any], vocab: Vocab, options: SearchOptions | None = None) -> None:
        self.engine = TorchEngine(model)
        self.vocab = vocab
        self.options = options or SearchOptions()

    @staticmethod
    def load(folder: Path, threads: int | None = None, beam_size: int | None = None) -> "Translator":
        """The model of a bundle or a run."""
        return Translator.of(open_bundle(folder), threads, beam_size)

    @staticmethod
    def of(bundle: Bundle, threads: int | None = None, beam_size: int | None = None) -> "Translator":
        """The model of a bundle that is open, with its own search options, or another beam."""
        changes = {} if beam_size is None else {"beam_size": beam_size}
        options = SearchOptions.model_validate({**bundle.info.search, **changes})
        if threads is not None:
            torch.set_num_threads(threads)
        return Translator(load_model(bundle), bundle.vocab, options)

    def translate(self, texts: Sequence[str], progress: Progress | None = None) -> list[str]:
        """One translation for each text, in the same order. What holds nothing to translate gives an empty one.

        A text that is longer than the model can take is cut at white space, and the translations are joined.
        """
        return [" ".join(part.text for part in parts) for parts in self.parts(texts, progress)]

    def parts(self, texts: Sequence[str], progress: Progress | None = None) -> list[list[Part]]:
        """The same part by part, for whoever needs the tokens; of a text with nothing to translate there are none."""
        pieces = {text: self._pieces(mended(text)) for text in dict.fromkeys(texts)}
        found = self._found(dict.fromkeys(piece for some in pieces.values() for piece in some), progress)
        return [[found[piece] for piece in pieces[text]] for text in texts]

    def translate_iter(
        self, lines: Iterable[str], window: int = WINDOW, progress: Progress | None = None
    ) -> Iterator[str]:
        """One translation for each line, in the same order, however many there are: `window` of them at a time."""
        for some, within in windows(lines, window, progress):
            yield from self.translate(some, within)

    def _pieces(self, text: str) -> list[str]:
        """The text in halves, quarters and so on, until each fits the model; cut inside a word only if it must be."""
        limit = self.engine.longest
        if not text.strip():
            return []
        if limit is None or len(text) < 2 or len(self.vocab.source.encode([text]).ids) <= limit:
            return [text]
        middle = len(text) // 2
        spaces = [found.span() for found in _SPACE.finditer(text)]
        end, start = min(spaces, key=lambda span: abs(span[0] - middle), default=(middle, middle))
        return self._pieces(text[:end]) + self._pieces(text[start:])

    def _found(self, pieces: Iterable[str], progress: Progress | None) -> dict[str, Part]:
        texts = list(pieces)
        encoded = self.vocab.source.encode(texts)
        rows = [encoded.ids[start:end].tolist() for start, end in pairwise(encoded.offsets.tolist())]
        found: dict[str, Part] = {}
        for batch in alike([(len(row),) for row in rows], BATCH_TOKENS // self.options.beam_size):
            results = self.engine.search([rows[i] for i in batch], self.options)
            best = [(texts[i], result.best.tokens) for i, result in zip(batch, results, strict=True)]
            found |= {text: Part(text, tokens, self._text(tokens)) for text, tokens in best}
            if progress:
                progress(len(found), len(texts))
        return found

    def _text(self, tokens: tuple[int, ...]) -> str:
        """A translation stays on its line: a line break, which is a byte like others to a model, becomes a space."""
        return _BREAKS.sub(" ", self.vocab.target.decode(tokens))


def windows(
    lines: Iterable[str], window: int, progress: Progress | None = None
) -> Iterator[tuple[list[str], Progress | None]]:
    """So many lines at a time, and how to tell of progress in them as of progress in all."""
    lines, before = iter(lines), 0
    while some := list(islice(lines, window)):
        yield some, progress and _within(progress, before, len(some))
        before += len(some)


def _within(progress: Progress, before: int, lines: int) -> Progress:
    """Progress in one window as progress in all lines: how many are done, and how many have been read."""
    return lambda done, total: progress(before + done * lines // total, before + lines)
