"""Error messages for recipes, with the location, the key and the nearest valid key."""

import json
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import ValidationError

from dragoman.config import Config
from dragoman.recipes.yaml_document import Document, Key, join_key, walk_keys

ConfigT = TypeVar("ConfigT", bound=Config)


class RecipeError(NamedTuple):
    """An error in a recipe: the key, and the message without file and line."""

    key: Key
    message: str


class ConflictError(ValueError):
    """Conflicts between keys of a recipe, raised by the validator, which does not know files and lines."""

    def __init__(self, errors: Sequence[RecipeError]) -> None:
        super().__init__("\n".join(f"{join_key(key)}: {message}" for key, message in errors))
        self.errors = tuple(errors)


def validate_document(kind: type[ConfigT], document: Document) -> ConfigT:
    """Return the document as a config of class `kind`; raise one ValueError with all errors, in document order."""
    try:
        return _parse(kind, document.values)
    except ValidationError as error:
        raise located_error(document, _explain(error.errors(), kind, document.values)) from error


def check_keys(kind: type[ConfigT], document: Document) -> None:
    """Raise ValueError for unknown keys and invalid values.

    Conflicts between the keys of a section are ignored, as some of the values are only placeholders.
    """
    try:
        _parse(kind, document.values)
    except ValidationError as error:
        problems = [problem for problem in error.errors() if not _is_of_section(problem, document.values)]
        if errors := _explain(problems, kind, document.values):
            raise located_error(document, errors) from error


def _parse(kind: type[ConfigT], values: Any) -> ConfigT:
    # As JSON, where nothing is converted to fit: neither "128" nor 128.0 is a number of heads.
    return kind.model_validate_json(json.dumps(values), strict=True)


def _is_of_section(problem: Any, values: Any) -> bool:
    return problem["type"] == "value_error" and isinstance(_value_at(_key(problem, values), values), dict)


def located_error(document: Document, errors: Sequence[RecipeError]) -> ValueError:
    """Return a ValueError with one line per error: location, key and message."""
    order = {key: number for number, key in enumerate(walk_keys(document.values))}

    def position(error: RecipeError) -> int:
        above = (error.key[:length] for length in range(len(error.key), -1, -1))
        return next(order[key] for key in above if key in order)

    lines = []
    for key, message in sorted(errors, key=position):
        place = document.place(key)
        is_in_place = not key or place.startswith(f"--set {join_key(key)}=")
        lines.append(f"{place}: {message}" if is_in_place else f"{place}: {join_key(key)}: {message}")
    return ValueError("\n".join(lines))


def nearest(name: str, names: Sequence[str], cutoff: float = 0.5) -> list[str]:
    """Return the names most similar to a name; several if they are about equally similar."""
    plain = name.lower().replace("-", "_")
    ratios = {other: SequenceMatcher(None, plain, other.replace("-", "_")).ratio() for other in names}
    best = max(ratios.values(), default=0.0)
    return [other for other, ratio in ratios.items() if ratio >= max(best - 0.02, cutoff)]


def list_words(words: Sequence[str], last: str = "or") -> str:
    """Join words with commas and a final conjunction, as in `a, b or c`."""
    return f" {last} ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def _explain(problems: Sequence[Any], kind: type[Config], values: Any) -> list[RecipeError]:
    messages: dict[Key, list[str]] = {}
    misspelled: set[Key] = set()
    for problem in problems:
        for key, message in _explain_problem(problem, kind, values):
            messages.setdefault(key, []).append(message)
        if problem["type"] == "extra_forbidden":  # a key is not missing where it is misspelled
            *section, name = _key(problem, values)
            near = nearest(str(name), list(_keys_at(kind, tuple(section), values)))
            misspelled.update((*section, other) for other in near)
    missing = {_key(problem, values) for problem in problems if problem["type"] == "missing"}
    kept = {key: found for key, found in messages.items() if key not in missing & misspelled}
    return [RecipeError(key, "; ".join(dict.fromkeys(found))) for key, found in kept.items()]


def _explain_problem(problem: Any, kind: type[Config], values: Any) -> Iterator[RecipeError]:
    key, context = _key(problem, values), problem.get("ctx", {})
    match problem["type"]:
        case "value_error" if isinstance(context["error"], ConflictError):
            yield from context["error"].errors
        case "value_error":
            yield RecipeError(key, str(context["error"]))
        case "too_short" if _value_at(key, values):
            return  # pydantic does not count the entries that are wrong themselves, which are reported anyway
        case "missing":
            yield RecipeError(key, f"missing: {_keys_at(kind, key[:-1], values)[str(key[-1])].description}")
        case "union_tag_invalid":
            key = (*key, context["discriminator"].strip("'"))
            yield RecipeError(key, f"should be {context['expected_tags']}, not {_show(_value_at(key, values))}")
        case "extra_forbidden":
            yield RecipeError(key, _explain_unknown(key, list(_keys_at(kind, key[:-1], values)), kind))
        case _ if problem["loc"][-1] == "[key]":
            yield RecipeError(key, _explain_unknown(key, re.findall(r"'([^']+)'", context["expected"]), kind))
        case _:
            value = _value_at(key, values)
            expected = problem["msg"].replace("Input should", "should").replace("an object", "a section of keys")
            yield RecipeError(key, f"{expected}, not {_show(value)}{_hint(problem['type'], value)}")


def _key(problem: Any, values: Any) -> Key:
    """Return the recipe key of a pydantic error, without the names that pydantic adds for union members."""
    key: list[str | int] = []
    for part in problem["loc"]:
        is_name = isinstance(values, dict) and part in values
        is_entry = isinstance(values, list) and isinstance(part, int) and part < len(values)
        if is_name or is_entry:
            key.append(part)
            values = values[part]
    return (*key, problem["loc"][-1]) if problem["type"] == "missing" else tuple(key)


def _value_at(key: Key, values: Any) -> Any:
    for part in key:
        values = values[part]
    return values


def _explain_unknown(key: Key, names: Sequence[str], kind: type[Config]) -> str:
    """Return the message for an unknown key: it names the right section, similar keys, or all valid keys."""
    name = str(key[-1])
    owners = _owners(kind)
    if name in owners:
        return f"unknown key; {name} belongs to {list_words(owners[name])}"
    if near := nearest(name, names):
        return f"unknown key; did you mean {list_words(near)}?"
    if far := [f"{owner}.{other}" for other in nearest(name, list(owners), 0.8) for owner in owners[other]]:
        return f"unknown key; did you mean {list_words(far)}?"
    return f"unknown key; the keys here are {list_words(names, 'and')}"


class RecipeKey(NamedTuple):
    """A valid key of a recipe: section, name, description and model family."""

    section: Key
    """The section of the key; a list index is given as 0, a name chosen by the user as NAME."""
    name: str
    description: str
    family: str | None
    """The model family that has the key; None outside the model section."""


def all_keys(kind: type[Config], section: Key = ()) -> Iterator[RecipeKey]:
    """Yield every key of a config and of its nested sections."""
    family = kind.model_fields["family"].default if "family" in kind.model_fields else None
    if family:
        yield RecipeKey(section, "preset", "name of a model preset", family)
    for name, field in kind.model_fields.items():
        yield RecipeKey(section, name, field.description or "", family)
        for inner, place in _sections_in(field.annotation, (*section, name)):
            yield from all_keys(inner, place)


def _sections_in(annotation: Any, key: Key) -> Iterator[tuple[type[Config], Key]]:
    """Yield each config class in the type annotation of a field, with the key of its section."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation, key
        return
    origin = get_origin(annotation)
    step: Key = (0,) if origin is tuple else ("NAME",) if origin is dict else ()
    for argument in get_args(annotation):
        yield from _sections_in(argument, (*key, *step))


def _keys_at(kind: type[Config], section: Key, values: Any) -> dict[str, RecipeKey]:
    """Return the valid keys of a section by name; in the model section, only keys of the chosen model family."""
    found = _value_at(section, values)
    family = found.get("family") if isinstance(found, dict) else None
    # An entry of a list stands at 0; where any name is allowed, NAME is as good as all of them.
    place = tuple(0 if isinstance(part, int) else part for part in section)
    keys = [key for key in all_keys(kind) if not family or key.family in (None, family)]
    return {key.name: key for key in keys if key.section in (place, (*place[:-1], "NAME"))}


def _owners(kind: type[Config]) -> dict[str, list[str]]:
    """Return the sections of each key name, with the model family if only one family has the key."""
    owners: dict[str, list[str]] = {}
    keys = list(all_keys(kind))
    sections = {key.section for key in keys}
    for key in keys:
        if key.section[-1:] == (0,) and key.section[:-1] in sections:
            continue  # a section that may also be a list
        is_shared = sum((other.name, other.section) == (key.name, key.section) for other in keys) > 1
        family = f" of family {key.family}" if key.family and not is_shared else ""
        owner = f"{join_key(key.section)}{family}" if key.section else "the top level"
        if owner not in owners.setdefault(key.name, []):
            owners[key.name].append(owner)
    return owners


def _show(value: Any) -> str:
    names = {dict: "a section", list: "a list", type(None): "nothing"}
    return names.get(type(value)) or json.dumps(value, ensure_ascii=False)


def _hint(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, int | float):
        return "; put the value in quotes"
    is_number = isinstance(value, str) and value.replace(".", "", 1).isdigit()
    return "; remove the quotes" if kind in ("int_type", "float_type") and is_number else ""
