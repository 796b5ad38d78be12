"""`dragoman plan --devices`: the memory, exchange and time of a training on a cluster."""

from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from dragoman.cli.number_format import percent, scientific, short, size
from dragoman.cli.plan_tables import small_table

Record = dict[str, Any]


@dataclass(frozen=True)
class ClusterRequest:
    """The options of `plan` that describe a cluster."""

    devices: str
    nodes: int
    network: float
    utilisation: float
    precision: Literal["float32", "half"]
    parallel: Literal["ddp", "fsdp", "hsdp"]
    tokens: int | None
    num_pairs: int


def plan_cluster(name: str, vocabulary: int, request: ClusterRequest) -> Record:
    """Return the memory per device, the exchange and the times of a preset or recipe, in bytes and seconds."""
    from dragoman.models import cost
    from dragoman.models.cluster import PlannedCluster, device_memory, exchange_bytes, parse_devices, update_time
    from dragoman.models.presets import preset

    per_node, device_name, device = parse_devices(request.devices)
    cluster = PlannedCluster(device, per_node, request.nodes, request.network, request.utilisation, request.precision)
    num_devices = cluster.num_devices
    config, at_once, num_batches, updates = _workload(name, vocabulary, request.tokens, num_devices)
    rounds = ceil(num_batches / num_devices)
    memory = device_memory(config, at_once, cluster.num_sharing(request.parallel), request.precision)
    seconds = update_time(config, rounds * at_once, cluster, request.parallel)
    updates_per_epoch = max(1, round(request.num_pairs * cost.SENTENCE / (num_batches * at_once)))
    paper = next((run for known, run in cost.TABLE_2.items() if preset(known, vocabulary) == config), None)
    return {
        "name": name,
        "device": {"name": device_name, **asdict(device)},
        "assumptions": {
            **asdict(request),
            "flops_per_second": cluster.speed,
            "exchange_bytes_per_second": cluster.exchange_speed,
        },
        "num_devices": num_devices,
        "parameters": cost.parameters(config),
        "batches_per_update": num_batches,
        "tokens_at_once": at_once,
        "batches_per_device": rounds,
        "memory_bytes": asdict(memory) | {"peak": memory.peak, "available": int(device.memory * 1e9)},
        "exchange_bytes_per_update": exchange_bytes(config, num_devices, request.parallel, request.nodes),
        "update_seconds": asdict(seconds) | {"total": seconds.total},
        "limit": "memory" if memory.peak > device.memory * 1e9 else seconds.limit,
        "flops_per_update": cost.training_flops(config, num_batches * at_once),
        "updates": updates,
        "pairs": request.num_pairs,
        "epoch_seconds": updates_per_epoch * seconds.total,
        "training_seconds": updates * seconds.total,
        "table_2": paper and paper.compared(config),
    }


def _workload(name: str, vocabulary: int, tokens: int | None, num_devices: int) -> tuple[Any, int, int, int]:
    """Return the model, the tokens of a side in a batch, the batches per update and the updates of a training."""
    from dragoman.models import cost
    from dragoman.models.config import with_vocabulary
    from dragoman.models.presets import PRESETS, preset
    from dragoman.recipes.catalog import library_path, recipe_names
    from dragoman.recipes.recipe import load_recipe

    path = library_path(name) if name in recipe_names() else Path(name)
    if name in PRESETS or not path.is_file():
        updates = cost.TABLE_2[name].steps if name in cost.TABLE_2 else 100_000
        return preset(name, vocabulary), ceil((tokens or cost.BATCH) / num_devices), num_devices, updates
    recipe = load_recipe(path)
    chosen = recipe.data.vocabulary.size if recipe.data.vocabulary else vocabulary
    training = recipe.training
    at_once = training.batch.tokens // 2
    num_batches = ceil(tokens / at_once) if tokens else training.batches_per_update
    return with_vocabulary(recipe.model, chosen, chosen), at_once, num_batches, training.stop.updates


def cluster_page(record: Record) -> RenderableType:
    """Return the output for a cluster: memory of a device, times, what limits, and the assumptions."""
    memory, seconds, device, given = (
        record[key] for key in ("memory_bytes", "update_seconds", "device", "assumptions")
    )
    what = f"{record['num_devices']} x {device['name']}" + (f" in {given['nodes']} nodes" if given["nodes"] > 1 else "")
    title = Text.assemble((record["name"], "bold cyan"), f" on {what}, {given['parallel']}, {given['precision']}")
    held = small_table("memory of a device", "bytes")
    held.add_row("weights and Adam's means" + " (its shard)" * (given["parallel"] != "ddp"), size(memory["states"]))
    held.add_row("gathered or copied weights", size(memory["gathered"]))
    held.add_row(f"activations of 2 x {record['tokens_at_once']:,} tokens", size(memory["activations"]))
    held.add_row("gradients, when activations are gone", size(memory["gradients"]))
    held.add_row("peak", size(memory["peak"]), style="bold")
    held.add_row("of", size(memory["available"]))
    times = small_table("an update", "seconds", "amount")
    times.add_row("computing", f"{seconds['computing']:.4f}", short(record["flops_per_update"], "FLOP"))
    exchanged = size(round(record["exchange_bytes_per_update"]))
    times.add_row("exchanging, sent and received by each", f"{seconds['exchanging']:.4f}", exchanged)
    times.add_row("optimizer", f"{seconds['optimizer']:.4f}")
    times.add_row("total, nothing overlapped", f"{seconds['total']:.4f}", style="bold")
    whole = small_table("training", "hours")
    whole.add_row(f"an epoch of {record['pairs']:,} pairs", hours(record["epoch_seconds"]))
    whole.add_row(f"{record['updates']:,} updates", hours(record["training_seconds"]), style="bold")
    pages: list[RenderableType] = [title, held, times, whole]
    if run := record["table_2"]:
        table = small_table("Table 2 (training)", "the paper", "counted here")
        table.add_row("FLOPs", scientific(run["printed_flops"]), scientific(run["computed_flops"]))
        table.add_row(
            f"hours on {run['gpus']} x P100, and on {what}", f"{run['hours']:g}", hours(record["training_seconds"])
        )
        pages.append(table)
    pages.append(Text("\n".join(_notes(record)), "dim"))
    return Group(*[part for page in pages for part in (page, "")][:-1])


def _notes(record: Record) -> list[str]:
    """Return what limits the training, and the assumptions behind the numbers."""
    given, num_batches, num_devices = record["assumptions"], record["batches_per_update"], record["num_devices"]
    limits = {
        "memory": "a step does not fit into the memory of a device: fewer tokens at once, or fsdp",
        "computing": "computing",
        "exchanging": "exchanging: larger updates, fewer nodes or a faster network",
        "optimizer": "the optimizer's memory traffic: larger updates, or fsdp",
    }
    notes = [f"Limited by {limits[record['limit']]}."]
    if num_batches % num_devices:
        notes.append(f"{num_batches} batches an update do not divide among {num_devices} devices: some of them wait.")
    link = f"{given['exchange_bytes_per_second'] / 1e9:g} GB/s"
    if given["parallel"] == "hsdp":
        link = f"{record['device']['link']:g} GB/s inside a node and {given['network']:g} GB/s between nodes"
    notes.append(f"Assumed: {percent(given['utilisation'])} of peak arithmetic, exchange at {link}; not measured.")
    return [*notes, f"Device: figures to be confirmed on the {record['device']['source']}."]


def hours(seconds: float) -> str:
    """Format a time in hours with two digits: 0.42 or 84."""
    number = seconds / 3600
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
