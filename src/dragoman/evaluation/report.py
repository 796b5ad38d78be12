"""Systems and a test set become a report: every score with what is needed to repeat it, as JSON and as a table."""

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field
from rich import box
from rich.table import Table

from dragoman.config import Config
from dragoman.data.characters import is_tokenised
from dragoman.evaluation.metrics import Name, Score, compare
from dragoman.evaluation.output import Output
from dragoman.evaluation.reading import Reading
from dragoman.evaluation.text import Text, TextFile
from dragoman.version import __version__

SIGNIFICANT: Final = 0.05
_FEW: Final = 100
"""Lines below which a bootstrap has little to draw from."""

_TOKENISED: Final = 0.5
"""Share of lines that must look tokenised for the whole to be said to."""


class EvaluateOptions(Config):
    """What is measured, and how text is read for it."""

    metrics: tuple[Name, ...] = Field(("bleu", "chrf", "ter"), min_length=1, description="which scores")
    reading: Reading = Field(Reading(), description="tokenised, lower-cased or compound-split text")
    command: str = Field("", description="what was typed to get this, for the report")


class System(Config):
    """One system and how it did."""

    name: str = Field(description="the last part of its path, or all of it where two would be called the same")
    kind: Literal["bundle", "file"] = Field(description="translated here, or an output brought along")
    sha256: str = Field(description="of the bundle, or of the file's text")
    scores: tuple[Score, ...] = Field(description="one for each metric")


class Report(Config):
    """Everything about one evaluation."""

    command: str = Field(description="what was typed")
    dragoman: str = Field(description="the version that made it")
    source: TextFile | None = Field(description="what was translated, if it was given")
    references: tuple[TextFile, ...] = Field(description="what is right")
    systems: tuple[System, ...] = Field(description="the first is the one that others are compared with")
    notes: tuple[str, ...] = Field((), description="what a reader of the numbers should know")

    def table(self) -> Table:
        """For people: it fits 80 columns."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("system", max_width=24, overflow="fold")
        table.add_column("metric")
        for column in ("score", "95 % interval", "difference", "p")[: 4 if len(self.systems) > 1 else 2]:
            table.add_column(column, justify="right", no_wrap=True)
        for system in self.systems:
            for number, score in enumerate(system.scores):
                first = self.systems[0].scores[number]
                table.add_row(system.name if number == 0 else "", score.metric, *_cells(score, first))
            table.add_section()
        return table

    @property
    def signatures(self) -> tuple[str, ...]:
        """One for each metric, as it is cited: it does not depend on the system."""
        return tuple(f"{score.metric}|{score.signature}" for score in self.systems[0].scores)


def evaluate(
    systems: Sequence[Output], source: Text | None, references: Sequence[Text], options: EvaluateOptions
) -> Report:
    """Score all systems against the references, and each from the second on against the first."""
    outputs = [output.lines for output in systems]
    scores = compare(outputs, [reference.lines for reference in references], options.metrics, options.reading)
    return Report(
        command=options.command,
        dragoman=__version__,
        source=source.record if source else None,
        references=tuple(reference.record for reference in references),
        systems=tuple(
            System(name=output.name, kind=output.kind, sha256=output.sha256, scores=of_it)
            for output, of_it in zip(systems, scores, strict=True)
        ),
        notes=(*_few(references[0]), *_mixed(systems, references, options.reading)),
    )


def _cells(score: Score, first: Score) -> list[str]:
    cells = [f"{score.value:.2f}", f"{score.low:.2f} - {score.high:.2f}"]
    if score.p_value is None:
        return cells
    if score.value == first.value:  # of a tie, sacreBLEU's formula says that it cannot be chance
        return [*cells, "0.00", "-"]
    return [*cells, f"{score.value - first.value:+.2f}", f"{score.p_value:.3f}{' *'[score.p_value < SIGNIFICANT]}"]


def _few(reference: Text) -> tuple[str, ...]:
    num_lines = len(reference.lines)
    few = f"{num_lines} lines are few: the scores are rough, and the intervals may reach beyond what is possible"
    return (few,) if num_lines < _FEW else ()


def _mixed(systems: Sequence[Output], references: Sequence[Text], reading: Reading) -> tuple[str, ...]:
    """Tokenised text scored as if it were not, or the reverse, gives a number that stands beside nothing."""
    texts = [*((output.name, output.lines) for output in systems), *((text.file, text.lines) for text in references)]
    tokenised = {name for name, lines in texts if sum(map(is_tokenised, lines)) >= _TOKENISED * len(lines)}
    odd = [name for name, _ in texts if (name in tokenised) != reading.tokenised]
    if odd and not reading.tokenised:
        return (f"this looks tokenised: {', '.join(odd)}; if all text is, give --tokenised",)
    if odd and tokenised:
        return (f"this does not look tokenised, but the rest does: {', '.join(odd)}",)
    return ()
