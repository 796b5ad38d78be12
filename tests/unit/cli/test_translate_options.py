"""The guide's table names every option of `dragoman translate`, and no other."""

import re
from pathlib import Path

import typer.main

from dragoman.cli.main import app

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "translate.md"


def test_the_guide_names_every_option() -> None:
    command = typer.main.get_group(app).commands["translate"]
    shown = [option for option in command.params if not option.hidden]
    names = [name for option in shown for name in (*option.opts, *option.secondary_opts)]
    real = {name for name in names if name.startswith("--")} - {"--help"}
    table = GUIDE.read_text(encoding="utf-8").partition("## Options")[2].partition("\n## ")[0]
    first = [row.split("|")[1] for row in re.sub(r"\\\|", "/", table).splitlines() if row.startswith("| `--")]
    assert {name for cell in first for name in re.findall(r"--[a-z-]+", cell)} == real


def test_every_option_stands_in_a_panel_with_those_of_its_kind() -> None:
    command = typer.main.get_group(app).commands["translate"]
    alone = {option.opts[0] for option in command.params if getattr(option, "rich_help_panel", None) is None}
    assert alone == {"model", "text", "--to", "--quiet", "--verbose"}
