"""The table and the picture of an ablation, as the paper's Table 3 could have had them: with seeds and intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.inspection.plots import save
from dragoman.inspection.plots.canvas import INK, SMALL
from dragoman.io.durable import write_durably
from dragoman.lab.ablation import ROWS, AblationResult, SeedMean

TABLE_FILE: Final = "table.md"
PICTURE_FILE: Final = "table.svg"


def write_page(results: Sequence[AblationResult], out: Path, command: str) -> None:
    """Write the table as Markdown, and the picture if there is something to compare."""
    page = f"# Table 3, measured\n\n{render_table(results)}\n\n{_NOTE}\n"
    if any(result.gain for result in results):
        save(draw(results), out / PICTURE_FILE)
        page += f"\n![BLEU less that of the base]({PICTURE_FILE})\n"
    write_durably(out / TABLE_FILE, f"{page}\n```sh\n{command}\n```\n".encode())


def render_table(results: Sequence[AblationResult]) -> str:
    """Return the results as a Markdown table, in the order of the paper's rows."""
    head = ("row", "model", "seeds", "parameters", "perplexity", "BLEU", "BLEU less the base")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for result in results:
        cells = [f"({result.variation.row})" if result.variation.row else "", result.variation.name]
        cells += [str(result.num_seeds), f"{result.parameters:,}", _score(result.perplexity, 2)]
        cells += [_score(result.bleu, 1), _score(result.gain, 1, "+") if result.gain else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(results: Sequence[AblationResult]) -> Axes:
    """Draw BLEU less that of the base, with intervals, one line per variation."""
    shown = [result for result in results if result.gain]
    figure = Figure(figsize=(6.4, 1.2 + 0.26 * len(shown)), layout="constrained")
    ax: Axes = figure.subplots()
    for place, result in enumerate(shown):
        assert result.gain is not None
        if result.gain.interval:
            ax.plot([result.gain.interval.low, result.gain.interval.high], [place, place], color=INK, linewidth=1)
        ax.plot([result.gain.mean], [place], marker="o", markersize=4, color=INK)
    ax.axvline(0, color="#888888", linewidth=0.8, linestyle="--")
    names = [f"({result.variation.row}) {result.variation.name}" for result in shown]
    ax.set_yticks(range(len(shown)), names, fontsize=SMALL)
    ax.invert_yaxis()
    ax.tick_params(axis="x", labelsize=SMALL)
    ax.set_xlabel("BLEU on the validation pairs, less that of the base with the same seed", fontsize=SMALL)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax


def _score(score: SeedMean, digits: int, sign: str = "") -> str:
    text = f"{score.mean:{sign}.{digits}f}"
    if score.interval is None:
        return text
    return f"{text} ({score.interval.low:{sign}.{digits}f} to {score.interval.high:{sign}.{digits}f})"


_NOTE: Final = (
    "Perplexity (per subword, without label smoothing) and BLEU are of the validation pairs, with the weights that the "
    "training kept. In brackets 95 % intervals over the seeds, by Student's t; the last column compares models of the "
    "same seed. "
    + "; ".join(f"({row}) {what}" for row, what in ROWS.items())
    + ". A row whose interval has 0 in it shows no difference at this size."
)
