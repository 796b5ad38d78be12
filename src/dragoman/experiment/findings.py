"""The results of checks before training, the file that keeps them, and the sizes of corpora that are too small."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

from dragoman.io.durable import write_durably

Level = Literal["ok", "note", "warning", "problem"]

FINDINGS: Final = "findings.json"
"""The findings before the first update, in a run folder."""

TOO_FEW_PAIRS: Final = 2_000
NARROW_DOMAIN_PAIRS: Final = 10_000
FEW_FOR_A_PARENT: Final = 500


class Finding(NamedTuple):
    """The result of a check; the message says what to do."""

    check: str
    level: Level
    message: str


def save_findings(folder: Path, findings: Iterable[Finding]) -> None:
    """Write the findings to a run folder."""
    text = json.dumps([finding._asdict() for finding in findings], ensure_ascii=False, indent=1)
    write_durably(folder / FINDINGS, text.encode())


def load_findings(folder: Path) -> list[Finding]:
    """Return the findings in a run folder; none if there is no such file, as in runs of earlier versions."""
    try:
        return [Finding(**fields) for fields in json.loads((folder / FINDINGS).read_bytes())]
    except (FileNotFoundError, TypeError, ValueError):
        return []


def check_num_pairs(num_pairs: int, tokens: float | None = None, has_parent: bool = False) -> Finding:
    """Check whether there are enough pairs to train a useful model; `tokens` is the mean length of a pair.

    A few hundred pairs are enough to train a parent on.
    """
    message = f"{num_pairs:,} pairs" + ("" if tokens is None else f", about {tokens:.0f} subwords each")
    if has_parent and num_pairs < FEW_FOR_A_PARENT:
        message += f": few even for a trained model; give {FEW_FOR_A_PARENT} or more"
        return Finding("pairs", "warning", message)
    if num_pairs < TOO_FEW_PAIRS and not has_parent:
        message += f": too few for a useful model; give {NARROW_DOMAIN_PAIRS:,} or more"
        return Finding("pairs", "warning", message)
    return Finding("pairs", "ok", message)
