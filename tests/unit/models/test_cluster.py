"""Planning on a cluster: exchange and time by arithmetic. bench/worlds.py compares memory with a simulated FSDP2."""

import pytest

from dragoman.models import cost
from dragoman.models.cluster import (
    DEVICES,
    DeviceFigures,
    PlannedCluster,
    device_memory,
    exchange_bytes,
    network_bytes,
    parse_devices,
    sharded_parameters,
    update_time,
)
from dragoman.models.presets import preset

BASE = preset("paper-base")
DEVICE = DeviceFigures(memory=10.0, bandwidth=100.0, float32=2.0, half=8.0, link=50.0, source="made up")


def test_ddp_sends_every_gradient_twice_but_for_its_own_part() -> None:
    assert exchange_bytes(BASE, 8, "ddp") == pytest.approx(2 * 7 / 8 * 4 * cost.parameters(BASE))
    assert exchange_bytes(BASE, 1, "ddp") == exchange_bytes(BASE, 1, "fsdp") == 0


def test_fsdp_gathers_encoder_layers_and_feed_forward_layers_twice_and_the_rest_once() -> None:
    d, d_ff, layers = 512, 2048, 6
    feed_forward, norm = 2 * d * d_ff + d + d_ff, 2 * d
    assert sharded_parameters(BASE) == layers * (4 * d * d + 2 * norm + 2 * feed_forward)
    passes = 2 * cost.parameters(BASE) + sharded_parameters(BASE)
    assert exchange_bytes(BASE, 64, "fsdp") == pytest.approx(63 / 64 * 4 * passes)
    assert exchange_bytes(preset("bahdanau"), 2, "fsdp") == pytest.approx(4 * cost.parameters(preset("bahdanau")))


def test_the_shard_of_a_device_shrinks_with_their_number_and_its_activations_do_not() -> None:
    few, many = (device_memory(BASE, 900, number, "float32") for number in (4, 40))
    assert few.states == pytest.approx(10 * many.states, rel=1e-6)
    assert few.activations == many.activations
    copies = device_memory(BASE, 900, 1, "float32")
    assert copies.states == 12 * cost.parameters(BASE)
    assert copies.peak > many.peak


def test_half_precision_halves_activations_but_for_the_logits_and_copies_the_weights() -> None:
    full, half = (device_memory(BASE, 1200, 1, arithmetic) for arithmetic in ("float32", "half"))
    logits = 3 * 4 * 1200 * BASE.target_vocabulary
    assert half.activations - logits == pytest.approx((full.activations - logits) / 2, rel=1e-6)
    assert (full.gathered, half.gathered) == (0, 2 * cost.parameters(BASE))


def test_the_time_of_an_update_follows_from_the_figures_of_the_device() -> None:
    cluster = PlannedCluster(DEVICE, per_node=3, nodes=2, network=7.0, utilisation=0.25, arithmetic="half")
    seconds = update_time(BASE, 600, cluster, "ddp")
    assert cluster.num_devices == 6
    assert seconds.computing == pytest.approx(cost.training_flops(BASE, 600) / 2e12)
    assert seconds.exchanging == pytest.approx(exchange_bytes(BASE, 6, "ddp") / 7e9)
    assert seconds.optimizer == pytest.approx(28 * cost.parameters(BASE) / 100e9)
    assert seconds.limit == "computing" if seconds.computing > seconds.exchanging else "exchanging"
    alone = update_time(BASE, 600, PlannedCluster(DEVICE, 3, arithmetic="float32"), "fsdp")
    assert alone.exchanging == pytest.approx(exchange_bytes(BASE, 3, "fsdp") / 50e9)
    assert alone.computing == pytest.approx(cost.training_flops(BASE, 600) / (0.3 * 2e12))
    assert alone.optimizer == pytest.approx(28 * cost.parameters(BASE) / 3 / 100e9)


def test_with_hsdp_a_node_shares_the_weights_and_sends_its_gradients_once_over_the_network() -> None:
    cluster = PlannedCluster(DEVICE, per_node=4, nodes=3, network=5.0)
    assert [cluster.num_sharing(how) for how in ("ddp", "hsdp", "fsdp")] == [1, 4, 12]
    gradients = 4 * cost.parameters(BASE)
    between = network_bytes(BASE, 4, 3)
    assert 4 * between == pytest.approx(2 * 2 / 3 * gradients)  # all devices of a node: as one device with DDP
    inside = exchange_bytes(BASE, 4, "fsdp")
    assert exchange_bytes(BASE, 12, "hsdp", 3) == pytest.approx(inside + between)
    assert exchange_bytes(BASE, 4, "hsdp") == inside
    seconds = update_time(BASE, 600, cluster, "hsdp")
    assert seconds.exchanging == pytest.approx(inside / 50e9 + 4 * between / 5e9)
    assert seconds.optimizer == pytest.approx(28 * cost.parameters(BASE) / 4 / 100e9)


def test_every_device_names_its_datasheet() -> None:
    assert {"P100", "V100", "T4", "A100", "H100", "L4", "RTX4090"} <= set(DEVICES)
    for device in DEVICES.values():
        assert "datasheet" in device.source or "whitepaper" in device.source
        assert device.half > device.float32 > 1


@pytest.mark.parametrize(
    ("text", "expected"), [("8xA100", (8, "A100")), ("h100", (1, "H100")), ("16 x T4", (16, "T4"))]
)
def test_devices_are_written_as_a_number_and_a_name(text: str, expected: tuple[int, str]) -> None:
    assert parse_devices(text) == (*expected, DEVICES[expected[1]])


@pytest.mark.parametrize(
    ("text", "fix"),
    [("8xA101", "did you mean A10 or A100"), ("0xA100", "as in 8xA100"), ("x", "choose P100"), ("8", "8xA100")],
)
def test_unknown_devices_are_answered_with_what_to_give(text: str, fix: str) -> None:
    with pytest.raises(ValueError, match=fix):
        parse_devices(text)
