"""Write what the pages of the studio take from Python: the OpenAPI document, and numbers that their tests compare.

scripts/studio calls it: python scripts/studio_inputs.py FOLDER
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.inspection.cell import CellExplanation
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import KINDS, MEASURES, ROWS, Head, MapChoice, choose, labels, target_mode
from dragoman.studio.studio_app import openapi_document

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
CHOICES = (
    MapChoice("cross", 0, 0, "written", "attention"),
    MapChoice("cross", -1, "mean", "read", "norm"),
    MapChoice("cross", -1, "mean", "read", "attention"),
    MapChoice("cross", 0, 1, "read", "norm", by_word=True),
    MapChoice("cross", -1, "mean", "written", "attention", by_word=True),
    MapChoice("cross", 0, 1, "written", "norm", hide_sinks=True),
    MapChoice("cross", 0, 1, "written", "attention", by_word=True, hide_sinks=True),
    MapChoice("encoder", 0, 0, "written", "norm"),
    MapChoice("decoder", -1, "mean", "read", "attention"),
    MapChoice("decoder", 0, 1, "written", "attention", hide_sinks=True),
)
PAIRS = (
    ("pair-tokens.trace", MapChoice("cross", 0, 0, "written", "attention"), 0),
    ("pair-tokens.trace", MapChoice("cross", 0, "mean", "read", "attention"), "mean"),
    ("pair-tokens.trace", MapChoice("decoder", 0, 1, "written", "attention"), 1),
    ("pair-tokens.trace", MapChoice("cross", 0, 1, "written", "attention", hide_sinks=True), 1),
    ("pair-words.trace", MapChoice("cross", 0, 1, "written", "attention", by_word=True), 0),
    ("pair-words.trace", MapChoice("cross", 0, "mean", "read", "attention", by_word=True, hide_sinks=True), "mean"),
)
"""A trace to compare with schema-1.trace, a map of that, and the nearest head of the other."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 10.0)
"""The divisors of a cell's scores, as multiples of the model's own."""


def main() -> None:
    """Write openapi.json, expected.json and maps.json, which is large, to the folder in the first argument."""
    folder = Path(sys.argv[1])
    _write(folder / "openapi.json", json.dumps(openapi_document(), indent=1))
    traces = {path.name: _numbers(Trace.load(path)) for path in sorted(GOLDEN.glob("schema-*.trace"))}
    cells = json.loads((GOLDEN / "cells.json").read_text(encoding="utf-8"))
    numbers = {name: _cell_numbers(CellExplanation.model_validate_json(json.dumps(cells[name]))) for name in cells}
    comparisons = [_comparison(*pair) for pair in PAIRS]
    _write(folder / "expected.json", _lines({**traces, "cells": numbers, "comparisons": comparisons}))
    maps = {path.name: list(printed_maps(Trace.load(path))) for path in sorted(GOLDEN.glob("schema-*.trace"))}
    _write(folder / "maps.json", json.dumps(maps, ensure_ascii=False))


def printed_maps(trace: Trace) -> Iterator[dict[str, Any]]:
    """Yield every map of a trace, by both row conventions and measures, by token and by word, with printed numbers."""
    for kind, rows, measure, hide_sinks, by_word in product(KINDS, ROWS, MEASURES, (False, True), (False, True)):
        if (by_word and kind != "cross") or (kind == "encoder" and rows != "written"):
            continue
        for layer, name in enumerate(trace.names(kind)):
            for head in ("mean", *range(len(trace.attention[name]))):
                yield _printed(trace, MapChoice(kind, layer, head, rows, measure, by_word, hide_sinks))


def _printed(trace: Trace, choice: MapChoice) -> dict[str, Any]:
    whole = replace(choice, by_word=False, hide_sinks=False).view(trace)
    fields = {key: value for key, value in asdict(choice).items() if key != "reason"}
    fields["sink_share"] = f"{100 * whole.sink_share:.0f}"
    try:
        shown = choice.view(trace)
    except ValueError:  # less than a fifth of every row is left
        return {**fields, "is_empty": True}
    numbers = [[print_weight(value) for value in row] for row in shown.matrix.tolist()]
    return {**fields, "is_empty": False, "row_labels": shown.rows, "column_labels": shown.columns, "numbers": numbers}


def print_weight(value: float) -> str:
    """Return a number of a map with the digits that half precision holds, as the pages print it.

    Sums of 32-bit numbers depend on their order. If another order may turn a digit, both texts are returned: 0.42|0.43.
    """
    if value * 2000 % 1 == 0:  # a half is exact, and rounded to the even digit
        return _digits(value)
    return "|".join(dict.fromkeys(map(_digits, (value, value * (1 - 1e-6), value * (1 + 1e-6)))))


def _digits(value: float) -> str:
    return f"{value:.{3 if value < 0.1 else 2 if value < 10 else 1}f}"


def _numbers(trace: Trace) -> dict[str, Any]:
    first = choose(trace)
    return {
        "mode": target_mode(trace),
        "log_probability": _round(float(trace.log_probabilities.astype("float64").sum())),
        "default": {"layer": first.layer, "head": first.head, "rows": first.rows, "measure": first.measure},
        "maps": [_map(trace, choice) for choice in CHOICES],
    }


def _map(trace: Trace, choice: MapChoice) -> dict[str, Any]:
    layer = range(len(trace.names(choice.kind)))[choice.layer]
    shown = choice.view(trace)
    whole = MapChoice(choice.kind, choice.layer, choice.head, choice.rows, choice.measure).view(trace)
    return {
        **asdict(choice),
        "layer": layer,
        "row_labels": shown.rows,
        "column_labels": shown.columns,
        "sinks": labels(trace, choice.kind, choice.rows).sinks,
        "sink_share": _round(whole.sink_share),
        "empty_rows": shown.empty_rows,
        "values": [_round(value) for value in shown.matrix.flatten().tolist()],
    }


def _comparison(name: str, choice: MapChoice, head: Head) -> dict[str, Any]:
    """Return the difference of two maps; a row that is empty in one of them is empty here."""
    first, second = Trace.load(GOLDEN / "schema-1.trace"), Trace.load(GOLDEN / name)
    a, b = choice.view(first), replace(choice, head=head).view(second)
    difference = a.matrix - b.matrix
    empty_rows = sorted({*a.empty_rows, *b.empty_rows})
    difference[empty_rows] = 0
    return {
        **asdict(choice),
        "other": name,
        "other_head": head,
        "row_labels": a.rows,
        "column_labels": a.columns,
        "empty_rows": empty_rows,
        "largest": _round(float(abs(difference).max())),
        "values": [_round(value) for value in difference.flatten().tolist()],
    }


def _cell_numbers(cell: CellExplanation) -> dict[str, Any]:
    """Return the weights under several divisors, with entropy, and what the cell's chain of steps has to show."""
    scores, visible = np.array([key.score for key in cell.keys]), np.array([key.mark != "hidden" for key in cell.keys])
    rows = []
    for factor in FACTORS:
        divisor = cell.divisor * factor
        weights = np.where(visible, np.exp((scores - scores[visible].max()) / divisor), 0.0)
        weights /= weights.sum()
        positive = weights[weights > 0]
        entropy = -float((positive * np.log(positive)).sum()) / float(np.log(visible.sum()))
        rows.append(
            {"divisor": divisor, "entropy": round(entropy, 6), "weights": [round(w, 9) for w in weights.tolist()]}
        )
    printed = {key.label: [f"{key.score:.4f}", f"{key.score / cell.divisor:.4f}", key.printed] for key in cell.keys}
    return {"divisors": rows, "score_quotient_weight": printed}


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def _lines(traces: dict[str, Any]) -> str:
    """Return JSON with one map per line, so that a difference can be read."""
    text = json.dumps(traces, ensure_ascii=False)
    return text.replace('{"kind": ', '\n{"kind": ')


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
