"""A config as YAML that explains itself: every key in full, below what it means."""

import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import yaml

from dragoman.config import Config
from dragoman.experiment.yaml_lines import PlainDumper

_WIDTH: Final = 100


def commented(config: Config) -> str:
    """The whole config, defaults included."""
    return "\n".join(_section(config, "")) + "\n"


def _section(config: Config, indent: str) -> Iterator[str]:
    written = config.model_dump(mode="json")
    for name, field in type(config).model_fields.items():
        if field.description:
            yield from textwrap.wrap(
                field.description, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
            )
        yield from _entry(f"{indent}{name}:", getattr(config, name), written[name], indent)


def _entry(label: str, value: Any, written: Any, indent: str) -> Iterator[str]:
    """A key and what it holds. `written` is the value as JSON would have it: a time with its unit."""
    if isinstance(value, Config):
        yield label
        yield from _section(value, f"{indent}  ")
    elif isinstance(value, tuple) and any(isinstance(entry, Config) for entry in value):
        yield label
        for entry in value:
            yield from _item(entry, indent)
    elif isinstance(value, dict) and value:
        yield label
        for name, entry in value.items():
            key = name.value if isinstance(name, Enum) else name
            yield from _entry(f"{indent}  {_scalar(key)}:", entry, written[key], f"{indent}  ")
    else:
        yield f"{label} {_scalar(written)}"


def _item(entry: Config, indent: str) -> Iterator[str]:
    """An entry of a list: its own keys, the first line behind a dash."""
    lines = list(_section(entry, f"{indent}    "))
    yield f"{indent}  -"
    yield from lines


def _scalar(value: Any) -> str:
    """One line, or a list on one line, that reads back as the same value."""
    if isinstance(value, float):
        return repr(value)
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    text = yaml.dump(
        value, Dumper=PlainDumper, default_flow_style=True, default_style=style, width=float("inf"), allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")
