"""A test set taken through a model, to be triaged: translated in batches, traced one by one, no trace kept.

The traces of a whole test set would fill the memory. Those of the few lines that need a look are made again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from dragoman.data.progress import Progress
from dragoman.data.vocab import EOS
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.decoding.translator import Part, Translator
from dragoman.inspection import segmentation
from dragoman.inspection.contributions import source_share
from dragoman.inspection.flag import FlagRules
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.page import save_page
from dragoman.inspection.trace import Tokens, Trace
from dragoman.inspection.triage import ENOUGH, Account, Pair, Triaged, triage, usual_ratio
from dragoman.inspection.triage_page import note, traces_folder
from dragoman.inspection.view import provenance
from dragoman.models.transformer import Transformer

T = TypeVar("T", float, None)


@dataclass(frozen=True)
class Line:
    """One line of a test set. A trace of it can be made at any time."""

    source: str
    target: str
    tokens: tuple[Tokens, Tokens] | None = None
    """Of source and target; None where the text alone is looked at."""
    free: bool = False
    """The model wrote the target itself."""
    untraced: str = ""
    """Why there are no tokens."""


def forced(inspector: Inspector, sources: Sequence[str], targets: Sequence[str]) -> list[Line]:
    """Lines whose targets are given. What the model cannot take keeps its text, and says why."""
    lines = []
    for source, target in zip(sources, targets, strict=True):
        try:
            tokens = inspector.read(source), inspector.forced(target)
        except ValueError as error:
            lines.append(Line(source, target, untraced=str(error)))
        else:
            lines.append(Line(tokens[0].text, tokens[1].text, tokens))
    return lines


def translated(inspector: Inspector, sources: Sequence[str], progress: Progress) -> list[Line]:
    """Lines whose targets the model writes. What it cannot take at once is translated in parts, and not traced."""
    translator = Translator(TorchEngine(inspector.model), inspector.vocab, inspector.options)
    found = translator.parts(sources, lambda done, total: progress("translate", done, total))
    return [_line(inspector, source, parts) for source, parts in zip(sources, found, strict=True)]


def ranked(inspector: Inspector, lines: Sequence[Line], progress: Progress) -> tuple[list[Triaged], Account]:
    """The lines, those that need a look first, and how that was found out. What is usual is what the lines show."""
    shares = _shares(inspector, lines, progress)
    tokens = [line.tokens for line in lines if line.tokens is not None]
    of_lines = [share[:-1].tolist() for share in shares if share is not None]
    of_tokens = [one for line in of_lines for one in line] if len(of_lines) >= ENOUGH else []
    rules = FlagRules(
        expected_ratio=usual_ratio(Pair(line.source, line.target) for line in lines),
        expected_tokens=_usual([len(target) / len(source) for source, target in tokens], None),
        expected_share=_usual(of_tokens, 0.5),
    )
    # By all heads, also where one is known to align: what that one passes over, another may have looked at.
    found = triage(pairs(inspector, lines, shares, progress), rules)
    untraced = {number: line.untraced for number, line in enumerate(lines, 1) if line.untraced}
    compared = sum(bool(line.source and line.target) for line in lines)
    shared = knows_source_share(inspector)
    return found, Account(rules, _model(inspector, lines), None, shared, untraced, compared, len(of_tokens))


def pairs(
    inspector: Inspector, lines: Sequence[Line], shares: Sequence[np.ndarray | None], progress: Progress
) -> Iterator[Pair]:
    """Each with its trace and the source share of its target tokens; no two traces at a time."""
    for done, (line, share) in enumerate(zip(lines, shares, strict=True), 1):
        yield Pair(line.source, line.target, trace(inspector, line), share)
        progress("trace", done, len(lines))


def trace(inspector: Inspector, line: Line) -> Trace | None:
    """None for a line that has no tokens."""
    return None if line.tokens is None else replace(inspector.capture(*line.tokens), free=line.free)


def knows_source_share(inspector: Inspector) -> bool:
    """Whether there is a measure of it for this family of models."""
    return isinstance(inspector.model, Transformer)


def save_traces(
    inspector: Inspector, lines: Sequence[Line], found: Sequence[Triaged], report: Path, limit: int, progress: Progress
) -> dict[int, str]:
    """A page for each of the worst that have flags: by the number of its line, its file's name, seen from the report.
    Each says what was flagged, and leads back to the report.
    """
    worst = [one for one in found if one.flags and lines[one.number - 1].tokens][:limit]
    folder, pages = traces_folder(report), {}
    for done, one in enumerate(worst, 1):
        seen = trace(inspector, lines[one.number - 1])
        if seen is not None and seen.attention:
            folder.mkdir(exist_ok=True)
            name = f"line-{one.number}.html"
            save_page(seen, folder / name, note=note(one, f"../{report.name}"))
            pages[one.number] = f"{folder.name}/{name}"
        progress("draw", done, len(worst))
    return pages


def _line(inspector: Inspector, source: str, parts: Sequence[Part]) -> Line:
    try:
        read = inspector.read(source)
    except ValueError as error:
        return Line(source, " ".join(part.text for part in parts), untraced=str(error))
    (part,) = parts
    written = segmentation.of_ids(inspector.vocab.target, [*part.tokens, EOS])
    return Line(read.text, written.text, (read, written), free=True)


def _shares(inspector: Inspector, lines: Sequence[Line], progress: Progress) -> list[np.ndarray | None]:
    """For a Transformer, the source share of every target token of each line; others have none."""
    shares: list[np.ndarray | None] = [None] * len(lines)
    if knows_source_share(inspector):
        for i, line in enumerate(lines):
            if line.tokens is not None:
                source, target = line.tokens
                shares[i] = source_share(inspector.model, source.ids, target.ids)
            progress("source share", i + 1, len(lines))
    return shares


def _usual(values: Sequence[float], otherwise: T) -> float | T:
    """The median, if there are enough to tell."""
    return median(values) if len(values) >= ENOUGH else otherwise


def _model(inspector: Inspector, lines: Sequence[Line]) -> str:
    """As the pages of traces say it."""
    first = next((line for line in lines if line.tokens), None)
    seen = None if first is None else trace(inspector, first)
    return "nothing could be traced" if seen is None else provenance(seen)
