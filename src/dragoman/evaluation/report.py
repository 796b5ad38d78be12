"""The evaluation report: reproducible scores of systems on a test set, as JSON and as a table."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field
from rich import box
from rich.table import Table

from dragoman.bundle import Bundle, open_bundle
from dragoman.config import Config
from dragoman.decoding.engine import check_ensemble
from dragoman.device import AUTO
from dragoman.evaluation.comet import CometModel, compare_by_comet
from dragoman.evaluation.metric_options import TEXT_METRICS, MetricOptions
from dragoman.evaluation.metrics import Metrics, MetricScore, compare
from dragoman.evaluation.text_files import TextFile, TextFileInfo, read_text, require_same_length
from dragoman.io.progress import Progress, ignore_progress, part_progress
from dragoman.text.cleaning import is_tokenised
from dragoman.version import __version__

ENSEMBLE: Final = "ensemble"
"""The name of the system of all models together."""

SIGNIFICANT: Final = 0.05
_FEW_LINES: Final = 100
"""The number of lines below which bootstrap intervals are unreliable."""
_TOKENISED_SHARE: Final = 0.5
"""The share of lines that look tokenised from which a text counts as tokenised."""

SystemKind = Literal["bundle", "file"]
TextFiles = Sequence[TextFile]


@dataclass(frozen=True)
class ModelOptions:
    """How the models of an evaluation translate."""

    device: str = AUTO
    to: str | None = None
    """The target language of models that translate into several."""
    beam: int | None = None
    """The beam size; None: that of each model's search options."""
    mbr: int | None = None
    """The number of hypotheses among which minimum Bayes risk chooses."""
    rerank: Path | None = None
    """The model of the opposite direction that chooses among the hypotheses of the beam."""
    ensemble: bool = False
    """Add a last system: all models together."""

    def __post_init__(self) -> None:
        if self.mbr is not None and self.rerank is not None:
            raise ValueError("--mbr and --rerank cannot be combined: give only one of them")


DEFAULTS: Final = ModelOptions()


class SystemOutput(NamedTuple):
    """One system's translation of the whole test set."""

    name: str
    kind: SystemKind
    sha256: str
    """The SHA-256 of the bundle, of the hashes of an ensemble's bundles, or of the file's text."""
    lines: list[str]


Outputs = Sequence[SystemOutput]


class SystemScores(Config):
    """A system (a model or a file of translations) and its scores."""

    name: str = Field(description="last part of the system's path, or the whole path if two last parts are equal")
    kind: SystemKind = Field(description="bundle: a model that translated the source; file: a file of translations")
    sha256: str = Field(description="SHA-256 of the bundle, or of the file's text")
    scores: tuple[MetricScore, ...] = Field(description="one score per metric")


class EvaluationReport(Config):
    """The report of one evaluation: inputs, systems, scores and warnings."""

    command: str = Field(description="command line that made the report")
    dragoman: str = Field(description="version of dragoman that made the report")
    source: TextFileInfo | None = Field(description="source text, if given")
    references: tuple[TextFileInfo, ...] = Field(description="reference translations")
    systems: tuple[SystemScores, ...] = Field(description="systems with scores; the first is the baseline")
    notes: tuple[str, ...] = Field((), description="warnings about the numbers")

    def table(self) -> Table:
        """Return the scores as a table that fits 80 columns."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("system", max_width=24, overflow="fold")
        table.add_column("metric")
        for column in ("score", "95 % interval", "difference", "p")[: 4 if len(self.systems) > 1 else 2]:
            table.add_column(column, justify="right", no_wrap=True)
        for system in self.systems:
            for number, (score, baseline) in enumerate(zip(system.scores, self.systems[0].scores, strict=True)):
                table.add_row("" if number else system.name, score.metric, *_cells(score, baseline))
            table.add_section()
        return table

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signature of each metric, which is the same for all systems."""
        return tuple(f"{score.metric}|{score.signature}" for score in self.systems[0].scores)


def gather_outputs(
    systems: Sequence[str],
    source: TextFile | None,
    references: TextFiles,
    progress: Progress = ignore_progress,
    options: ModelOptions = DEFAULTS,
) -> list[SystemOutput]:
    """Return the translations of all systems, in order: models translate the source, files are read.

    All inputs are checked before a model translates.
    """
    names = _system_names(systems)
    bundles = [address for address in systems if is_bundle(address)]
    if bundles and source is None:
        raise ValueError(f"{bundles[0]} is a model and needs text to translate: add --source FILE")
    opened = {address: open_bundle(address).to(options.to) for address in bundles}
    if options.ensemble:
        if len(bundles) < 2:
            raise ValueError("--ensemble needs several models: give two or more")
        check_ensemble(opened[bundles[0]], [opened[address] for address in bundles[1:]])
    files = {address: read_text(address) for address in systems if address not in bundles}
    for text in (*references[1:], *([source] if source else []), *files.values()):
        require_same_length(text, references[0])
    outputs = []
    for name, address in zip(names, systems, strict=True):
        if address in files:
            outputs.append(SystemOutput(name, "file", files[address].sha256, files[address].lines))
        elif source is not None:
            outputs.append(_translate(name, [opened[address]], source.lines, progress, options))
    if options.ensemble and source is not None:
        outputs.append(_translate(ENSEMBLE, list(opened.values()), source.lines, progress, options))
    return outputs


def is_bundle(address: str) -> bool:
    """Return True if a system is a model (a folder or `demo`), or False if the system is a translation file."""
    if not Path(address).exists() and "://" not in address and address not in ("demo", "-"):
        raise ValueError(f"{address}: no such folder or file: give a model folder or a translation file")
    return address == "demo" or Path(address).is_dir()


def evaluate_outputs(
    outputs: Outputs,
    source: TextFile | None,
    references: TextFiles,
    metrics: Metrics,
    options: MetricOptions,
    command: str,
    comet: CometModel | None = None,
) -> EvaluationReport:
    """Score all systems against the references, and compare the other systems with the first.

    COMET compares with the first reference, and needs the source.
    """
    lines = [output.lines for output in outputs]
    by_system = compare(lines, [text.lines for text in references], metrics, options)
    if comet and source:
        learned = compare_by_comet(comet, lines, source.lines, references[0].lines)
        by_system = [(*scores, score) for scores, score in zip(by_system, learned, strict=True)]
    return EvaluationReport(
        command=command,
        dragoman=__version__,
        source=source.info if source else None,
        references=tuple(reference.info for reference in references),
        systems=tuple(
            SystemScores(name=output.name, kind=output.kind, sha256=output.sha256, scores=scores)
            for output, scores in zip(outputs, by_system, strict=True)
        ),
        notes=tuple(_notes(outputs, references, options.tokenised, is_text=not {*TEXT_METRICS}.isdisjoint(metrics))),
    )


def _system_names(systems: Sequence[str]) -> list[str]:
    """Return a name for each system: the last part of its path, or the whole path if that part is ambiguous."""
    for address in systems:
        if systems.count(address) > 1:
            raise ValueError(f"{address} is given {systems.count(address)} times: give each system once")
    short = [Path(address).resolve().name for address in systems]
    return [name if short.count(name) == 1 else address for name, address in zip(short, systems, strict=True)]


def _translate(
    name: str, bundles: Sequence[Bundle], lines: list[str], progress: Progress, options: ModelOptions
) -> SystemOutput:
    """Return the output of a model, or of several as an ensemble."""
    from dragoman.decoding.options import EngineOptions
    from dragoman.translation.rerank import rerank
    from dragoman.translation.translator import Translator

    report = part_progress(progress, name=f"translate with {name}")
    engine = EngineOptions(device=options.device)
    reverse = None if options.rerank is None else open_bundle(options.rerank)
    loaded = Translator.load(bundles[0], replace(engine, beam_size=options.beam), others=bundles[1:])
    translator = rerank(loaded, options.mbr, reverse, engine)
    hashes = [bundle.sha256 for bundle in bundles]
    sha256 = hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()
    return SystemOutput(name, "bundle", sha256, translator.translate(lines, report))


def _cells(score: MetricScore, baseline: MetricScore) -> list[str]:
    cells = [f"{score.value:.2f}", f"{score.low:.2f} - {score.high:.2f}"]
    if score.p_value is None:
        return cells
    if score.value == baseline.value:  # sacreBLEU's formula gives a tie the smallest p-value there is
        return [*cells, "0.00", "-"]
    star = " *"[score.p_value < SIGNIFICANT]
    return [*cells, f"{score.value - baseline.value:+.2f}", f"{score.p_value:.3f}{star}"]


def _notes(systems: Outputs, references: TextFiles, tokenised: bool, is_text: bool) -> Iterator[str]:
    """Yield warnings about few lines, and about tokenised text scored as raw text or raw text scored as tokenised.

    `is_text` is False if only metrics for symbols are computed, to which tokenisation does not matter.
    """
    num_lines = len(references[0].lines)
    if num_lines < _FEW_LINES:
        yield f"{num_lines} lines are few: the scores are rough, and the intervals may reach beyond what is possible"
    if not is_text:
        return
    texts = {output.name: output.lines for output in systems} | {text.file: text.lines for text in references}
    looks = {name: sum(map(is_tokenised, lines)) >= _TOKENISED_SHARE * len(lines) for name, lines in texts.items()}
    odd = ", ".join(name for name in texts if looks[name] != tokenised)
    if odd and not tokenised:
        yield f"this looks tokenised: {odd}; if all text is, give --tokenised"
    elif odd and any(looks.values()):
        yield f"this does not look tokenised, but the rest does: {odd}"
