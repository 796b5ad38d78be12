"""A JSON schema as an outline: which keys a section has, what each means, and what is expected of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.experiment.yaml_lines import Key, dotted

Schema = dict[str, Any]


class Outline:
    """Answers questions about a schema, key by key. Of several families, the one that the values choose is meant."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def at(self, key: Key, values: Any) -> list[Schema]:
        """What may stand at this key: one schema, or several alternatives."""
        schemas = self.alternatives(self._schema, values)
        for part in key:
            values = values[part] if _has(values, part) else None
            schemas = [each for schema in schemas for each in self.alternatives(_inside(schema, part), values)]
        return schemas

    def names(self, key: Key, values: Any) -> list[str]:
        """The keys of the section at this key."""
        return list(dict.fromkeys(name for schema in self.at(key, values) for name in self._names(schema)))

    def meaning(self, key: Key, values: Any) -> str:
        """What the schema says of a key."""
        *section, name = key
        fields = [schema.get("properties", {}).get(name, {}) for schema in self.at(tuple(section), values)]
        return next((field["description"] for field in fields if "description" in field), "")

    def all_names(self) -> list[str]:
        """Every key of every section."""
        return list(dict.fromkeys(name for _, name in self._walk(self._schema, ())))

    def owners(self, name: str) -> list[str]:
        """The sections that have a key of this name."""
        return list(dict.fromkeys(owner for owner, other in self._walk(self._schema, ()) if other == name))

    def expected(self, alternatives: Sequence[Schema]) -> str:
        """What should have stood there, in words."""
        ranked = sorted(alternatives, key=lambda schema: schema.get("type") == "null")
        return f"expected {listed(list(dict.fromkeys(word for schema in ranked for word in _words(schema))))}"

    def alternatives(self, schema: Schema, values: Any) -> list[Schema]:
        """A schema followed to where it says something: one, or several to choose from."""
        if "$ref" in schema:
            return self.alternatives(self._schema["$defs"][schema["$ref"].rpartition("/")[2]], values)
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            found = [each for choice in choices for each in self.alternatives(choice, values)]
            return [each for each in found if _chosen(each, values)] or found
        return [schema] if schema else []

    def _names(self, schema: Schema) -> list[str]:
        keys = [name for choice in self.alternatives(schema.get("propertyNames", {}), None) for name in choice["enum"]]
        return [*schema.get("properties", {}), *keys]

    def _walk(self, schema: Schema, key: Key) -> Iterator[tuple[str, str]]:
        """Every section with each of its keys."""
        sections = self.alternatives(schema, None)
        for section in sections:
            for name, field in section.get("properties", {}).items():
                yield _owner(key, name, sections, section), name
                yield from self._walk(field, (*key, name))
            if "items" in section:
                yield from self._walk(section["items"], (*key, 0))
            if isinstance(section.get("additionalProperties"), dict):
                yield from self._walk(section["additionalProperties"], (*key, "NAME"))


def listed(words: Sequence[str]) -> str:
    """As in: a, b or c."""
    if len(words) < 2:
        return "".join(words)
    last = ", or " if any(" " in word for word in words) else " or "
    return f"{', '.join(words[:-1])}{last}{words[-1]}"


def _has(values: Any, part: str | int) -> bool:
    return part in values if isinstance(values, dict) else isinstance(values, list) and isinstance(part, int)


def _inside(schema: Schema, part: str | int) -> Schema:
    """What stands at one step further: in a list, a section, or a section whose keys are anyone's."""
    if isinstance(part, int):
        inside = schema.get("items", {})
    else:
        inside = schema.get("properties", {}).get(part) or schema.get("additionalProperties") or {}
    return inside if isinstance(inside, dict) else {}


def _chosen(schema: Schema, values: Any) -> bool:
    family = schema.get("properties", {}).get("family", {}).get("const")
    return not isinstance(values, dict) or family in (None, values.get("family"))


def _owner(key: Key, name: str, sections: Sequence[Schema], section: Schema) -> str:
    """The section by its key, and by its family if others of that key do not have the name."""
    shared = all(name in other["properties"] for other in sections if "properties" in other)
    family = "" if shared else f" of family {section['properties']['family']['const']}"
    return f"{dotted(key)}{family}" if key else "the recipe itself"


def _words(schema: Schema) -> list[str]:
    """What one alternative takes."""
    if "const" in schema or "enum" in schema:
        return [str(value) for value in schema.get("enum", [schema.get("const")])]
    match schema.get("type"):
        case "string" if "examples" in schema:
            return [f"a time such as {listed(schema['examples'])}"]
        case "string":
            return ["text that is not empty" if schema.get("minLength") else "text"]
        case "integer":
            return [f"a whole number{_bounds(schema)}"]
        case "number":
            return [f"a number{_bounds(schema)}"]
        case "boolean":
            return ["true", "false"]
        case "array":
            return [f"a list of {schema['minItems']} or more" if "minItems" in schema else "a list"]
        case "object":
            return ["a section of keys"]
        case other:
            return [str(other)]


def _bounds(schema: Schema) -> str:
    """As in: of 1 or more; above 0 and below 1."""
    bounds = [
        f" of {schema['minimum']:g} or more" if "minimum" in schema else "",
        f" above {schema['exclusiveMinimum']:g}" if "exclusiveMinimum" in schema else "",
        f" of at most {schema['maximum']:g}" if "maximum" in schema else "",
        f" below {schema['exclusiveMaximum']:g}" if "exclusiveMaximum" in schema else "",
    ]
    return " and".join(bound for bound in bounds if bound)
