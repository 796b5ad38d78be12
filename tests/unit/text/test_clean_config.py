import numpy as np
import pytest
from pydantic import ValidationError

from dragoman.text.cleaning import CleanConfig, Problem


def test_every_problem_has_a_meaning_a_policy_and_a_bit_of_its_own() -> None:
    assert all(problem.meaning and problem.usual not in problem.others for problem in Problem)
    assert np.bitwise_or.reduce([problem.bit for problem in Problem]) == 2 ** len(Problem) - 1


def test_the_policies_share_all_problems_among_them() -> None:
    settings = CleanConfig(policies={Problem.BIDI: "drop", Problem.IDENTICAL: "keep"})
    drop, fix, keep = (int(settings.bits(policy)) for policy in ("drop", "fix", "keep"))
    assert drop | fix | keep == 2 ** len(Problem) - 1
    assert drop & fix == drop & keep == fix & keep == 0
    assert drop & int(Problem.BIDI.bit)
    assert keep & int(Problem.IDENTICAL.bit)


def test_problems_are_named_in_recipes_as_in_reports() -> None:
    assert CleanConfig.model_validate({"policies": {"zero-width": "keep"}}).policy(Problem.ZERO_WIDTH) == "keep"
    with pytest.raises(ValidationError, match="zero-with"):
        CleanConfig.model_validate({"policies": {"zero-with": "keep"}})


@pytest.mark.parametrize("problem", [Problem.INVALID_UTF8, Problem.TOO_LONG, Problem.BOTH_EMPTY, Problem.EMPTY_SIDE])
def test_what_cannot_be_text_cannot_be_kept(problem: Problem) -> None:
    with pytest.raises(ValidationError, match=f"keep is not supported for {problem}: give drop"):
        CleanConfig(policies={problem: "keep"})


def test_a_stub_is_too_long_whatever_the_setting() -> None:
    with pytest.raises(ValidationError, match="max_characters"):
        CleanConfig(max_characters=(1 << 18) + 1)
