"""The base class of components whose state is saved in checkpoints."""

from collections.abc import Mapping
from typing import Any, ClassVar


class Stateful:
    """A component whose `state_fields` are saved in checkpoints: JSON values, or mappings of names to tensors."""

    state_fields: ClassVar[tuple[str, ...]]

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {name: getattr(self, name) for name in self.state_fields}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore all values except tensors, which a checkpoint loads in place."""
        for name, value in state.items():
            setattr(self, name, value)
