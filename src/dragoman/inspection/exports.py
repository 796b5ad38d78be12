"""Export of a map or a head summary as JSON, CSV, or links in the Moses format."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from dragoman.alignment.moses import to_moses
from dragoman.inspection.head_search import head_links
from dragoman.inspection.heads import HeadSummary
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import MapChoice, MapView, choose

DIGITS: Final = 6


def map_json(trace: Trace, choice: MapChoice, notes: Mapping[str, str] | None = None) -> str:
    """Return JSON with the tokens, the probabilities, the notes, and one map with its caption.

    A trace file holds all maps; as JSON, all maps would be twenty times as large.
    """
    steps = zip(trace.alternative_ids.tolist(), trace.alternative_log_probabilities.tolist(), strict=True)
    alternatives = [
        [{"id": token, "piece": trace.pieces.get(token), "log_probability": _finite(value)} for token, value in step]
        for step in (zip(ids, values, strict=True) for ids, values in steps)
    ]
    return _lines(
        source=asdict(trace.source),
        target=asdict(trace.target),
        **_provenance(trace),
        cut=trace.cut,
        log_probability=_finite(float(trace.log_probabilities.sum())),
        log_probabilities=[_finite(value) for value in trace.log_probabilities.tolist()],
        alternatives=alternatives,
        notes=dict(notes or {}),
        map=_map(trace, choice),
    )


def map_csv(shown: MapView) -> str:
    """Return the map as CSV with row and column labels; the first cell holds the caption."""
    rows = zip(shown.rows, shown.matrix.tolist(), strict=True)
    return _csv([(shown.caption, *shown.columns), *((label, *map(_cell, row)) for label, row in rows)])


def moses(trace: Trace, choice: MapChoice) -> str:
    """Return the word links of the chosen map as one line in the Moses format.

    If the choice is not cross-attention, the default cross-attention map is used.
    """
    choice = choice if choice.kind == "cross" else choose(trace)
    return to_moses(head_links(trace, choice.alignment_head(trace))) + "\n"


def heads_json(trace: Trace, heads: Sequence[HeadSummary], notes: Mapping[str, str] | None = None) -> str:
    """Return JSON with the statistics, the label and the evidence of every head."""
    summaries = [summary.model_dump() for summary in heads]
    texts = {"source": trace.source.text, "target": trace.target.text}
    return _lines(**texts, **_provenance(trace), notes=dict(notes or {}), heads=summaries)


def heads_csv(heads: Sequence[HeadSummary]) -> str:
    """Return CSV with one line per head; statistics that do not apply to a head are empty."""
    columns = [name for name in HeadSummary.model_fields if name != "profile"]
    return _csv([columns, *([_cell(getattr(summary, name)) for name in columns] for summary in heads)])


def _provenance(trace: Trace) -> dict[str, Any]:
    return {
        "target_is": "free" if trace.free else "forced",
        "model": trace.model.model_dump(),
        "interventions": [change.model_dump() for change in trace.interventions],
    }


def _map(trace: Trace, choice: MapChoice) -> dict[str, Any]:
    shown, name = choice.view(trace), choice.name(trace)
    return {
        "name": name,
        "kind": choice.kind,
        "head": 0 if len(trace.attention[name]) == 1 else choice.head,  # the mean of a single head is that head
        "rows": None if choice.kind == "encoder" else choice.rows,
        "measure": choice.measure,
        "by_word": choice.by_word,
        "sinks_hidden": choice.hide_sinks,
        "caption": shown.caption,
        "row_labels": shown.rows,
        "column_labels": shown.columns,
        "sinks": shown.sinks,
        "values": [[round(value, DIGITS) for value in row] for row in shown.matrix.tolist()],
    }


def _lines(**fields: Any) -> str:
    """Return JSON with one top-level key per line, so that diffs are readable."""
    texts = {key: json.dumps(value, ensure_ascii=False, allow_nan=False) for key, value in fields.items()}
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {text}" for key, text in texts.items()) + "\n}\n"


def _csv(lines: Sequence[Sequence[str]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(lines)
    return written.getvalue()


def _finite(value: float) -> float | None:
    """Return the value, or None for infinity and NaN, which JSON cannot represent."""
    return value if math.isfinite(value) else None


def _cell(value: Any) -> str:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else "" if value is None else str(value)
