"""Check an export before storing it, by comparing its translations with those of the torch engine.

Exactly the checked bytes are stored. Only the list of exports in a bundle changes, never the weights.
"""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.bundle import Bundle, Export, ExportCheck, open_bundle
from dragoman.bundle.info import ExportStore
from dragoman.bundle.writing import store_export
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.export.ctranslate2 import exportable_heads, weights_file
from dragoman.io.progress import Progress, ignore_progress, part_progress
from dragoman.text.vocab import NUM_SPECIALS
from dragoman.translation.results import Segment
from dragoman.translation.translator import Translator

ENOUGH: Final = 200
"""The default number of sentences to check an export with."""

LARGEST_DIFFERENCE: Final = 1e-3
"""The largest allowed difference of a token's log-probability in float32. The order of additions alone gives 1e-5."""

LARGEST_MEAN: Final = 0.1
"""The largest allowed mean difference of token log-probabilities with quantised matrices."""

SAME_SHARE: Final = 0.99
"""The share of float32 translations that must be identical; rounding may decide between equal scores."""


def export_bundle(
    folder: Path,
    store: ExportStore = "float32",
    texts: Sequence[str] = (),
    keep: bool = True,
    progress: Progress = ignore_progress,
) -> Bundle:
    """Export a bundle's model to CTranslate2, check the export, and add the export to the bundle.

    The check translates `texts`, or random sentences if all texts are blank. If the translations differ too much from
    those of torch, raise ValueError and leave the bundle unchanged. With `keep=False` the bundle stores only the hash
    of the export, and each load converts the weights again.
    """
    bundle = open_bundle(folder)
    heads = exportable_heads(bundle)
    content = weights_file(bundle, store, heads)
    export = Export.unchecked(content, store, keep, heads)
    held_out = any(text.strip() for text in texts)
    sentences = texts if held_out else made_up_sentences(bundle)
    proof = check_export(bundle, export, content, sentences, held_out, progress)
    return store_export(bundle.folder, export.model_copy(update={"proof": proof}), content)


def check_export(
    bundle: Bundle, export: Export, content: bytes, texts: Sequence[str], held_out: bool, progress: Progress
) -> ExportCheck:
    """Compare the export's translations with those of torch; raise ValueError if they differ too much.

    If the model translates into several languages, each language gets its share of the texts.
    """
    both_can = {"stop": "count", "min_length": 1}
    options = SearchOptions.model_validate({**bundle.info.search, **both_can})
    torch, other = TorchEngine.load(bundle), CTranslate2Engine.of(bundle, export, content, compute=export.store)
    comparisons = list[_Comparison]()
    languages = bundle.info.target_languages or (None,)
    for number, language in enumerate(languages):
        vocab, share = bundle.vocab.to(language), texts[number :: len(languages)]
        into = f" into {language}" if language else ""
        by_torch, by_other = Translator(torch, vocab, options), Translator(other, vocab, options)
        ours = _translate(by_torch, share, part_progress(progress, name=f"translate with torch{into}"))
        theirs = _translate(by_other, share, part_progress(progress, name=f"translate with CTranslate2{into}"))
        comparisons += _compare(by_other, ours, theirs)
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    if not differences:
        raise ValueError(f"{bundle.folder}: no sentence to check the export with: give texts that are not blank")
    check = ExportCheck(
        texts=len(comparisons),
        identical=sum(comparison.is_same for comparison in comparisons),
        largest_difference=max(differences),
        mean_difference=sum(differences) / len(differences),
        held_out=held_out,
    )
    if wrong := _find_error(export.store, check):
        worst = max(comparisons, key=lambda one: (max(one.differences) > LARGEST_DIFFERENCE, not one.is_same))
        example = f"{worst.source!r} becomes {worst.theirs.text!r}, and with torch {worst.ours.text!r}"
        fix = "report a bug" if export.store == "float32" else "export with --store float32"
        raise ValueError(f"{bundle.folder}: the {export.store} export differs from torch: {wrong}; {example}: {fix}")
    return check


def _find_error(store: ExportStore, check: ExportCheck) -> str | None:
    """Return a description of the difference from torch that exceeds a tolerance, or None."""
    mean, largest = check.mean_difference, check.largest_difference
    if not math.isfinite(mean):
        return "its log-probabilities are NaN"
    if store != "float32":
        wrong = f"the log-probability of a token differs by {mean:.3f} on average, more than {LARGEST_MEAN}"
        return wrong if mean > LARGEST_MEAN else None
    if largest > LARGEST_DIFFERENCE:
        return f"the log-probability of a token differs by {largest:.2g}, more than {LARGEST_DIFFERENCE}"
    wrong = f"only {check.identical:,} of {check.texts:,} translations are the same"
    return wrong if check.identical < SAME_SHARE * check.texts else None


def made_up_sentences(bundle: Bundle, count: int = ENOUGH, seed: int = 6) -> list[str]:
    """Return `count` sentences of random tokens from the bundle's source vocabulary."""
    draw, source = random.Random(seed), bundle.vocab.source
    pieces = [token for token in range(NUM_SPECIALS, source.size) if not source.piece(token).startswith("<0x")]
    return [source.decode(draw.choices(pieces, k=draw.randint(2, 16))) for _ in range(count)]


class _Comparison(NamedTuple):
    """A sentence with its translations by torch and by CTranslate2."""

    source: str
    ours: Segment
    theirs: Segment
    differences: tuple[float, ...]
    """The absolute difference of log-probability for each token of torch's translation, EOS last."""

    @property
    def is_same(self) -> bool:
        return self.ours.tokens == self.theirs.tokens


def _translate(translator: Translator, texts: Sequence[str], progress: Progress) -> dict[str, Segment]:
    """Translate texts, and return the translated segments by source text.

    A sentence that is too long for the model has several segments.
    """
    found = translator.sentences(texts, progress)
    return {segment.source: segment for sentence in found for segment in sentence.segments if not segment.kept}


def _compare(other: Translator, ours: dict[str, Segment], theirs: dict[str, Segment]) -> list[_Comparison]:
    sources = other.vocab.source.encode(list(ours)).rows()
    scores = other.engine.score(sources, [segment.tokens for segment in ours.values()])
    comparisons = []
    for (source, segment), score in zip(ours.items(), scores, strict=True):
        pairs = zip(segment.hypotheses[0].log_probabilities, score, strict=True)
        comparisons.append(_Comparison(source, segment, theirs[source], tuple(_difference(a, b) for a, b in pairs)))
    return comparisons


def _difference(a: float, b: float) -> float:
    """Return the absolute difference of two numbers, or infinity if it is NaN."""
    return math.inf if math.isnan(a - b) else abs(a - b)
