"""Alignment heads on the command line: how they are named, said and guessed at."""

import sys
from typing import TYPE_CHECKING, NamedTuple, get_args

from dragoman.data.alignment import AlignmentHead, Measure, Rows

if TYPE_CHECKING:
    from torch import nn

    from dragoman.inspection.aligner import Aligner


class HeadOptions(NamedTuple):
    """A head as it was typed; layers and heads are counted from 0."""

    layer: int | None
    head: str | None
    rows: str | None
    measure: str | None

    def refuse_mistakes(self) -> None:
        """What can be seen without the model."""
        if self.layer is None and any(option is not None for option in self):
            raise ValueError("--head, --rows and --measure are of a layer: name it, as in --layer 1 --head mean")
        if self.head not in (None, "mean") and not str(self.head).isdecimal():
            raise ValueError(f"--head {self.head}: give its number, from 0, or mean")
        for name, given, allowed in (("rows", self.rows, get_args(Rows)), ("measure", self.measure, get_args(Measure))):
            if given is not None and given not in allowed:
                raise ValueError(f"--{name} {given}: give {' or '.join(allowed)}")

    def heads(self, model: "nn.Module") -> tuple[AlignmentHead, ...]:
        """The one that is named, or none."""
        from dragoman.inspection.aligner import attentions

        if self.layer is None:
            return ()
        names = attentions(model)
        if not -len(names) <= self.layer < len(names):
            raise ValueError(f"there is no layer {self.layer}: choose 0 to {len(names) - 1}, or -1 for the last")
        number = None if self.head in (None, "mean") else int(str(self.head))
        named = {"rows": self.rows, "measure": self.measure}
        chosen = {key: value for key, value in named.items() if value is not None}
        return (AlignmentHead.model_validate({"layer": names[self.layer], "head": number, **chosen}),)


def said(head: AlignmentHead) -> str:
    """For people."""
    which = "mean of heads" if head.head is None else f"head {head.head}"
    return f"{head.layer}, {which}, {head.rows}, {head.measure}"


def as_options(head: AlignmentHead, names: list[str]) -> str:
    """For the command line."""
    which = "mean" if head.head is None else head.head
    return f"--layer {names.index(head.layer)} --head {which} --rows {head.rows} --measure {head.measure}"


def tell_of_guess(aligner: "Aligner", which: str) -> None:
    """On standard error, if the links are by a guess."""
    if aligner.guessed:
        print(
            f"{which} has no alignment head stored: its links are by a guess,\n"
            f"  {said(aligner.heads[0])};\n"
            "  dragoman align --search --store finds and keeps a better one",
            file=sys.stderr,
        )
