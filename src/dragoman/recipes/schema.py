"""The JSON schema of recipe files, for key completion in editors."""

from typing import Any

from dragoman.config import Config
from dragoman.models.presets import PRESETS


def json_schema(kind: type[Config]) -> dict[str, Any]:
    """Return the JSON schema of a config as users write it: the model section may name a preset and omit the family."""
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
    return {"enum": names, "description": "name of a model preset; other keys override its values"}
