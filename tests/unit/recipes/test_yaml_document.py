import re
from pathlib import Path

import pytest
import yaml

from dragoman.recipes.yaml_document import PlainDumper, parse_yaml, read_yaml


def values(text: str) -> object:
    return parse_yaml(text, "r.yaml").values


def test_values_remember_their_lines() -> None:
    document = parse_yaml("a: 1\nb:\n  - x\n  - c: 2\n\n    d: 3\n", "r.yaml")
    assert document.values == {"a": 1, "b": ["x", {"c": 2, "d": 3}]}
    assert document.places == {
        (): "r.yaml",
        ("a",): "r.yaml:1",
        ("b",): "r.yaml:2",
        ("b", 0): "r.yaml:3",
        ("b", 1): "r.yaml:4",
        ("b", 1, "c"): "r.yaml:4",
        ("b", 1, "d"): "r.yaml:6",
    }
    assert document.place(("b", 1, "e", 7)) == "r.yaml:4"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4),
        ("1e5", 100_000),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("-2", -2),
        ("100_000", 100_000),
        ("010", 10),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        # What YAML 1.1 would take for a boolean, a time of day, a date, an octal or a special float.
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("2024-01-31", "2024-01-31"),
        ("0x10", "0x10"),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("10m", "10m"),
        ('"12"', "12"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ("!!float 12", 12),
        ("${DATA}/a.en", "${DATA}/a.en"),
        ("1e", "1e"),
        (".", "."),
        ("<<", "<<"),
    ],
)
def test_a_plain_value_is_what_it_looks_like(text: str, value: object) -> None:
    read = parse_yaml(f"a: {text}\n", "r.yaml").values["a"]
    assert (read, type(read)) == (value, type(value))


def test_anchors_aliases_and_merges_keep_the_lines_where_things_were_written() -> None:
    document = parse_yaml("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: *a\nd:\n  <<: [{z: 4}, *a]\n", "r.yaml")
    assert document.values == {
        "a": {"x": 1, "y": 2},
        "b": {"y": 3, "x": 1},
        "c": {"x": 1, "y": 2},
        "d": {"z": 4, "x": 1, "y": 2},
    }
    assert document.place(("b", "x")) == "r.yaml:1"
    assert document.place(("b", "y")) == "r.yaml:4"
    document.values["c"]["x"] = 5
    assert document.values["a"]["x"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n\tb: 2\n", "r.yaml:2: ...tab"),
        ("a: b: c\n", "r.yaml:1: ...quotes"),
        ("a: 1\nb\nc: 2\n", "r.yaml:3: ...colon after the key"),
        ("a: *x\n", "r.yaml:1: ...(&name)"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2: ...---"),
        ("a:\n  b: 1\n  b: 2\n", "r.yaml:3: a.b: ... r.yaml:2: remove one"),
        ("a: !!python/object/apply:os.getcwd []\n", "r.yaml:1: a: ...!!python/object/apply:os.getcwd"),
        ("a: !mine {b: 1}\n", "r.yaml:1: a: ...!mine"),
        ("a: !!bool maybe\n", "r.yaml:1: a: ...!!bool"),
        ("a: !!int three\n", "r.yaml:1: a: ...'three'"),
        ("a: 1e999\n", "r.yaml:1: a: 1e999 ..."),
        ("? [a]\n: 1\n", "r.yaml:1: ..."),
        ("a:\n  <<: 3\n", "r.yaml:2: ..."),
        ('a: "\\ud800"\n', "r.yaml:1: a: ..."),
        ("a: 1\nb: \x00\n", "r.yaml:2: ...U+0000..."),
        ("a: &a [*a]\n", "r.yaml:1: ..."),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_its_line(text: str, message: str) -> None:
    begin, _, end = message.partition("...")
    with pytest.raises(ValueError, match=f"^{re.escape(begin)}.*{re.escape(end.removesuffix('...'))}"):
        values(text)


def test_all_duplicate_keys_and_tags_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match=r"r.yaml:2: a: .*\nr.yaml:4: b: .*\nr.yaml:4?3?: b: "):
        values("a: 1\na: 2\nb: !x 1\nb: 4\n")


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ValueError, match="alias"):
        values("\n".join(lines))


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes("a: ü\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"r\.yaml: .*UTF-8.*byte 3"):
        read_yaml(path)


def test_a_byte_order_mark_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(path).values == {"a": 1}


@pytest.mark.parametrize("text", ["no", "3e-4", "", "true", "1:30", "~", "<<", "a: b", "ü", "- x", "1_000"])
def test_text_is_written_so_that_it_is_read_as_text(text: str) -> None:
    assert values(yaml.dump({"a": text}, Dumper=PlainDumper)) == {"a": text}
