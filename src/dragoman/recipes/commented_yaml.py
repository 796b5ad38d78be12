"""Write a config as YAML, with the description of each key as a comment."""

import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import yaml

from dragoman.config import Config
from dragoman.recipes.yaml_document import PlainDumper

_WIDTH: Final = 100


def dump_commented(config: Config) -> str:
    """Return the whole config as commented YAML, defaults included."""
    return "\n".join(_section(config, "")) + "\n"


def _section(config: Config, indent: str) -> Iterator[str]:
    written = config.model_dump(mode="json")
    for name, field in type(config).model_fields.items():
        if field.description:
            comment = f"{indent}# "
            yield from textwrap.wrap(field.description, _WIDTH, initial_indent=comment, subsequent_indent=comment)
        yield from _entry(f"{indent}{name}:", getattr(config, name), written[name], indent)


def _entry(label: str, value: Any, written: Any, indent: str) -> Iterator[str]:
    """Yield the YAML lines of a key; `written` is the value as in JSON, such as `45m` for a duration."""
    if isinstance(value, Config):
        yield label
        yield from _section(value, f"{indent}  ")
    elif isinstance(value, tuple) and any(isinstance(entry, Config) for entry in value):
        yield label
        for entry in value:
            yield f"{indent}  -"
            yield from _section(entry, f"{indent}    ")
    elif isinstance(value, dict) and value:
        yield label
        for name, entry in value.items():
            key = name.value if isinstance(name, Enum) else name
            yield from _entry(f"{indent}  {_scalar(key)}:", entry, written[key], f"{indent}  ")
    else:
        yield f"{label} {_scalar(written)}"


def _scalar(value: Any) -> str:
    """Return a value or a list as one line of YAML that parses to the same value."""
    if isinstance(value, float):
        return repr(value)
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    text = yaml.dump(
        value, Dumper=PlainDumper, default_flow_style=True, default_style=style, width=float("inf"), allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")
