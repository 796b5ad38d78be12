"""The moments of a training in which its probe sentences were traced: a folder for each, in a run's folder `probe`.

`00000200` holds what was traced after update 200: `0.trace`, `1.trace` and so on, one for each sentence, and
`moment.json`. It has its name only when it is whole, so that whoever reads while a run trains sees no half of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from dragoman.config import Config
from dragoman.data.durable import DamageError
from dragoman.inspection import trace_file
from dragoman.inspection.trace import Trace

PROBE: Final = "probe"
MOMENT: Final = "moment.json"


class Moment(Config):
    """When the sentences were traced, and what the model was worth then."""

    update: int = Field(ge=0, description="how many updates had been made; 0 is before the first")
    which: str = Field(description="whose weights: update 200, the average of 5 snapshots")
    is_average: bool = Field(False, description="weights that were never trained with, but averaged in the end")
    best: bool = Field(False, description="the best validation up to then: the last such one is what a run keeps")
    loss: float | None = Field(None, description="of the validation, in nats per token")
    bleu: float | None = Field(None, description="of the validation")
    chrf: float | None = Field(None, description="of the validation")

    def __str__(self) -> str:
        return "average" if self.is_average else f"update {self.update:,}"


def save_moment(moment: Moment, traces: Sequence[Trace], run: Path) -> None:
    """Keep the traces of one moment."""
    name = f"{moment.update:08}{'-average' if moment.is_average else ''}"
    beside = run / PROBE / f".{name}.unfinished"
    beside.mkdir(parents=True)
    for sentence, trace in enumerate(traces):
        trace_file.save(trace, beside / f"{sentence}.trace")
    (beside / MOMENT).write_text(moment.model_dump_json(indent=2) + "\n", encoding="utf-8")
    beside.rename(run / PROBE / name)


def moment_folders(run: Path) -> list[Path]:
    """Those of a run, oldest first; refused, with the reason, if there are none."""
    if not run.is_dir():
        what = "this is a file" if run.exists() else "there is no such folder"
        raise ValueError(f"{run}: {what}; give the folder of a run, which dragoman train makes")
    if not (run / PROBE).is_dir():
        raise ValueError(f"{run}: {_why_none(run)}")
    folders = sorted(folder for folder in (run / PROBE).iterdir() if folder.is_dir() and folder.name[0] != ".")
    if not folders:
        raise ValueError(f"{run}: the first probe is still being made; try again in a minute")
    return folders


def load_moment(folder: Path) -> Moment:
    """When it was."""
    try:
        return Moment.model_validate_json((folder / MOMENT).read_bytes())
    except (OSError, ValidationError) as error:
        raise DamageError(folder / MOMENT, "this file cannot be read", _mend(folder)) from error


def load_traces(folder: Path) -> list[Trace]:
    """Of all sentences, in their order."""
    return [load_sentence(folder, sentence) for sentence in range(len(list(folder.glob("*.trace"))))]


def load_sentence(folder: Path, sentence: int) -> Trace:
    """The trace of one; they are counted from 0."""
    path = folder / f"{sentence}.trace"
    try:
        return trace_file.load(path)
    except ValueError as error:
        # What it says of itself, without its name and without the mend of a single trace.
        wrong = str(error).removeprefix(f"{path}: ").removesuffix(f"; {trace_file.MEND}")
        raise DamageError(path, wrong, _mend(folder)) from error


def _mend(folder: Path) -> str:
    return f"take the folder {folder.name} away to see the other moments"


def _why_none(run: Path) -> str:
    above = run.absolute().parent
    if (above / PROBE).is_dir():
        return f"this is a part of a run; give the run itself: {above}"
    if (run / "recipe.yaml").is_file():
        return (
            "nothing was traced while this run trained (validation.probe was 0, or its dragoman did not know probes); "
            "to see it, train again with validation.probe of 1 or more"
        )
    return "this is not the folder of a run; dragoman train makes one"
