"""Limits: each says what it is for, none can be switched off by a nought, and slow clients are gone within 10 s."""

import pytest
from pydantic import ValidationError

from dragoman.serving.config import Limits


def test_every_limit_says_what_it_is_for() -> None:
    assert len(Limits.model_fields) >= 13
    assert [name for name, field in Limits.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("name", sorted(set(Limits.model_fields) - {"drain_seconds", "merge_ms"}))
@pytest.mark.parametrize("value", [0, -1, "many", float("nan")])
def test_no_limit_is_nothing_or_less_or_a_word(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate({name: value})


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Limits.model_validate({"charcters": 5})


def test_by_default_a_client_that_sends_nothing_or_slowly_is_cut_off_within_ten_seconds() -> None:
    limits = Limits()
    assert limits.header_seconds <= 10
    assert limits.body_seconds <= 10
    assert limits.wait < limits.seconds < limits.engine_seconds
