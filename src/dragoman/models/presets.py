"""Model presets, read from presets.yaml: the paper's models, small models for CPUs, and the models before it.

Data and training settings are in the recipe, except for the label smoothing of Table 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import yaml
from pydantic import TypeAdapter

from dragoman.models.config import FAMILIES, Family, ModelConfig

PAPER_VOCABULARY: Final = 37_000
"""The size of the shared byte-pair vocabulary of the paper's English-German models (section 5.1)."""


@dataclass(frozen=True)
class Printed:
    """A row of Table 3 as the paper prints it: newstest2013, English to German, no checkpoint averaging."""

    perplexity: float
    """The perplexity per subword."""
    bleu: float
    parameters: int | None = None
    """The number of parameters in millions, if printed. No single vocabulary size gives all printed numbers."""


@dataclass(frozen=True)
class Preset:
    """A named model config: a description, and the changes to the family's defaults."""

    description: str
    changes: Mapping[str, object] = field(default_factory=dict)
    printed: Printed | None = None
    family: Family = "transformer"
    training: Mapping[str, object] = field(default_factory=dict)
    """Changes to the `training` section of a recipe, as nested keys."""

    def config(self, vocabulary: int = PAPER_VOCABULARY) -> ModelConfig:
        """Return the model config with `vocabulary` token ids for source and target."""
        fields = {**self.changes, "source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
        return FAMILIES[self.family].model_validate(fields)


def preset(name: str, vocabulary: int = PAPER_VOCABULARY) -> ModelConfig:
    """Return the model config of a preset with `vocabulary` token ids for source and target."""
    return find_preset(name).config(vocabulary)


def find_preset(name: str) -> Preset:
    """Return the preset with this name; raise ValueError with similar names if there is none."""
    if name not in PRESETS:
        near = get_close_matches(name, PRESETS, n=3, cutoff=0.5)
        fix = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(PRESETS)}"
        raise ValueError(f"unknown preset {name!r}: {fix}")
    return PRESETS[name]


_FILE: Final = Path(__file__).with_name("presets.yaml")

PRESETS: Final = TypeAdapter(dict[str, Preset]).validate_python(yaml.safe_load(_FILE.read_text(encoding="utf-8")))
"""All presets by name, those of the paper first."""
