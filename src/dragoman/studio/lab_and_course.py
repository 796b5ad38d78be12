"""The lab's results and the course, which the studio shows without torch.

scripts/studio_lab_and_course.py writes both files from the experiments, the results in docs/lab and the chapters in
docs/course; they are committed, and a test compares them.
"""

from functools import cache
from importlib.resources import files
from typing import Annotated, Final, Literal

from pydantic import Field

from dragoman.config import Config
from dragoman.lab.experiment import Criterion, Interval, VerdictName

LAB_FILE: Final = "lab.json"
COURSE_FILE: Final = "course.json"


class Span(Config):
    """A part of a text with one style."""

    text: str
    style: Literal["plain", "strong", "em", "code", "sub", "sup"] = "plain"
    link: str | None = Field(None, description="fragment of the studio's address that this text leads to")


Text = tuple[Span, ...]


class LabLine(Config):
    """A line of a panel: the mean over the seeds, and their range."""

    name: str
    mean: tuple[float, ...]
    low: tuple[float, ...] = Field(description="least value of the seeds at each x")
    high: tuple[float, ...] = Field(description="greatest value of the seeds at each x")


class LabPanel(Config):
    """A panel of an experiment's picture."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    lines: tuple[LabLine, ...]
    log_x: bool
    log_y: bool


class LabExperiment(Config):
    """An experiment of the lab, with its stored result."""

    name: str
    claim: Text
    source: Text = Field(description="publication of the claim")
    prediction: Text
    method: Text
    lesson: Text = Field(description="sentence that the textbook needs; empty before the first run")
    numbers: dict[str, str] = Field(description="description of each number, by name")
    criteria: tuple[Criterion, ...] = Field(description="rule of the verdict")
    verdict: VerdictName | None = Field(description="null: there is no stored result")
    num_seeds: int
    seconds: float = Field(description="greatest processor time of a seed")
    intervals: dict[str, Interval] = Field(description="mean and 95 % interval of each number, by name")
    outcomes: tuple[bool | None, ...] = Field(description="of each criterion: met, refuted, or null for undecided")
    panels: tuple[LabPanel, ...]


class LabInfo(Config):
    """All experiments of the lab."""

    experiments: tuple[LabExperiment, ...]


class TextBlock(Config):
    """A heading, a paragraph, or a quotation."""

    kind: Literal["heading", "paragraph", "quote"]
    text: Text


class ListBlock(Config):
    """A list."""

    kind: Literal["list"]
    items: tuple[Text, ...]


class CodeBlock(Config):
    """Code, a command, or what the code above prints."""

    kind: Literal["code"]
    language: Literal["python", "sh", "text"]
    code: str


class TableBlock(Config):
    """A table, with its header as the first row."""

    kind: Literal["table"]
    rows: tuple[tuple[Text, ...], ...]


class FigureBlock(Config):
    """The picture of an experiment of the lab."""

    kind: Literal["figure"]
    experiment: str
    caption: Text


class OpenBlock(Config):
    """A link to another view, on a sentence or an experiment of the chapter."""

    kind: Literal["open"]
    link: str = Field(description="fragment of the studio's address")


class QuizBlock(Config):
    """A question with choices."""

    kind: Literal["quiz"]
    question: Text
    choices: tuple[Text, ...]
    answer: int = Field(description="the right choice, counted from 0")
    reason: Text


Block = Annotated[
    TextBlock | ListBlock | CodeBlock | TableBlock | FigureBlock | OpenBlock | QuizBlock, Field(discriminator="kind")
]


class Chapter(Config):
    """A chapter of the course."""

    title: str
    question: str = Field(description="question that the chapter answers")
    blocks: tuple[Block, ...]


class CourseInfo(Config):
    """The chapters of the course."""

    chapters: tuple[Chapter, ...]


@cache
def load_lab() -> LabInfo:
    """Return all experiments with their stored results."""
    return LabInfo.model_validate_json((files("dragoman.studio") / LAB_FILE).read_bytes())


@cache
def load_course() -> CourseInfo:
    """Return the course."""
    return CourseInfo.model_validate_json((files("dragoman.studio") / COURSE_FILE).read_bytes())
