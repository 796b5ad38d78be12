"""`dragoman plan`: compute the parameters, FLOPs and memory of a model, and its training on a cluster."""

import json
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from dragoman.cli.command import json_option
from dragoman.cli.number_format import millions, percent, scientific, short, size
from dragoman.cli.output_files import write_output
from dragoman.cli.plan_cluster import ClusterRequest, cluster_page, plan_cluster
from dragoman.cli.plan_tables import small_table, text_table

Record = dict[str, Any]


def _preset_names() -> list[str]:
    from dragoman.models.presets import PRESETS

    return list(PRESETS)


def plan(
    preset: Annotated[
        str | None,
        Argument(
            metavar="PRESET|RECIPE",
            help="Model preset to show, or with --devices a recipe; default: show all presets.",
            autocompletion=_preset_names,
        ),
    ] = None,
    vocabulary: Annotated[int, Option(min=1, metavar="N", help="Size of each vocabulary.")] = 37_000,
    devices: Annotated[
        str | None, Option(metavar="NxDEVICE", help="Plan the training on these devices of a node, such as 8xA100.")
    ] = None,
    nodes: Annotated[int, Option(min=1, metavar="N", help="Number of nodes with these devices.")] = 1,
    network: Annotated[float, Option(min=0.001, metavar="GB/S", help="Network of a node, in one direction.")] = 25.0,
    utilisation: Annotated[
        float, Option(min=0.001, max=1.0, metavar="X", help="Assumed fraction of the devices' peak arithmetic.")
    ] = 0.3,
    precision: Annotated[
        Literal["float32", "half"],
        Option(metavar="float32|half", help="Arithmetic: half is bfloat16, or float16 on older devices."),
    ] = "half",
    parallel: Annotated[
        Literal["ddp", "fsdp", "hsdp"],
        Option(metavar="ddp|fsdp|hsdp", help="Copies of the weights, shards, or a copy per node in shards."),
    ] = "ddp",
    tokens: Annotated[
        int | None, Option(min=1, metavar="N", help="Tokens of each side in an update; default: recipe's or 25,000.")
    ] = None,
    num_pairs: Annotated[int, Option(min=1, metavar="N", help="Pairs in an epoch; default: the paper's.")] = 4_500_000,
    json_file: Annotated[Path | None, json_option("Write the numbers as JSON")] = None,
) -> None:
    """Show the parameters, FLOPs and memory of a model and its components, or its training on a cluster.

    The numbers follow from the layer sizes; no model is built. For the models of "Attention Is All You Need", the
    numbers in the paper are shown too. With --devices, published figures of the devices give memory, exchange and time.

        dragoman plan

        dragoman plan paper-base --vocabulary 32000

        dragoman plan paper-big --devices 8xA100 --nodes 4
    """
    if devices is not None:
        if preset is None:
            raise ValueError(f"--devices {devices} needs a model: give a preset or a recipe")
        request = ClusterRequest(devices, nodes, network, utilisation, precision, parallel, tokens, num_pairs)
        record = plan_cluster(preset, vocabulary, request)
        _print(record, cluster_page(record), json_file)
        return
    record = _all_presets(vocabulary) if preset is None else _one_preset(preset, vocabulary)
    _print(record, _list_page(record) if preset is None else _preset_page(record), json_file)


def _print(record: Record, page: RenderableType, json_file: Path | None) -> None:
    if json_file is None:
        Console(highlight=False, markup=False).print(page)
    else:
        write_output(json_file, json.dumps(record, indent=2) + "\n")


def _all_presets(vocabulary: int) -> Record:
    from dragoman.models.presets import PRESETS

    return {"vocabulary": vocabulary, "presets": [_summary(name, vocabulary) for name in PRESETS]}


def _summary(name: str, vocabulary: int) -> Record:
    from dragoman.models.cost import parameters
    from dragoman.models.presets import find_preset

    preset = find_preset(name)
    about = {"preset": name, "family": preset.family, "description": preset.description, "vocabulary": vocabulary}
    printed = asdict(preset.printed) if preset.printed else None
    return {**about, "parameters": parameters(preset.config(vocabulary)), "table_3": printed}


def _one_preset(name: str, vocabulary: int) -> Record:
    """Return the cost of a preset, not rounded, with memory in bytes and times in hours."""
    from dragoman.models import cost
    from dragoman.models.presets import preset

    config = preset(name, vocabulary)
    flops, memory, run = cost.inference_flops(config), cost.memory(config), cost.TABLE_2.get(name)
    return _summary(name, vocabulary) | {
        "config": config.model_dump(),
        "sizes": config.summary,
        "parts": [{"name": part.name, "parameters": part.parameters} for part in cost.parts(config)],
        "sentence_tokens": cost.SENTENCE,
        "step_tokens": {"source": cost.BATCH, "target": cost.BATCH},
        "flops": {
            "per_target_token_inference": sum(flops.values()),
            "per_target_token_inference_by_part": flops,
            "per_sentence_pair_forward": cost.forward_flops(config),
            "per_training_step": cost.training_flops(config),
        },
        "memory_bytes": asdict(memory) | {"training": memory.training},
        "table_2": run and run.compared(config),
    }


def _list_page(record: Record) -> RenderableType:
    """Return a table of presets in three groups: models of the paper, small models, earlier architectures."""
    table = text_table("preset", "size", "paper")
    table.add_column("what it is")
    for _, presets in groupby(record["presets"], lambda preset: "paper" if preset["table_3"] else preset["family"]):
        for preset in presets:
            name, printed = Text(preset["preset"], "cyan"), _printed_parameters(preset)
            table.add_row(name, millions(preset["parameters"]), printed, preset["description"])
        table.add_section()
    note = f"Size: parameters with {record['vocabulary']:,} token ids; paper: as printed in Table 3."
    return Group(table, "", Text(f"{note}\nDetails of a preset: dragoman plan paper-base", "dim"))


def _preset_page(record: Record) -> RenderableType:
    """Return the output for one preset: summary, components, FLOPs, memory, and the paper's numbers if any."""
    flops, memory, tokens = record["flops"], record["memory_bytes"], record["step_tokens"]
    title = Text.assemble((record["preset"], "bold cyan"), f": {record['description']}\n", (record["sizes"], "dim"))
    work = small_table("arithmetic", "FLOPs")
    work.add_row("a target token, written greedily", short(flops["per_target_token_inference"]))
    step = f"a training step on {tokens['source']:,} + {tokens['target']:,} tokens"
    work.add_row(step, short(flops["per_training_step"]))
    counted = "A multiply-add is 2 FLOPs, a backward pass twice its forward pass"
    conventions = f"{counted}; sentences have {record['sentence_tokens']} tokens on either side."
    bytes_table = small_table("memory, in float32", "bytes")
    for key, label in _MEMORY.items():
        if memory[key]:
            bytes_table.add_row(label, size(memory[key]), style="bold" if key == "training" else None)
    pages: list[RenderableType] = [title, _parts_table(record), work, Text(conventions, "dim"), bytes_table]
    if printed := record["table_3"]:
        table_3 = small_table("Table 3 (newstest2013)", "the paper", "counted here")
        table_3.add_row("parameters", _printed_parameters(record) or "not printed", millions(record["parameters"]))
        table_3.add_row("perplexity of a subword", f"{printed['perplexity']:.2f}")
        table_3.add_row("BLEU", f"{printed['bleu']:.1f}")
        pages.append(table_3)
    if run := record["table_2"]:
        table_2 = small_table("Table 2 (training)", "the paper", "counted here")
        machine = f"{run['hours']:g} h x {run['gpus']} GPUs x {scientific(run['gpu_flops'])} FLOPs a second"
        table_2.add_row(machine, scientific(run["printed_flops"]), scientific(run["spent_flops"]))
        table_2.add_row(f"{run['steps']:,} such training steps", "", scientific(run["computed_flops"]))
        table_2.add_row("implied utilisation", "", percent(run["utilisation"]))
        pages.append(table_2)
    return Group(*[part for page in pages for part in (page, "")][:-1])


_MEMORY = {
    "weights": "weights",
    "gradients": "gradients",
    "adam": "Adam's two means",
    "activations": "activations of a training step, estimated",
    "training": "total to train on one device",
    "cache_per_source_token": "decoder's cache for each source token",
    "cache_per_target_token": "decoder's cache for each token written",
    "cache_per_sentence": "decoder's state, of any length",
}


def _parts_table(record: Record) -> Table:
    flops, total = record["flops"]["per_target_token_inference_by_part"], record["flops"]["per_target_token_inference"]
    table = text_table("part", "parameters", "share", "FLOPs a token", "share")
    for part in record["parts"]:
        name, count = part["name"], part["parameters"]
        weights = (millions(count), percent(count / record["parameters"])) if count else ("shared", "")
        work = (millions(flops[name]), percent(flops[name] / total)) if flops[name] else ("", "")
        table.add_row(name, *weights, *work)
    table.add_section()
    table.add_row("all", millions(record["parameters"]), "", millions(total), "", style="bold")
    return table


def _printed_parameters(record: Record) -> str:
    printed = record["table_3"]
    return f"{printed['parameters']} M" if printed and printed["parameters"] else ""
