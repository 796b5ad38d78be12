"""A map, and what is known of the heads, as text for other programs: JSON, CSV, and links in the Moses format."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dragoman.data.moses import to_moses
from dragoman.inspection.alignment_heads import head_links
from dragoman.inspection.choice import Choice, choose
from dragoman.inspection.heads import HeadHabit
from dragoman.inspection.trace import Tokens, Trace
from dragoman.inspection.view import Head, View

DIGITS: Final = 6


def map_json(trace: Trace, choice: Choice, notes: Mapping[str, str] | None = None) -> str:
    """What was read and written, what else is to be known, and one map with all that its caption says. All maps are in
    a trace file instead: as JSON they would take twenty times the space.
    """
    alternatives = zip(trace.alternative_ids.tolist(), trace.alternative_log_probabilities.tolist(), strict=True)
    return _lines(
        {
            "source": _side(trace.source),
            "target": _side(trace.target),
            "target_is": "free" if trace.free else "forced",
            "cut": trace.cut,
            "model": trace.model.model_dump(),
            "interventions": [one.model_dump() for one in trace.interventions],
            "log_probability": _number(float(trace.log_probabilities.sum())),
            "log_probabilities": [_number(value) for value in trace.log_probabilities.tolist()],
            "alternatives": [
                [
                    {"id": token, "piece": trace.pieces.get(token), "log_probability": _number(value)}
                    for token, value in row
                ]
                for row in (zip(ids, values, strict=True) for ids, values in alternatives)
            ],
            "notes": dict(notes or {}),
            "map": _map(trace, choice),
        }
    )


def map_csv(seen: View) -> str:
    """A line for each row of the map and a column for each of its columns; the caption stands in the corner."""
    rows = zip(seen.rows, seen.matrix.tolist(), strict=True)
    return _table([(seen.caption, *seen.columns), *((label, *map(_short, row)) for label, row in rows)])


def moses(trace: Trace, choice: Choice) -> str:
    """The links between words that the map shows, in one line; a map of one side has none, so then by the default."""
    chosen = choice if choice.kind == "cross" else choose(trace)
    return to_moses(head_links(trace, chosen.alignment_head(trace))) + "\n"


def habits_json(trace: Trace, habits: Sequence[HeadHabit], notes: Mapping[str, str] | None = None) -> str:
    """All heads with their labels and evidence."""
    return _lines(
        {
            "source": trace.source.text,
            "target": trace.target.text,
            "target_is": "free" if trace.free else "forced",
            "model": trace.model.model_dump(),
            "interventions": [one.model_dump() for one in trace.interventions],
            "notes": dict(notes or {}),
            "heads": [habit.model_dump() for habit in habits],
        }
    )


def habits_csv(habits: Sequence[HeadHabit]) -> str:
    """A line for each head; what a head of its kind does not have is empty."""
    columns = [name for name in HeadHabit.model_fields if name != "profile"]
    lines = (habit.model_dump() for habit in habits)
    return _table([columns, *([_cell(line[name]) for name in columns] for line in lines)])


def _map(trace: Trace, choice: Choice) -> dict[str, Any]:
    seen = choice.view(trace)
    return {
        "name": choice.name(trace),
        "kind": choice.kind,
        "head": _head(trace, choice),
        "rows": None if choice.kind == "encoder" else choice.rows,
        "measure": choice.measure,
        "by_word": choice.by_word,
        "sinks_hidden": choice.hide_sinks,
        "caption": seen.caption,
        "row_labels": seen.rows,
        "column_labels": seen.columns,
        "sinks": seen.sinks,
        "values": [[round(value, DIGITS) for value in row] for row in seen.matrix.tolist()],
    }


def _head(trace: Trace, choice: Choice) -> Head:
    """The mean of a single head is that head."""
    return 0 if len(trace.attention[choice.name(trace)]) == 1 else choice.head


def _side(tokens: Tokens) -> dict[str, Any]:
    return {
        "text": tokens.text, "ids": tokens.ids, "pieces": tokens.pieces, "spans": tokens.spans, "words": tokens.words
    }  # fmt: skip


def _lines(fields: dict[str, Any]) -> str:
    """A key on a line: short enough to be looked through, and every line a unit for diff."""
    lines = (
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for key, value in fields.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _table(lines: Sequence[Sequence[str]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(lines)
    return written.getvalue()


def _number(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _short(value: float) -> str:
    return f"{value:.{DIGITS}g}"


def _cell(value: Any) -> str:
    return _short(value) if isinstance(value, float) else "" if value is None else str(value)
