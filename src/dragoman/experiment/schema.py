"""The JSON schema of a config as people write it: what an editor completes by, and what mistakes are explained with."""

from typing import Any

from dragoman.config import Config
from dragoman.models.presets import PRESETS


def published(kind: type[Config]) -> dict[str, Any]:
    """The schema of this config, with what a file may abbreviate: a model may be a preset and leave out its family."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **kind.model_json_schema()}
    for field in schema["properties"].values():
        if "discriminator" in field:
            del field["discriminator"]
            field["anyOf"] = field.pop("oneOf")
    for name, section in schema["$defs"].items():
        if "family" in section.get("properties", {}):
            schema["$defs"][name] = {**section, "properties": {"preset": _preset(section), **section["properties"]}}
    return schema


def _preset(section: dict[str, Any]) -> dict[str, Any]:
    family = section["properties"]["family"]["const"]
    names = [name for name, preset in PRESETS.items() if preset.family == family]
    return {"enum": names, "description": "a model by name; the other keys change it"}
