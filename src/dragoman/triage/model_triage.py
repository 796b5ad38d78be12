"""Triage of a test set with a model: translate lines in batches, and trace the attention line by line.

Traces are not kept, as the traces of a whole test set would fill the memory; the worst lines are traced again for the
report.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from dragoman.alignment.tokens import Tokens
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.inspection.html_file import save_text
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.source_share import source_share
from dragoman.inspection.trace import Trace
from dragoman.inspection.trace_page import trace_page
from dragoman.inspection.view import provenance
from dragoman.io.progress import Progress
from dragoman.text.vocab import EOS
from dragoman.translation.translator import Translator
from dragoman.triage.ranking import ENOUGH, TranslationPair, TriageMethod, TriageResult, rank_pairs, usual_ratio
from dragoman.triage.report_page import trace_note, traces_folder
from dragoman.triage.text_flags import FlagRules

Pairs = Sequence[TranslationPair]
Shares = Sequence[np.ndarray | None]


def force_lines(inspector: Inspector, sources: Sequence[str], targets: Sequence[str]) -> list[TranslationPair]:
    """Tokenize sources and given targets; a line that cannot be traced has the reason in `untraced`."""
    lines = []
    for source, target in zip(sources, targets, strict=True):
        try:
            read, written = inspector.tokenize_source(source), inspector.tokenize_target(target)
            lines.append(TranslationPair(read.text, written.text, tokens=(read, written)))
        except ValueError as error:
            lines.append(TranslationPair(source, target, untraced=str(error)))
    return lines


def translate_lines(inspector: Inspector, sources: Sequence[str], progress: Progress) -> list[TranslationPair]:
    """Translate lines with the model; a line that cannot be traced has the reason in `untraced`.

    A line that is too long for the model is translated in segments, and cannot be traced; nor can kept text.
    """
    translator = Translator(TorchEngine(inspector.model), inspector.vocab, inspector.options)
    lines = []
    for sentence in translator.sentences(sources, progress):
        if sentence.kept:
            untraced = f"kept, not translated: {sentence.kept}"
            lines.append(TranslationPair(sentence.source, sentence.text, untraced=untraced))
            continue
        try:
            read = inspector.tokenize_source(sentence.source)
        except ValueError as error:
            lines.append(TranslationPair(sentence.source, sentence.text, untraced=str(error)))
            continue
        (segment,) = sentence.segments
        written = Tokens.from_ids(inspector.vocab.target, [*segment.tokens, EOS])
        lines.append(TranslationPair(read.text, written.text, tokens=(read, written), free=True))
    return lines


def rank_lines(inspector: Inspector, lines: Pairs, progress: Progress) -> tuple[list[TriageResult], TriageMethod]:
    """Flag the lines; return them ranked, most severe first, and the method.

    Expected values, such as the length ratio, are medians over the lines.
    """
    has_share = inspector.model.residual_decoder is not None
    shares: list[np.ndarray | None] = [None] * len(lines)
    for i, line in enumerate(lines if has_share else ()):
        if line.tokens is not None:
            shares[i] = source_share(inspector.model, *(side.ids for side in line.tokens))
        progress("source share", i + 1, len(lines))
    ratios = [len(line.tokens[1]) / len(line.tokens[0]) for line in lines if line.tokens is not None]
    has_enough = len(ratios) >= ENOUGH
    token_shares = [value for share in shares if share is not None and has_enough for value in share[:-1].tolist()]
    rules = FlagRules(
        expected_ratio=usual_ratio(lines),
        expected_tokens=median(ratios) if has_enough else None,
        expected_share=median(token_shares) if token_shares else 0.5,
    )
    # By all heads, also where one is known to align: what that one passes over, another may have looked at.
    ranked = rank_pairs(trace_pairs(inspector, lines, shares, progress), rules)
    trace = next((trace_line(inspector, line) for line in lines if line.tokens), None)
    method = TriageMethod(
        rules,
        model="nothing could be traced" if trace is None else provenance(trace),
        has_share=has_share,
        untraced={number: line.untraced for number, line in enumerate(lines, 1) if line.untraced},
        num_lines=sum(bool(line.source and line.target) for line in lines),
        num_tokens=len(token_shares),
    )
    return ranked, method


def trace_pairs(inspector: Inspector, lines: Pairs, shares: Shares, progress: Progress) -> Iterator[TranslationPair]:
    """Yield each line with its trace and source shares; keep only one trace in memory at a time."""
    for done, (line, share) in enumerate(zip(lines, shares, strict=True), 1):
        yield line._replace(trace=trace_line(inspector, line), share=share)
        progress("trace", done, len(lines))


def trace_line(inspector: Inspector, line: TranslationPair) -> Trace | None:
    """Return the trace of a line, or None if the line cannot be traced."""
    return None if line.tokens is None else replace(inspector.capture(*line.tokens), free=line.free)


def save_traces(
    inspector: Inspector, lines: Pairs, ranked: Sequence[TriageResult], report: Path, limit: int, progress: Progress
) -> dict[int, str]:
    """Write a trace page for each of the `limit` worst flagged lines; return the paths by line number.

    Paths are relative to the report. Each page shows the flags and links back to the report.
    """
    worst = [line for line in ranked if line.flags and lines[line.number - 1].tokens][:limit]
    folder, pages = traces_folder(report), {}
    for done, line in enumerate(worst, 1):
        trace = trace_line(inspector, lines[line.number - 1])
        if trace is not None and trace.attention:
            folder.mkdir(exist_ok=True)
            name = f"line-{line.number}.html"
            save_text(trace_page(trace, note=trace_note(line, f"../{report.name}")), folder / name)
            pages[line.number] = f"{folder.name}/{name}"
        progress("draw", done, len(worst))
    return pages
