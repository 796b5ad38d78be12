"""The requests and answers of the studio's API; studio/src/lib/api.ts is generated from them."""

from typing import Annotated, Final

from pydantic import ConfigDict, Field

from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.config import Config
from dragoman.experiment.findings import Level
from dragoman.inspection.head_ranking import HeadRanking
from dragoman.inspection.heads import HeadSummary
from dragoman.inspection.interventions import Intervention

MAX_CHARACTERS: Final = 5000
MAX_BEAM: Final = 32
MAX_LINES: Final = 2000
MAX_PAIRS: Final = 1000
MAX_LINKED: Final = 50
Lines = tuple[Annotated[str, Field(max_length=MAX_CHARACTERS)], ...]


class TraceRequest(Config):
    """A sentence to translate and to trace."""

    model: str = Field(description="name of a model of the studio")
    source: str = Field(max_length=MAX_CHARACTERS, description="sentence to translate")
    target: str | None = Field(
        None, max_length=MAX_CHARACTERS, description="translation to trace; null: the model's own"
    )
    prefix: tuple[Annotated[int, Field(ge=0)], ...] = Field((), description="tokens that the translation begins with")
    beam_size: int | None = Field(None, ge=1, le=MAX_BEAM, description="beam size; null: the model's own")
    interventions: tuple[Annotated[Intervention, Field(discriminator="do")], ...] = Field(
        (), description="changes of the model's attention, applied in order"
    )


class TriageRequest(Config):
    """Sentences to translate, and to rank by signs of errors."""

    model: str = Field(description="name of a model of the studio")
    sources: tuple[Annotated[str, Field(max_length=MAX_CHARACTERS)], ...] = Field(
        min_length=1, max_length=MAX_LINES, description="sentences to translate"
    )


class JobProgress(Config):
    """The lines that are done; the data of server-sent events named `progress`."""

    done: int
    total: int


class HeadSearchRequest(Config):
    """Sentence pairs with gold links, to rank all heads by their alignment error rate."""

    model: str = Field(description="name of a model of the studio")
    sources: Annotated[Lines, Field(min_length=1, max_length=MAX_PAIRS)] = Field(description="source sentences")
    targets: Annotated[Lines, Field(max_length=MAX_PAIRS)] = Field(description="their translations")
    gold: Annotated[Lines, Field(max_length=MAX_PAIRS)] = Field(
        description="links of each pair; words count from 1: 1-1 is sure, 2p3 possible"
    )
    swap_gold: bool = Field(False, description="true if the target word comes first in each link")


class HeadSearchReport(Config):
    """All heads by alignment error rate, with that of the diagonal as a baseline."""

    ranking: HeadRanking
    diagonal_aer: float = Field(description="error rate of the diagonal, which uses no model")


class LinksRequest(Config):
    """Sentence pairs to align by one head."""

    model: str = Field(description="name of a model of the studio")
    head: AlignmentHead
    sources: Annotated[Lines, Field(max_length=MAX_LINKED)]
    targets: Annotated[Lines, Field(max_length=MAX_LINKED)]


class LinkList(Config):
    """The links of each sentence pair: source word and target word, counted from 0."""

    links: tuple[tuple[tuple[int, int], ...], ...]


class StoreHeadRequest(Config):
    """A head to store as the alignment head of a model."""

    model: str = Field(description="name of a model of the studio")
    head: AlignmentHead


class StudioModelInfo(Config):
    """A model of the studio."""

    name: str
    argument: str = Field(description="the model on the command line, for --model")
    sha256: str
    family: str
    source_language: str | None
    target_language: str | None
    example: str | None = Field(description="sentence to begin with; null if none is known")
    alignment_heads: tuple[AlignmentHead, ...] = Field(description="stored heads that the model aligns by")
    is_demo: bool = Field(description="true for the built-in model, in which no head can be stored")


class StudioRunInfo(Config):
    """A training run of the studio."""

    name: str
    argument: str = Field(description="the run folder on the command line")


class StudioInfo(Config):
    """The models and runs of the studio, and whether all heads can be shown."""

    version: str
    has_torch: bool = Field(description="false: only the stored alignment head can be shown")
    models: tuple[StudioModelInfo, ...]
    runs: tuple[StudioRunInfo, ...]


class LogEvent(Config):
    """A line of log.jsonl, as far as the pages show it; numbers that JSON lacks, such as NaN, become null."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")

    event: str
    update: int | None = None
    seconds: float | None = Field(None, description="time since training began, without interruptions")
    last: int | None = Field(None, description="last update, as planned at this moment")
    time: float | None = Field(None, description="time limit in seconds")
    loss: float | None = Field(None, description="in nats per token")
    rate: float | None = Field(None, description="learning rate")
    tokens_per_second: float | None = None
    bleu: float | None = None
    chrf: float | None = None
    best: bool = False
    which: str | None = Field(None, description="origin of the validated weights, such as update 200")
    took: float | None = Field(None, description="duration of a validation in seconds")
    samples: tuple[tuple[str, str, str], ...] | None = Field(None, description="source, reference and translation")
    parameters: int | None = None
    vocabulary: int | None = None
    pairs: int | None = None
    device: str | None = None
    processes: int | None = None
    why: str | None = Field(None, description="reason for the end of training")
    kept: str | None = Field(None, description="weights that are kept")
    reason: str | None = None
    message: str | None = None
    test_set: str | None = None
    metric: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None


class LogPage(Config):
    """The lines that are new in a log; the data of server-sent events named `log`."""

    is_first: bool = Field(description="true: the log begins with these lines, and lines sent before are void")
    age: float = Field(description="seconds since the last line was written")
    events: tuple[LogEvent, ...]


class RunFinding(Config):
    """What a check found before training began, as `dragoman doctor` prints it."""

    check: str
    level: Level
    message: str


class RunState(Config):
    """The state of a run folder; the data of server-sent events named `state`."""

    is_running: bool = Field(description="true if a process is training in the folder")
    is_finished: bool = Field(description="true if the folder has a model, and nothing is left to do")
    snapshots: tuple[str, ...] = Field(description="folders of the probe, oldest first")
    findings: tuple[RunFinding, ...]


class CounterfactualCounts(Config):
    """Target tokens that stay the model's first choice when cross-attention is permuted or uniform."""

    num_written: int = Field(description="number of target tokens")
    num_tokens: int = Field(description="number of target tokens that are the first choice of the unchanged model")
    kept_permuted: int
    kept_uniform: int


class HeadList(Config):
    """The statistics and the label of every head in one trace."""

    heads: tuple[HeadSummary, ...]


class ErrorInfo(Config):
    """The reason why a request was rejected."""

    error: str
