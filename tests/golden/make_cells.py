"""Write cells.json: the arithmetic of one cell of a Transformer and of a recurrent model, as the studio gets it.

python tests/golden/make_cells.py

The last digits depend on the processor, so the numbers are stored: scripts/studio_inputs.py and the tests of the pages
read them, and tests/unit/inspection/test_cell.py compares them with today's.
"""

import json
from pathlib import Path

from dragoman.inspection.cell import CellExplanation, describe_cell
from dragoman.inspection.explanation import explain
from dragoman.inspection.inspector import Inspector

GOLDEN = Path(__file__).parent
CELLS = {
    "v1": {"kind": "decoder", "row": 6, "head": 1, "key": 2},
    "v1-recurrent": {"kind": "cross", "row": 3, "key": 4},
}


def make_cell(name: str) -> CellExplanation:
    """Explain the cell of one golden model."""
    return describe_cell(explain(Inspector.load(GOLDEN / name), "two red dogs.", "zwei rote Hunde.", **CELLS[name]))


if __name__ == "__main__":
    cells = {name: make_cell(name).model_dump() for name in CELLS}
    (GOLDEN / "cells.json").write_text(json.dumps(cells, ensure_ascii=False) + "\n", encoding="utf-8")
