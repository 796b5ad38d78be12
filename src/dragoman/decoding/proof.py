"""An export is called one only after it was tried: it translates sentences, and is compared with what torch writes.

What is tried are the very bytes that are then stored. Only a bundle's record of exports changes, never its weights.
"""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.bundle import Bundle, Export, Proof, open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.bundle.writing import store_export
from dragoman.data.progress import Progress
from dragoman.data.vocab import NUM_SPECIALS
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.decoding.translator import Part, Translator
from dragoman.export.ctranslate2 import shown_heads, weights_file

ENOUGH: Final = 200
"""Sentences that show what an export is worth, where there are many."""

LARGEST_DIFFERENCE: Final = 1e-3
"""Of the log-probability of a token in float32, which differs by the order of additions alone: 1e-5 is usual."""

LARGEST_MEAN: Final = 0.1
"""The same where matrices are rounded, in the mean over all tokens."""

SAME_SHARE: Final = 0.99
"""Of translations in float32: two hypotheses may be as good as each other, and then rounding decides."""


def export_bundle(
    folder: Path,
    store: ExportStore = "float32",
    texts: Sequence[str] = (),
    keep: bool = True,
    progress: Progress | None = None,
) -> Bundle:
    """The bundle with an export in it that gives what torch gives, tried on sentences that were kept from training.

    Where there are none, sentences are made up of the vocabulary. An export that is not kept is only described, and
    made anew whenever it is loaded. One that gives something else is refused, and the bundle stays as it is.
    """
    bundle = open_bundle(folder)
    heads = shown_heads(bundle)
    content = weights_file(bundle, store, heads)
    export = Export.untried(content, store, keep, heads)
    held_out = any(text.strip() for text in texts)
    proof = prove(bundle, export, content, texts if held_out else made_up(bundle), held_out, progress)
    return store_export(bundle.folder, export.model_copy(update={"proof": proof}), content)


def prove(
    bundle: Bundle,
    export: Export,
    content: bytes,
    texts: Sequence[str],
    held_out: bool,
    progress: Progress | None = None,
) -> Proof:
    """How these bytes translate the texts, beside torch. Too large a difference is a ValueError that shows it."""
    both_can = {"stop": "count", "min_length": 1}
    options = SearchOptions.model_validate({**bundle.info.search, **both_can})
    torch = Translator(TorchEngine.load(bundle), bundle.vocab, options)
    other = Translator(CTranslate2Engine.of(bundle, export, content, compute=export.store), bundle.vocab, options)
    ours = _translated(torch, texts, "translate with torch", progress)
    theirs = _translated(other, texts, "translate with CTranslate2", progress)
    compared = _compared(other, ours, theirs)
    _refuse(bundle, export.store, compared)
    tokens = [difference for one in compared for difference in one.differences]
    return Proof(
        texts=len(compared),
        identical=sum(one.same for one in compared),
        largest_difference=max(tokens),
        mean_difference=sum(tokens) / len(tokens),
        held_out=held_out,
    )


def made_up(bundle: Bundle, count: int = ENOUGH, seed: int = 6) -> list[str]:
    """Sentences without sense, for a bundle that is all there is: pieces of its source vocabulary, in a row."""
    draw, source = random.Random(seed), bundle.vocab.source
    pieces = [token for token in range(NUM_SPECIALS, source.size) if not source.piece(token).startswith("<0x")]
    return [source.decode(draw.choices(pieces, k=draw.randint(2, 16))) for _ in range(count)]


class _Compared(NamedTuple):
    """A sentence, and what the two wrote."""

    source: str
    ours: str
    theirs: str
    same: bool
    """Token by token."""
    differences: tuple[float, ...]
    """Of the log-probability of each token that torch wrote, EOS last."""


def _translated(translator: Translator, texts: Sequence[str], what: str, progress: Progress | None) -> dict[str, Part]:
    """Every sentence once, or each part of one that the model does not take at once."""
    tell = None if progress is None else lambda done, total: progress(what, done, total)
    return {part.source: part for parts in translator.parts(texts, tell) for part in parts}


def _compared(other: Translator, ours: dict[str, Part], theirs: dict[str, Part]) -> list[_Compared]:
    sources = other.vocab.source.encode(list(ours)).rows()
    scored = other.engine.score(sources, [part.tokens for part in ours.values()])
    return [
        _Compared(
            source,
            part.text,
            theirs[source].text,
            part.tokens == theirs[source].tokens,
            tuple(abs(a - b) for a, b in zip(part.hypotheses[0].log_probabilities, given, strict=True)),
        )
        for (source, part), given in zip(ours.items(), scored, strict=True)
    ]


def _refuse(bundle: Bundle, store: ExportStore, compared: Sequence[_Compared]) -> None:
    """Raise what is wrong, and show the sentence where it is worst."""
    tokens = [difference for one in compared for difference in one.differences]
    if not tokens:
        raise ValueError(f"{bundle.folder}: there is no sentence to compare the export with torch by")
    same = sum(one.same for one in compared)
    mean, largest = sum(tokens) / len(tokens), max(tokens, key=_badness)
    worst = max(compared, key=lambda one: (max(map(_badness, one.differences)), not one.same))
    if not math.isfinite(mean):
        wrong = "it gives log-probabilities that are no numbers"
    elif store != "float32" and mean > LARGEST_MEAN:
        wrong = f"the log-probability of a token differs by {mean:.3f} in the mean, more than {LARGEST_MEAN}"
    elif store == "float32" and largest > LARGEST_DIFFERENCE:
        wrong = f"the log-probability of a token differs by {largest:.2g}, more than {LARGEST_DIFFERENCE}"
    elif store == "float32" and same < SAME_SHARE * len(compared):
        wrong = f"of {len(compared):,} translations only {same:,} are the same"
        worst = next(one for one in compared if not one.same)
    else:
        return
    example = f"{worst.source!r} becomes {worst.theirs!r}, and with torch {worst.ours!r}"
    raise ValueError(f"{bundle.folder}: not exported as {store}, since it is not what torch gives: {wrong}; {example}")


def _badness(difference: float) -> float:
    return difference if math.isfinite(difference) else math.inf
