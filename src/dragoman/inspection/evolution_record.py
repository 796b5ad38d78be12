"""A run's evolution as JSON: every moment, and every number of every head."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.inspection.evolution import NUMBERS, Evolution
from dragoman.inspection.html_file import save_text


def record(evolution: Evolution) -> dict[str, Any]:
    """The series of a head have one value for each moment, in their order."""
    return {
        "run": str(evolution.run),
        "target_is": "forced",
        "rows": "written",
        "measures": {**NUMBERS, "alignment": f"{NUMBERS['alignment']}, between {evolution.units}"},
        "sentences": [{"source": source, "target": target} for source, target in evolution.sentences],
        "moments": [moment.model_dump() for moment in evolution.moments],
        "kept": evolution.kept,
        "heads": [asdict(course) for course in evolution.courses],
    }


def save_record(evolution: Evolution, path: Path) -> None:
    """Write it, all at once."""
    save_text(json.dumps(record(evolution), ensure_ascii=False, indent=1) + "\n", path)
