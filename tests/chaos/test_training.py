"""The short forms of what is done to trainings: killed, asked to end, their checkpoints damaged."""

import pytest
from script_runner import run


@pytest.mark.slow
def test_killed_and_started_again_a_training_ends_with_bitwise_the_same_state() -> None:
    code, values = run("training_kills.py", "--kills", "5", "--updates", "100", "--seed", "3")
    assert values == {"kills": 5, "inside_a_save": values["inside_a_save"], "equal": 1}
    assert values["inside_a_save"] >= 1
    assert code == 0


@pytest.mark.slow
def test_a_checkpoint_without_adams_memory_would_be_found_out() -> None:
    code, values = run("training_kills.py", "--kills", "2", "--updates", "60", "--forget")
    assert (values["equal"], code) == (0, 1)


@pytest.mark.slow
def test_asked_to_end_it_saves_and_loses_nothing() -> None:
    _, values = run("training_terms.py", "--times", "4", "--updates", "200")
    assert values["asked"] == values["nothing_lost"] == values["exit_143"] == 4
    assert values["equal"] == 1  # how long it takes is for the long form, on a machine at rest


@pytest.mark.slow
def test_every_damage_to_a_checkpoint_is_noticed_and_torch_alone_would_notice_little() -> None:
    code, values = run("checkpoint_damage.py", "--flips", "24", "--cuts", "6")
    assert values["noticed"] == values["harms"] == 24 + 6 + 9
    assert values["flips_noticed_by_torch_alone"] < 24 // 5  # of so many: only those in torch's own headers
    assert code == 0


@pytest.mark.slow
def test_lost_processes_are_started_again_and_a_lost_launcher_leaves_none_behind() -> None:
    code, values = run("worker_kills.py", "--workers", "2", "--launchers", "1", "--updates", "60", "--seed", "5")
    assert (values["kills"], values["resumed"], values["outlived"], values["equal"], code) == (3, 3, 0, 1, 0)


@pytest.mark.slow
def test_ctrl_c_loses_nothing_and_the_same_command_ends_with_bitwise_the_same_weights() -> None:
    code, values = run("interrupts.py", "--updates", "150", "--times", "2", "--seed", "2")
    assert (values["interrupts"], values["exit_130"], values["equal"], code) == (2, 2, 1, 0)
