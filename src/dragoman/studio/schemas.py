"""The requests and answers of the studio's API; studio/src/lib/api.ts is generated from them."""

from typing import Annotated, Final

from pydantic import Field

from dragoman.config import Config
from dragoman.inspection.heads import HeadSummary
from dragoman.inspection.interventions import Intervention

MAX_CHARACTERS: Final = 5000
MAX_BEAM: Final = 32


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


class StudioModelInfo(Config):
    """A model of the studio."""

    name: str
    argument: str = Field(description="the model on the command line, for --model")
    sha256: str
    family: str
    source_language: str | None
    target_language: str | None
    example: str | None = Field(description="sentence to begin with; null if none is known")


class StudioInfo(Config):
    """The models of the studio, and whether all heads can be shown."""

    version: str
    has_torch: bool = Field(description="false: only the stored alignment head can be shown")
    models: tuple[StudioModelInfo, ...]


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
