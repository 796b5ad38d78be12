"""What is wrong with a recipe, in plain words: where it stands, which key it is, and the mend."""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from dragoman.config import Config
from dragoman.experiment.outline import Outline, listed
from dragoman.experiment.schema import published
from dragoman.experiment.yaml_lines import Document, Key, dotted

Kind = TypeVar("Kind", bound=Config)


class Mistake(NamedTuple):
    """One thing to mend."""

    key: Key
    message: str


class MistakesError(ValueError):
    """All that is wrong with values that were not read from a file: there is no place to point at."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        super().__init__("\n".join(f"{dotted(key)}: {message}" for key, message in found))
        self.found = tuple(found)


def validated(kind: type[Kind], document: Document) -> Kind:
    """The values as a config of this kind. All mistakes are said at once, in the order of the file."""
    try:
        return _read(kind, document.values)
    except ValidationError as error:
        found = _found(error.errors(), Outline(published(kind)), document.values)
    raise refusal(document, found)


def check_keys(kind: type[Kind], document: Document) -> None:
    """Raise what is wrong with single keys: unknown ones, and values that never fit. What does not go together is
    not looked at, as some of the values are only examples.
    """
    try:
        _read(kind, document.values)
    except ValidationError as error:
        alone = [problem for problem in error.errors() if not _is_of_section(problem, document.values)]
        if found := _found(alone, Outline(published(kind)), document.values):
            raise refusal(document, found) from error


def _read(kind: type[Kind], values: Any) -> Kind:
    # As JSON, where nothing is stretched to fit: neither "128" nor 128.0 is a number of heads.
    return kind.model_validate_json(json.dumps(values), strict=True)


def _is_of_section(problem: Any, values: Any) -> bool:
    """Whether it is about how the keys of a section go together."""
    return problem["type"] == "value_error" and isinstance(_value(_key(problem, values), values), dict)


def refusal(document: Document, found: Sequence[Mistake]) -> ValueError:
    """One line for each mistake."""
    order = {key: number for number, key in enumerate(_keys(document.values, ()))}
    ranked = sorted(found, key=lambda mistake: next(order[k] for k in _upward(mistake.key) if k in order))
    return ValueError("\n".join(_line(document.place(key), key, message) for key, message in ranked))


def nearest(name: str, names: Sequence[str], cutoff: float = 0.5) -> list[str]:
    """The names most like this one; several where it could be any of them."""
    plain = name.lower().replace("-", "_")
    ratios = {other: SequenceMatcher(None, plain, other.replace("-", "_")).ratio() for other in names}
    best = max(ratios.values(), default=0.0)
    return [other for other, ratio in ratios.items() if ratio >= max(best - 0.02, cutoff)]


def _keys(values: Any, key: Key) -> Iterator[Key]:
    """Every key of the values, in the order they stand in."""
    yield key
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for part, value in inner:
        yield from _keys(value, (*key, part))


def _upward(key: Key) -> Iterator[Key]:
    """The key, and each section it stands in."""
    return (key[:length] for length in range(len(key), -1, -1))


def _line(place: str, key: Key, message: str) -> str:
    if not key or place.startswith(f"--set {dotted(key)}="):
        return f"{place}: {message}"
    return f"{place}: {dotted(key)}: {message}"


def _found(problems: Sequence[Any], outline: Outline, values: Any) -> list[Mistake]:
    mistakes: dict[Key, str] = {}
    forgiven: set[Key] = set()
    for problem in problems:
        for key, message in _of_problem(problem, outline, values):
            mistakes.setdefault(key, message)
        if problem["type"] == "extra_forbidden":  # a key is not missing where it is misspelled
            *section, name = _key(problem, values)
            forgiven.update((*section, near) for near in nearest(str(name), outline.names(tuple(section), values)))
    missing = {_key(problem, values) for problem in problems if problem["type"] == "missing"}
    return [Mistake(key, message) for key, message in mistakes.items() if key not in missing & forgiven]


def _of_problem(problem: Any, outline: Outline, values: Any) -> Iterator[Mistake]:
    key = _key(problem, values)
    ours = problem.get("ctx", {}).get("error")
    alternatives = outline.at(key, values)
    if isinstance(ours, MistakesError):
        yield from ours.found
    elif problem["type"] == "too_short" and _value(key, values):
        return  # pydantic does not count the entries that are wrong themselves, which are told anyway
    elif problem["type"] == "missing":
        yield Mistake(key, f"missing: {outline.meaning(key, values)}")
    elif problem["type"] == "extra_forbidden" or problem["loc"][-1] == "[key]":
        yield Mistake(key, _unknown(key, outline, values))
    elif problem["type"] == "union_tag_invalid":
        family = (*key, problem["ctx"]["discriminator"].strip("'"))
        yield Mistake(family, f"{outline.expected(outline.at(family, None))}, found {_shown(_value(family, values))}")
    elif ours and len([each for each in alternatives if each.get("type") != "null"]) == 1:
        yield Mistake(key, str(ours))
    else:
        value = _value(key, values)
        yield Mistake(key, f"{outline.expected(alternatives)}, found {_shown(value)}{_hint(value, alternatives)}")


def _key(problem: Any, values: Any) -> Key:
    """The key of a problem, without the names that pydantic gives to the members of a union."""
    key: list[str | int] = []
    for part in problem["loc"]:
        inside = isinstance(values, dict) and part in values
        entry = isinstance(values, list) and isinstance(part, int) and part < len(values)
        if inside or entry:
            key.append(part)
            values = values[part]
    return (*key, problem["loc"][-1]) if problem["type"] == "missing" else tuple(key)


def _value(key: Key, values: Any) -> Any:
    for part in key:
        values = values[part]
    return values


def _unknown(key: Key, outline: Outline, values: Any) -> str:
    """What the key may have been meant to be: a key of another section, or one spelled like it."""
    *section, name = key
    names = outline.names(tuple(section), values)
    if owners := outline.owners(str(name)):
        return f"unknown key; {name} belongs to {listed(owners)}"
    if near := nearest(str(name), names):
        return f"unknown key; did you mean {listed(near)}?"
    far = [
        f"{owner}.{other}" for other in nearest(str(name), outline.all_names(), 0.8) for owner in outline.owners(other)
    ]
    if far:
        return f"unknown key; did you mean {listed(far)}?"
    return f"unknown key; here may stand {listed(names)}"


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "a section"
        case list():
            return "a list"
        case None:
            return "nothing"
        case str():
            return f'"{value}"'
        case _:
            return json.dumps(value)


def _hint(value: Any, alternatives: Sequence[Any]) -> str:
    kinds = {each.get("type") for each in alternatives}
    if "string" in kinds and isinstance(value, int | float) and not any("examples" in each for each in alternatives):
        return "; put it in quotes"
    if kinds & {"integer", "number"} and isinstance(value, str) and value.replace(".", "", 1).isdigit():
        return "; leave out the quotes"
    return ""
