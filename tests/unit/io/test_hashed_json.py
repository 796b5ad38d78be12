"""A JSON file that answers for itself."""

from pathlib import Path

import pytest

from dragoman.io import hashed_json
from dragoman.io.durable import DamageError


def test_what_is_rendered_comes_back(tmp_path: Path) -> None:
    body = {"b": [1, 2.5, None], "a": {"ü": "größe\n"}}
    (tmp_path / "m.json").write_bytes(hashed_json.render(body))
    assert hashed_json.read(tmp_path / "m.json") == body


def test_the_same_body_has_the_same_bytes_whatever_its_order() -> None:
    assert hashed_json.render({"a": 1, "b": 2}) == hashed_json.render({"b": 2, "a": 1})


def test_a_number_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        hashed_json.render({"a": float("nan")})


def test_another_spelling_of_the_same_body_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(hashed_json.render({"a": 1}).replace(b'"a":1', b'"a": 1'))
    with pytest.raises(DamageError, match=r"m\.json: the content of the manifest has changed.*; copy it again$"):
        hashed_json.read(tmp_path / "m.json", "copy it again")


def test_a_file_too_large_for_a_manifest_is_not_read(tmp_path: Path) -> None:
    content = hashed_json.render({"a": "x" * 100})
    (tmp_path / "m.json").write_bytes(content)
    assert hashed_json.read(tmp_path / "m.json", largest=len(content))["a"] == "x" * 100
    with pytest.raises(DamageError, match="too many for a manifest"):
        hashed_json.read(tmp_path / "m.json", largest=len(content) - 1)


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("[" * 100_000)
    with pytest.raises(DamageError, match="not a valid manifest"):
        hashed_json.read(tmp_path / "m.json")
