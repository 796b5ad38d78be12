"""`dragoman plan`, as a person and as a program call it."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fork_server import DRAGOMAN

from dragoman.models import cost
from dragoman.models.cost import TABLE_2
from dragoman.models.presets import PRESETS, preset


@cache
def plan(*arguments: str, width: int = 80) -> str:
    environment = os.environ | {"COLUMNS": str(width)}
    return subprocess.run(
        [DRAGOMAN, "plan", *arguments], capture_output=True, text=True, check=True, env=environment
    ).stdout


def record(*arguments: str) -> Any:
    return json.loads(plan(*arguments, "--json", "-"))


def row(page: str, first: str) -> list[str]:
    """The cells of the line that begins with these words."""
    found = re.search(rf"^{re.escape(first)}  +(.+?) *$", page, flags=re.MULTILINE)
    assert found is not None, f"no line begins with {first!r}:\n{page}"
    return re.split(r"  +", found[1])


def test_without_a_preset_all_of_them_are_listed_with_their_sizes() -> None:
    page = plan()
    for name, of_it in PRESETS.items():
        cells = row(page, name)
        assert cells[0] == f"{cost.parameters(preset(name)) / 1e6:,.2f} M"
        assert cells[-1] == of_it.description
    assert row(page, "paper-base") == ["63.05 M", "65 M", "the paper's base model"]


@pytest.mark.parametrize(
    "arguments",
    [(), ("paper-base",), ("luong-local-p",), ("paper-big", "--devices", "8xRTX4090", "--nodes", "64")],
    ids=str,
)
def test_it_fits_80_columns_and_has_no_colour_codes_in_a_pipe(arguments: tuple[str, ...]) -> None:
    page = plan(*arguments, width=80)
    assert "\x1b" not in page
    assert max(len(line) for line in page.splitlines()) <= 80
    tables = [line for line in page.splitlines() if re.search(r"  +\S", line)]
    assert tables == [line for line in plan(*arguments, width=120).splitlines() if re.search(r"  +\S", line)]


def test_a_model_is_shown_part_by_part_beside_the_paper() -> None:
    page = plan("paper-base")
    assert row(page, "embedding") == ["18.94 M", "30.0 %"]
    assert row(page, "encoder self-attention") == ["6.29 M", "10.0 %", "12.95 M", "10.2 %"]
    assert row(page, "projection") == ["shared", "37.89 M", "29.9 %"]
    assert row(page, "all") == ["63.05 M", "126.90 M"]
    assert row(page, "a training step on 25,000 + 25,000 tokens") == ["9.53 T"]
    assert row(page, "weights") == ["252 MB"]
    assert row(page, "parameters") == ["65 M", "63.05 M"]
    assert row(page, "12 h x 8 GPUs x 9.5e12 FLOPs a second") == ["3.3e18", "3.3e18"]
    assert row(page, "100,000 such training steps") == ["9.5e17"]
    assert row(page, "implied utilisation") == ["29.0 %"]


def test_only_the_models_of_table_2_have_a_training_cost() -> None:
    assert {name for name in ("paper-base", "paper-big", "paper-E", "tiny") if "Table 2" in plan(name)} == set(TABLE_2)


def test_only_the_models_of_table_3_have_its_results() -> None:
    assert row(plan("paper-A-h1"), "parameters") == ["not printed", "63.05 M"]
    assert row(plan("paper-A-h1"), "BLEU") == ["24.9"]
    assert "BLEU" not in plan("bahdanau")


def test_a_recurrent_model_is_shown_with_its_own_parts() -> None:
    page = plan("bahdanau")
    assert "GRU, 1+1 layers, bidirectional encoder" in page
    for part in cost.parts(preset("bahdanau")):
        assert row(page, part.name)[0] == f"{part.parameters / 1e6:,.2f} M"
    assert "each token written" not in page
    assert row(page, "decoder's state, of any length") == ["4.00 kB"]


def test_square_brackets_in_a_description_are_not_taken_for_markup() -> None:
    assert "tanh(W [q; k])" in plan()


def test_the_vocabulary_is_counted() -> None:
    assert row(plan("tiny", "--vocabulary", "10000"), "all")[0] == "2.60 M"
    assert row(plan("--vocabulary", "10000"), "tiny")[0] == "2.60 M"


def test_json_of_all_presets_has_one_entry_each() -> None:
    all_of_them = record("--vocabulary", "1000")
    assert all_of_them["vocabulary"] == 1000
    assert {entry["preset"]: entry["parameters"] for entry in all_of_them["presets"]} == {
        name: cost.parameters(preset(name, 1000)) for name in PRESETS
    }


def test_json_of_a_preset_has_the_numbers_unrounded() -> None:
    config = preset("paper-big", 1000)
    big = record("paper-big", "--vocabulary", "1000")
    assert big["config"] == config.model_dump()
    assert sum(part["parameters"] for part in big["parts"]) == big["parameters"] == cost.parameters(config)
    assert big["flops"]["per_training_step"] == cost.training_flops(config)
    by_part = big["flops"]["per_target_token_inference_by_part"]
    assert sum(by_part.values()) == big["flops"]["per_target_token_inference"]
    assert big["memory_bytes"]["training"] == cost.memory(config).training
    assert big["table_3"] == {"perplexity": 4.33, "bleu": 26.4, "parameters": 213}
    assert big["table_2"]["printed_flops"] == 2.3e19
    assert big["table_2"]["utilisation"] == TABLE_2["paper-big"].utilisation(config)


def test_a_cluster_is_planned_beside_the_paper() -> None:
    page = plan("paper-base", "--devices", "8xP100", "--precision", "float32", "--utilisation", "0.25")
    flops = cost.training_flops(preset("paper-base"), 25_000)
    assert row(page, "computing") == [f"{flops / 8 / (0.25 * 10.6e12):.4f}", "9.53 TFLOP"]
    assert row(page, "exchanging, sent and received by each")[1] == "441 MB"
    assert row(page, "of") == ["16.0 GB"]
    assert row(page, "FLOPs") == ["3.3e18", "9.5e17"]
    assert row(page, "hours on 8 x P100, and on 8 x P100") == ["12", "13"]
    assert "Limited by computing." in page
    assert "25.0 % of peak arithmetic" in page
    assert "NVIDIA Tesla P100 datasheet" in page


def test_more_nodes_are_limited_by_the_exchange_and_a_small_device_by_its_memory() -> None:
    far = record("paper-big", "--devices", "8xA100", "--nodes", "8", "--network", "12.5")
    assert (far["num_devices"], far["limit"]) == (64, "exchanging")
    assert far["update_seconds"]["exchanging"] == far["exchange_bytes_per_update"] / 12.5e9
    assert far["training_seconds"] == 300_000 * far["update_seconds"]["total"]
    shared = record("paper-big", "--devices", "8xA100", "--nodes", "8", "--parallel", "hsdp")
    assert shared["memory_bytes"]["states"] == far["memory_bytes"]["states"] // 8
    assert shared["update_seconds"]["exchanging"] < far["update_seconds"]["exchanging"]
    small = record("paper-big", "--devices", "T4", "--tokens", "60000")
    assert small["limit"] == "memory"
    assert small["memory_bytes"]["peak"] > small["memory_bytes"]["available"] == 16e9


def test_a_recipe_brings_its_own_batches_updates_and_vocabulary(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("word\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: planned\ndata: {train: [{source: a.en, target: a.de}], vocabulary: {kind: bpe, size: 9000}}\n"
        "model: {preset: paper-base}\n"
        "training: {batch: {tokens: 5000}, batches_per_update: 12, stop: {updates: 7000}}\n"
    )
    found = record(str(recipe), "--devices", "8xV100", "--parallel", "fsdp")
    assert (found["tokens_at_once"], found["batches_per_update"], found["batches_per_device"]) == (2500, 12, 2)
    assert found["updates"] == 7000
    assert found["parameters"] == cost.parameters(preset("paper-base", 9000))
    assert "12 batches an update do not divide among 8 devices" in plan(str(recipe), "--devices", "8xV100")


def test_devices_without_a_model_are_refused() -> None:
    done = subprocess.run([DRAGOMAN, "plan", "--devices", "8xA100"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "give a preset or a recipe" in done.stderr


def test_json_says_null_where_the_paper_says_nothing() -> None:
    assert (record("tiny")["table_2"], record("tiny")["table_3"]) == (None, None)


@pytest.mark.parametrize("option", [(), ("--json", "-")], ids=str)
def test_an_unknown_preset_is_answered_with_the_nearest(option: tuple[str, ...]) -> None:
    done = subprocess.run([DRAGOMAN, "plan", "bahdanow", *option], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean bahdanau" in done.stderr


def test_a_vocabulary_of_nothing_is_refused() -> None:
    done = subprocess.run([DRAGOMAN, "plan", "--vocabulary", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--vocabulary" in done.stderr


def test_planning_needs_no_torch() -> None:
    code = "import sys; from dragoman.cli.main import app; app(['plan', 'paper-base'], standalone_mode=False); "
    code += "sys.exit(sorted({'torch', 'numpy', 'jaxtyping'} & set(sys.modules)) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
