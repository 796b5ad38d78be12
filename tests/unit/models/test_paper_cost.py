"""Table 2's training costs, by the paper's arithmetic and by counting."""

import pytest

from dragoman.models import cost
from dragoman.models.cost import TABLE_2
from dragoman.models.presets import preset


@pytest.mark.parametrize(("name", "printed"), [("paper-base", 3.3e18), ("paper-big", 2.3e19)])
def test_seconds_times_gpus_times_speed_is_what_table_2_prints(name: str, printed: float) -> None:
    assert TABLE_2[name].printed_flops == printed
    assert f"{TABLE_2[name].spent:.1e}" == f"{printed:.1e}"


@pytest.mark.parametrize(("name", "num_steps"), [("paper-base", 100_000), ("paper-big", 300_000)])
def test_the_count_is_all_steps_on_25_000_tokens_of_either_side(name: str, num_steps: int) -> None:
    config = preset(name)
    run = TABLE_2[name]
    assert run.computed(config) == num_steps * cost.training_flops(config, 25_000)
    assert run.utilisation(config) == run.computed(config) / run.spent


@pytest.mark.parametrize("name", TABLE_2)
def test_the_count_is_close_to_six_flops_for_each_parameter_and_token(name: str) -> None:
    """The rule of thumb: 2 FLOPs forward and 4 backward for each weight a token meets. Here a source token meets the
    encoder's and the cross-attention's K and V, a target token the rest, which together is every weight once; attention
    among positions comes on top.
    """
    config = preset(name)
    rule = 6 * cost.parameters(config) * 25_000 * TABLE_2[name].steps
    assert 1.0 < TABLE_2[name].computed(config) / rule < 1.01
