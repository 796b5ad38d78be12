"""What the service takes on, and how long it waits: for texts, for clients, for engines."""

from pydantic import Field

from dragoman.config import Config


class Limits(Config):
    """Each protects the other users from one. Whoever runs the service sets them; the defaults suit a small machine."""

    body_bytes: int = Field(1 << 20, ge=1024, description="of a request; more is refused before it is read")
    texts: int = Field(256, ge=1, description="in a request")
    characters: int = Field(20_000, ge=1, description="of all texts of a request together")
    beam_size: int = Field(10, ge=1, description="that a request may ask for")
    num_best: int = Field(10, ge=1, description="translations of a sentence that a request may ask for")
    wait: float = Field(
        0.5,
        gt=0,
        description="seconds in the queue, or five times what a sentence takes alone; who would wait longer is refused",
    )
    seconds: float = Field(30.0, gt=0, description="for the whole answer; what would take longer is refused at once")
    header_seconds: float = Field(5.0, gt=0, description="for the head of a request to come in")
    body_seconds: float = Field(8.0, gt=0, description="for its body")
    idle_seconds: float = Field(20.0, gt=0, description="that a connection is kept open for a next request")
    connections: int = Field(2_000, ge=1, description="at once; more are told to come again")
    engine_seconds: float = Field(60.0, gt=0, description="for one batch; an engine that takes longer is replaced")
    drain_seconds: float = Field(
        5.0, ge=0, description="from not ready to not listening, when told to stop: who balances load must notice first"
    )
    merge_ms: float = Field(
        3.0, ge=0, description="that a sentence waits for others to share its batch; longer where that takes seconds"
    )
    batch_tokens: int = Field(
        256, ge=1, description="of a batch, about; 1 merges nothing: every sentence has a batch of its own"
    )
