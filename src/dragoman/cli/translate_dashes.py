"""Texts of `dragoman translate` that begin with a dash, and would be taken for options."""

import re
from typing import Any, Final

from typer.core import TyperCommand

_DASHED: Final = re.compile(r"-[^=]*\s")
"""A dash, and white space before any equals sign: no option looks so."""


class TakesTexts(TyperCommand):
    """A command that says how a text with a dash in front is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As ever, but for such a text."""
        flags = {name for param in self.params if getattr(param, "is_flag", False) for name in param.opts}
        own = args[: args.index("--")] if "--" in args else args
        for before, argument in zip(["", *own], own, strict=False):
            is_value = before.startswith("--") and before not in flags
            if _DASHED.match(argument) and not is_value:
                raise ValueError(f"put -- before texts that begin with a dash: -- {argument.partition(chr(10))[0]!r}")
        return super().parse_args(ctx, args)
