"""What `dragoman plan --json` prints. Sizes are bytes, times hours; nothing is rounded."""

from dataclasses import asdict
from typing import Any

from dragoman.models import cost
from dragoman.models.config import ModelConfig
from dragoman.models.paper_cost import TABLE_2, Run
from dragoman.models.presets import PRESETS, Preset, find

Record = dict[str, Any]


def of_all(vocabulary: int) -> Record:
    """Every preset with its size."""
    return {"vocabulary": vocabulary, "presets": [_line(name, vocabulary) for name in PRESETS]}


def of_preset(name: str, vocabulary: int) -> Record:
    """One preset in full."""
    chosen = find(name)
    config = chosen.config(vocabulary)
    return _line(name, vocabulary) | {
        "config": config.model_dump(),
        "parts": [{"name": part.name, "parameters": part.parameters} for part in cost.parts(config)],
        "sentence_tokens": cost.SENTENCE,
        "step_tokens": {"source": cost.BATCH, "target": cost.BATCH},
        "flops": {
            "per_target_token_inference": sum(cost.inference_flops(config).values()),
            "per_target_token_inference_by_part": cost.inference_flops(config),
            "per_sentence_pair_forward": cost.forward_flops(config),
            "per_training_step": cost.training_flops(config),
        },
        "memory_bytes": asdict(cost.memory(config)) | {"training": cost.memory(config).training},
        "table_2": _table_2(TABLE_2[name], config) if name in TABLE_2 else None,
    }


def _line(name: str, vocabulary: int) -> Record:
    chosen: Preset = PRESETS[name]
    return {
        "preset": name,
        "description": chosen.description,
        "vocabulary": vocabulary,
        "parameters": cost.parameters(chosen.config(vocabulary)),
        "table_3": asdict(chosen.printed) if chosen.printed else None,
    }


def _table_2(run: Run, config: ModelConfig) -> Record:
    return asdict(run) | {
        "spent_flops": run.spent,
        "computed_flops": run.computed(config),
        "utilisation": run.utilisation(config),
    }
