"""What the service says of itself: one JSON object a line, and never a word of what people had translated."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from io import TextIOBase
from typing import Any


class Log:
    """Writes events. Fields whose value is None are left out."""

    def __init__(
        self, stream: TextIOBase | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._stream = stream
        self._now = now

    def __call__(self, event: str, *, level: str = "info", **fields: Any) -> None:
        line = {"time": self._now().isoformat(timespec="milliseconds"), "level": level, "event": event}
        line |= {name: value for name, value in fields.items() if value is not None}
        stream = self._stream or sys.stderr
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        stream.flush()
