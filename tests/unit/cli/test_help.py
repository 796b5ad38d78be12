"""The help of every command: an example, words of users instead of Python types, and one convention for options."""

import re
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from dragoman.cli.main import app

ROOT = "dragoman"


def flatten(commands: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return all commands by name, such as `train` or `lab run`."""
    named = {f"{before}{name}": command for name, command in commands.items()}
    inner = [flatten(command.commands, f"{name} ") for name, command in named.items() if hasattr(command, "commands")]
    return {name: command for group in (named, *inner) for name, command in group.items()}


COMMANDS = flatten(typer.main.get_group(app).commands)

READ = {"--source", "--target", "--pairs", "--reference", "--input", "--gold", "--texts", "--trace", "--keys"}
READ |= {
    "--held-out-source",
    "--held-out-target",
    "--held-out-pairs",
    "--glossary",
    "--keep-source",
    "--dev",
    "--config",
}
WRITTEN = {"--output", "--json", "--html", "--csv", "--moses", "--save", "--grid"}
"""A second file of a command is named by its format or content."""


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, prog_name=ROOT, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    return done.output


def options(command: str) -> list[Any]:
    return [param for param in COMMANDS[command].params if param.param_type_name == "option"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    assert re.search(
        rf"^ {{2,}}dragoman {command}\b", shown(*command.split(), "--help").partition("Options")[0], re.MULTILINE
    )


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_help_shows_a_python_type_or_a_parameter_name(command: str) -> None:
    text = shown(*command.split(), "--help")
    assert re.findall(r"<[\w\[\]|.]+( range)?>|\bNone\b|\[bool\]|\bPath\b|<class", text) == []
    assert re.findall(r"[{\[][a-z_]+[}\]]", text.splitlines()[1]) == []


def test_the_first_help_shows_commands_to_try() -> None:
    assert len(re.findall(r"^ {2,}dragoman \w+ ", shown("--help"), re.MULTILINE)) >= 2


@pytest.mark.parametrize("command", COMMANDS)
def test_options_follow_one_convention(command: str) -> None:
    for option in options(command):
        name, metavar = option.opts[0], option.metavar
        assert (metavar == "DIR") == (name == "--out"), name
        assert (metavar in ("FILE", "NAME=FILE")) == (name in READ | WRITTEN) or metavar == "TEXT", name
        assert (metavar == "MODEL") == (name in ("--model", "--reverse", "--rerank", "--from")), name
        assert metavar or option.is_flag, name


@pytest.mark.parametrize("command", COMMANDS)
def test_dash_o_is_the_output(command: str) -> None:
    names = {option.opts[0]: option.opts for option in options(command)}
    output = "--output" if "--output" in names else "--out" if "--out" in names else None
    assert [name for name, all_names in names.items() if "-o" in all_names] == ([output] if output else [])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_a_model_takes_demo(command: str) -> None:
    models = [param for param in COMMANDS[command].params if param.metavar == "MODEL"]
    assert all("demo" in param.help for param in models if param.name not in ("reverse", "rerank"))


def test_dash_h_and_the_command_help_show_the_help() -> None:
    assert shown("-h") == shown("--help") == shown("help")
    assert shown("lab", "run", "-h") == shown("lab", "run", "--help")
    assert shown("train", "-h") == shown("train", "--help") == shown("help", "train")
    assert "example" in shown("help", "example")
