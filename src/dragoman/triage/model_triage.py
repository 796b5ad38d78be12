"""Triage of a test set with a model: translate lines, and measure what the model knows about each translation.

Works with every engine: CTranslate2 needs no torch. Attention maps are not kept, as those of a whole test set would
fill the memory. Only the pages of the worst lines need traces, and torch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from dragoman.alignment.tokens import Tokens
from dragoman.bundle import Bundle
from dragoman.bundle.alignment_head import Rows
from dragoman.decoding.hypothesis import Tokens as TokenIds
from dragoman.io.processes import num_cores
from dragoman.io.progress import Progress, ignore_progress, part_progress
from dragoman.text.cleaning import clean_line
from dragoman.translation.results import SentenceTranslation
from dragoman.translation.translator import LONGEST_SOURCE, Translator
from dragoman.triage.attention_flags import coverage
from dragoman.triage.calibration import FEWEST, Calibration, fit_calibration, load_calibration
from dragoman.triage.model_signals import ModelReadings, Signals, Weights, chrf, measure_entropy, measure_uncovered
from dragoman.triage.ranking import (
    ENOUGH,
    TranslationPair,
    TriageMethod,
    TriageResult,
    pair_signals,
    rank_pairs,
    usual_ratio,
)
from dragoman.triage.text_flags import FlagRules

if TYPE_CHECKING:
    from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
    from dragoman.inspection.inspector import Inspector

WINDOW_CHARACTERS: Final = 1024
"""Characters per core that are translated between two reports of progress: less than a second with the demo."""

Attention = Callable[[Sequence[TokenIds], Sequence[TokenIds]], list[Weights]]
"""Returns the attention that aligns, for sources with EOS and targets without EOS."""


@dataclass(frozen=True)
class TriageModel:
    """A model for triage: a translator that returns all hypotheses of its beam, and the attention that aligns."""

    translator: Translator
    sha256: str
    """Hash of the weights and the vocabulary."""
    attention: Attention | None
    """None if the model has no cross-attention."""
    rows: Rows = "written"

    @staticmethod
    def of(bundle: Bundle) -> "TriageModel":
        """Load the model of an open bundle; torch is imported only if CTranslate2 cannot run the model."""
        translator = Translator.load(bundle)
        translator = replace(translator, options=translator.options.replace(num_best=translator.options.beam_size))
        if translator.engine.name == "torch":
            attention, rows = _torch_attention(translator, bundle)
        else:
            engine: CTranslate2Engine = translator.engine  # type: ignore[assignment]
            heads = engine.export.alignment_heads
            attention, rows = engine.attention, heads[0].rows if heads else "written"
        return TriageModel(translator, bundle.model_sha256, attention, rows)

    def measure(
        self, sources: Sequence[str], targets: Sequence[str] | None = None, progress: Progress = ignore_progress
    ) -> list[TranslationPair]:
        """Translate the sources and measure the translations; with `targets`, measure those instead.

        A line that the model cannot translate whole has the reason in `unmeasured`.
        """
        pairs: list[TranslationPair] = []
        for start, end in _windows(sources):
            report = part_progress(progress, offset=start, whole=len(sources), name="triage")
            found = self.translator.sentences(sources[start:end], report)
            pairs += self._read(found, None if targets is None else targets[start:end])
            progress("triage", end, len(sources))
        return pairs

    def _read(self, found: Sequence[SentenceTranslation], targets: Sequence[str] | None) -> list[TranslationPair]:
        """Measure the model's own translations, or the given targets, of one window."""
        vocab = self.translator.vocab
        pairs = [TranslationPair(clean_line(each.source), each.text) for each in found]
        written: dict[int, TokenIds] = {}
        if targets is not None:
            lines = [clean_line(target) for target in targets]
            pairs = [pair._replace(target=line) for pair, line in zip(pairs, lines, strict=True)]
            written = {i: row[:-1] for i, row in enumerate(vocab.target.encode(lines).rows())}
        for i, each in enumerate(found):
            if reason := self._find_obstacle(each, written.get(i)):
                pairs[i] = pairs[i]._replace(unmeasured=reason)
            elif targets is None:
                written[i] = each.segments[0].tokens
        rest = [i for i, pair in enumerate(pairs) if not pair.unmeasured]
        read = {i: Tokens.from_text(vocab.source, found[i].segments[0].source) for i in rest}
        rows = [read[i].ids for i in rest], [written[i] for i in rest]
        scores = self.translator.engine.score(*rows) if rest else []
        maps = self.attention(*rows) if self.attention and rest else [None] * len(rest)
        for i, of_tokens, weights in zip(rest, scores, maps, strict=True):
            texts = [each.text for each in found[i].hypotheses]
            readings = ModelReadings(read[i], np.array(of_tokens), tuple(texts if targets is not None else texts[1:]))
            if weights is not None:
                readings = readings._replace(
                    attention_entropy=measure_entropy(weights),
                    uncovered=measure_uncovered(weights, self.rows),
                    coverage=coverage(read[i], weights, self.rows, 1.0),
                )
            pairs[i] = pairs[i]._replace(readings=readings)
        return pairs

    def _find_obstacle(self, found: SentenceTranslation, target: TokenIds | None) -> str:
        """Return the reason why a line cannot be measured, or an empty string."""
        longest = self.translator.engine.longest or LONGEST_SOURCE
        if not found.source.strip():
            return "the source has no text"
        if found.kept:
            return f"kept, not translated: {found.kept}"
        if len(found.segments) != 1:
            return f"the source is too long for the model, which takes {longest} tokens"
        if target is not None and len(target) >= longest:
            return f"the target has {len(target) + 1} tokens, but the model takes {longest}"
        return ""


def rank_measured(
    pairs: Sequence[TranslationPair], model_sha256: str, is_free: bool, calibration: Calibration | None = None
) -> tuple[list[TriageResult], TriageMethod]:
    """Return measured pairs ranked, most suspicious first, and the method.

    Expected values, such as the length ratio, are medians over the lines. The score is a chance if the calibration is
    for this model's own translations; otherwise the signals of the lines are compared with each other.
    """
    known = calibration or load_calibration()
    measured = [(pair, pair.readings) for pair in pairs if pair.readings is not None]
    ratios = [len(readings.log_probabilities) / len(readings.source) for _, readings in measured]
    has_enough = len(ratios) >= ENOUGH
    rules = FlagRules(expected_ratio=usual_ratio(pairs), expected_tokens=median(ratios) if has_enough else None)
    is_calibrated = is_free and known.model == model_sha256
    if has_enough and not is_calibrated:
        known = known.recentre([pair_signals(pair, readings, rules) for pair, readings in measured])
    origin = "free-running" if is_free else "forced (teacher forcing)"
    method = TriageMethod(
        rules,
        model=f"{origin}; model {model_sha256[:12]}",
        calibration=known,
        is_free=is_free,
        is_calibrated=is_calibrated,
        unmeasured={number: pair.unmeasured for number, pair in enumerate(pairs, 1) if pair.unmeasured},
        num_lines=sum(bool(pair.source and pair.target) for pair in pairs),
    )
    return rank_pairs(pairs, rules, known, is_free), method


def fit_model(
    model: TriageModel, sources: Sequence[str], references: Sequence[str], name: str, progress: Progress
) -> Calibration:
    """Translate dev sources, and fit the weights of the signals to the chrF of the translations."""
    if len(sources) < 2 * FEWEST:
        fix = f"give dev pairs with at least {FEWEST} bad and {FEWEST} other translations"
        raise ValueError(f"{name}: {len(sources)} pairs are too few to fit weights on: {fix}")
    pairs = model.measure(sources, None, part_progress(progress, name="calibrate"))
    signals, scores = signals_and_scores(pairs, [[reference] for reference in references])
    return fit_calibration(signals, scores, model=model.sha256, fitted_on=name)


def signals_and_scores(
    pairs: Sequence[TranslationPair], references: Sequence[Sequence[str]]
) -> tuple[list[Signals], list[float]]:
    """Return the signals of all measured pairs, and the chrF of each, from 0 to 1, by its best reference."""
    rules = FlagRules(expected_ratio=usual_ratio(pairs))
    both = [(pair, some) for pair, some in zip(pairs, references, strict=True) if pair.readings is not None]
    signals = [pair_signals(pair, pair.readings, rules) for pair, _ in both if pair.readings is not None]
    return signals, [max(chrf(pair.target, reference) for reference in some) for pair, some in both]


def save_traces(
    inspector: "Inspector",
    ranked: Sequence[TriageResult],
    method: TriageMethod,
    report: Path,
    limit: int,
    progress: Progress,
) -> dict[int, str]:
    """Write a trace page for each of the `limit` worst lines of the report; return the paths by line number.

    Paths are relative to the report. Each page shows the flags and links back to the report.
    """
    from dragoman.inspection.html_file import save_text
    from dragoman.inspection.trace_page import trace_page
    from dragoman.triage.report_page import trace_note, traces_folder

    worst = [line for line in ranked if line.is_suspect and line.number not in method.unmeasured][:limit]
    folder, pages = traces_folder(report), {}
    for done, line in enumerate(worst, 1):
        trace = inspector.trace(line.source, None if method.is_free else line.target)
        if trace.attention:
            folder.mkdir(exist_ok=True)
            name = f"line-{line.number}.html"
            save_text(trace_page(trace, note=trace_note(line, f"../{report.name}")), folder / name)
            pages[line.number] = f"{folder.name}/{name}"
        progress("draw", done, len(worst))
    return pages


def _torch_attention(translator: Translator, bundle: Bundle) -> tuple[Attention | None, Rows]:
    from dragoman.alignment.aligner import Aligner
    from dragoman.attention.tap import cross_attentions
    from dragoman.decoding.torch_engine import TorchEngine

    assert isinstance(translator.engine, TorchEngine)
    model = translator.engine.model
    if not cross_attentions(model):
        return None, "written"
    aligner = Aligner(model, bundle.vocab, bundle.info.alignment_heads)
    return aligner.attention, aligner.heads[0].rows


def _windows(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of windows of lines with about `WINDOW_CHARACTERS` per core."""
    limit, start, size = WINDOW_CHARACTERS * num_cores(), 0, 0
    for end, line in enumerate(lines, 1):
        size += len(line)
        if size >= limit or end == len(lines):
            yield start, end
            start, size = end, 0
