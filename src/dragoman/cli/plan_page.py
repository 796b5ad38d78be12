"""What `dragoman plan` shows a person."""

from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dragoman.cli.figures import millions, percent, scientific, short, size
from dragoman.models import cost
from dragoman.models.config import ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.models.paper_cost import NUM_GPUS, P100_FLOPS, TABLE_2, Run
from dragoman.models.presets import PRESETS, Printed, find

WORDS: Final = 42
NUMBERS: Final = 12
"""Widths in the small tables, so that their numbers stand under each other."""


def of_all(vocabulary: int) -> RenderableType:
    """Every preset on a line of its own, in three groups: the paper's, small ones, the models before it."""
    table = _table("preset", "size", "paper")
    table.add_column("what it is")
    previous = "paper"
    for name, preset in PRESETS.items():
        group = "paper" if preset.printed else preset.family
        if group != previous:
            table.add_section()
            previous = group
        count = millions(cost.parameters(preset.config(vocabulary)))
        table.add_row(Text(name, "cyan"), count, _printed_count(preset.printed), preset.description)
    note = (
        f"Size: parameters with {vocabulary:,} token ids; under paper, as its Table 3 prints it.\n"
        "One of them in detail: dragoman plan paper-base"
    )
    return _spaced([table, Text(note, "dim")])


def of_preset(name: str, vocabulary: int) -> RenderableType:
    """One preset: what it is, its parts, its arithmetic, its memory, and the paper's numbers where there are any."""
    preset = find(name)
    config = preset.config(vocabulary)
    title = Text.assemble((name, "bold cyan"), f": {preset.description}\n", (_sizes(config), "dim"))
    pages: list[RenderableType] = [title, _parts(config), _work(config), _conventions(), _memory(config)]
    if preset.printed:
        pages.append(_table_3(preset.printed, config))
    if name in TABLE_2:
        pages.append(_table_2(TABLE_2[name], config))
    return _spaced(pages)


def _sizes(config: ModelConfig) -> str:
    """The model in one sentence."""
    match config:
        case TransformerConfig():
            return (
                f"Transformer, {config.num_encoder_layers}+{config.num_decoder_layers} layers, "
                f"d_model {config.d_model}, d_ff {config.d_ff}, {config.num_heads} heads "
                f"(d_k {config.key_width}, d_v {config.value_width}), dropout {config.dropout:g}, "
                f"{config.positions} positions, {config.target_vocabulary:,} token ids"
            )
        case RecurrentConfig():
            direction = "bidirectional" if config.bidirectional else "forward"
            return (
                f"{config.cell.upper()}, {config.num_layers}+{config.num_layers} layers, {direction} encoder, "
                f"d_model {config.d_model}, d_embedding {config.d_embedding}, {_looking(config)}, "
                f"dropout {config.dropout:g}, {config.target_vocabulary:,} token ids"
            )


def _looking(config: RecurrentConfig) -> str:
    match config.context:
        case "first":
            return "the source as first state"
        case "every":
            return "the source as one vector"
        case "bahdanau" | "luong":
            return f"{config.locality} attention with {config.score} score"


def _parts(config: ModelConfig) -> Table:
    parameters, flops = cost.parameters(config), cost.inference_flops(config)
    total = sum(flops.values())
    table = _table("part", "parameters", "share", "FLOPs a token", "share")
    for part in cost.parts(config):
        held = (millions(part.parameters), percent(part.parameters / parameters)) if part.parameters else ("shared", "")
        done = (millions(flops[part.name]), percent(flops[part.name] / total)) if flops[part.name] else ("", "")
        table.add_row(part.name, *held, *done)
    table.add_section()
    table.add_row("all", millions(parameters), "", millions(total), "", style="bold")
    return table


def _work(config: ModelConfig) -> Table:
    table = _small_table("arithmetic", "FLOPs")
    table.add_row("a target token, written greedily", short(sum(cost.inference_flops(config).values())))
    table.add_row(f"a training step on {cost.BATCH:,} + {cost.BATCH:,} tokens", short(cost.training_flops(config)))
    return table


def _conventions() -> Text:
    return Text(
        "A multiply-add is 2 FLOPs, a backward pass twice its forward pass; "
        f"sentences have {cost.SENTENCE} tokens on either side.",
        "dim",
    )


def _memory(config: ModelConfig) -> Table:
    memory = cost.memory(config)
    table = _small_table("memory, in float32", "bytes")
    table.add_row("weights", size(memory.weights))
    table.add_row("gradients", size(memory.gradients))
    table.add_row("Adam's two means", size(memory.adam))
    table.add_row("activations of that step, an estimate", size(memory.activations))
    table.add_row("all of it, to train on one device", size(memory.training), style="bold")
    table.add_section()
    cache = {
        "decoder's cache for each source token": memory.cache_per_source_token,
        "decoder's cache for each token written": memory.cache_per_target_token,
        "decoder's state, whatever the length": memory.cache_per_sentence,
    }
    for what, num_bytes in cache.items():
        if num_bytes:
            table.add_row(what, size(num_bytes))
    return table


def _table_3(printed: Printed, config: ModelConfig) -> Table:
    table = _small_table("Table 3 (newstest2013)", "the paper", "counted here")
    table.add_row("parameters", _printed_count(printed) or "not printed", millions(cost.parameters(config)))
    table.add_row("perplexity of a subword", f"{printed.perplexity:.2f}", "")
    table.add_row("BLEU", f"{printed.bleu:.1f}", "")
    return table


def _table_2(run: Run, config: ModelConfig) -> Table:
    table = _small_table("Table 2 (training)", "the paper", "counted here")
    table.add_row(
        f"{run.hours:g} h x {NUM_GPUS} GPUs x {scientific(P100_FLOPS)} FLOPs a second",
        scientific(run.printed_flops),
        scientific(run.spent),
    )
    table.add_row(f"{run.steps:,} such training steps", "", scientific(run.computed(config)))
    table.add_row("utilisation that implies", "", percent(run.utilisation(config)))
    return table


def _printed_count(printed: Printed | None) -> str:
    return f"{printed.parameters} M" if printed and printed.parameters else ""


def _table(first: str, *numbers: str) -> Table:
    """A column of words, and columns of numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _small_table(first: str, *numbers: str) -> Table:
    table = _table(first, *numbers)
    table.columns[0].min_width = WORDS
    for column in table.columns[1:]:
        column.min_width = NUMBERS
    return table


def _spaced(pages: list[RenderableType]) -> Group:
    """An empty line after each but the last."""
    spaced = [part for page in pages for part in (page, "")]
    return Group(*spaced[:-1])
