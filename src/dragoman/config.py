"""What every configuration is: frozen, with unknown keys refused. No torch here."""

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """Stands beside the thing it configures; every field says what it is for."""

    model_config = ConfigDict(frozen=True, extra="forbid")
