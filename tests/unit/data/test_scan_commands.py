import pytest

from dragoman.data.scan_commands import read_scan


def test_commands_and_actions_are_split() -> None:
    lines = ["IN: jump twice OUT: I_JUMP I_JUMP", "IN: turn left OUT: I_TURN_LEFT\n"]
    assert read_scan(lines) == [("jump twice", "I_JUMP I_JUMP"), ("turn left", "I_TURN_LEFT")]


def test_another_line_is_refused_with_its_number() -> None:
    with pytest.raises(ValueError, match="line 2 is not"):
        read_scan(["IN: jump OUT: I_JUMP", "jump\tI_JUMP"])
