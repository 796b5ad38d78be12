"""Named sizes: the paper's base and big models, every row of its Table 3, small ones for CPUs, and what came before it.

A preset says what it changes, as Table 3 does: what it leaves out is the default of its family, which for a Transformer
is the paper's base model. It describes the model alone; how long and on what it is trained is the recipe's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from dragoman.models.config import ModelConfig, RecurrentConfig, TransformerConfig

PAPER_VOCABULARY: Final = 37_000
"""The shared byte-pair vocabulary of the paper's English-German models (section 5.1)."""


@dataclass(frozen=True)
class Printed:
    """A row of Table 3 as the paper prints it: newstest2013, English to German, no checkpoint averaging."""

    perplexity: float
    """Per subword."""
    bleu: float
    parameters: int | None = None
    """In millions; some rows leave it out. No single vocabulary gives all of these numbers: compare with `cost`."""


@dataclass(frozen=True)
class Preset:
    """A model by name: what it is, and what it changes in the defaults of its family."""

    description: str
    changes: Mapping[str, object]
    printed: Printed | None = None
    family: Literal["transformer", "recurrent"] = "transformer"

    def config(self, vocabulary: int = PAPER_VOCABULARY) -> ModelConfig:
        """The model, with this many token ids on either side."""
        fields = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary} | dict(self.changes)
        kind = TransformerConfig if self.family == "transformer" else RecurrentConfig
        return kind.model_validate(fields)


def preset(name: str, vocabulary: int = PAPER_VOCABULARY) -> ModelConfig:
    """The model of that name, with this many token ids on either side."""
    return find(name).config(vocabulary)


def find(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        near = get_close_matches(name, PRESETS, n=3, cutoff=0.5)
        mend = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(PRESETS)}"
        raise ValueError(f"no preset is named {name!r}; {mend}")
    return PRESETS[name]


_PAPER: Final[Mapping[str, Preset]] = {
    "paper-base": Preset("the paper's base model", {}, Printed(4.92, 25.8, 65)),
    "paper-big": Preset(
        "the paper's big model, dropout 0.3",
        {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
        Printed(4.33, 26.4, 213),
    ),
    "paper-A-h1": Preset("base with one head of width 512", {"num_heads": 1}, Printed(5.29, 24.9)),
    "paper-A-h4": Preset("base with 4 heads of width 128", {"num_heads": 4}, Printed(5.00, 25.5)),
    "paper-A-h16": Preset("base with 16 heads of width 32", {"num_heads": 16}, Printed(4.91, 25.8)),
    "paper-A-h32": Preset("base with 32 heads of width 16", {"num_heads": 32}, Printed(5.01, 25.4)),
    "paper-B-dk16": Preset("base with d_k 16; d_v stays 64", {"d_k": 16}, Printed(5.16, 25.1, 58)),
    "paper-B-dk32": Preset("base with d_k 32; d_v stays 64", {"d_k": 32}, Printed(5.01, 25.4, 60)),
    "paper-C-N2": Preset(
        "base with 2+2 layers", {"num_encoder_layers": 2, "num_decoder_layers": 2}, Printed(6.11, 23.7, 36)
    ),
    "paper-C-N4": Preset(
        "base with 4+4 layers", {"num_encoder_layers": 4, "num_decoder_layers": 4}, Printed(5.19, 25.3, 50)
    ),
    "paper-C-N8": Preset(
        "base with 8+8 layers", {"num_encoder_layers": 8, "num_decoder_layers": 8}, Printed(4.88, 25.5, 80)
    ),
    "paper-C-d256": Preset("base with d_model 256, heads of 32", {"d_model": 256}, Printed(5.75, 24.5, 28)),
    "paper-C-d1024": Preset("base with d_model 1024, heads of 128", {"d_model": 1024}, Printed(4.66, 26.0, 168)),
    "paper-C-ff1024": Preset("base with d_ff 1024", {"d_ff": 1024}, Printed(5.12, 25.4, 53)),
    "paper-C-ff4096": Preset("base with d_ff 4096", {"d_ff": 4096}, Printed(4.75, 26.2, 90)),
    "paper-D-dropout0": Preset("base without dropout", {"dropout": 0.0}, Printed(5.77, 24.6)),
    "paper-D-dropout0.2": Preset("base with dropout 0.2", {"dropout": 0.2}, Printed(4.95, 25.5)),
    # Label smoothing belongs to the loss, so these two are base itself, kept for their printed results.
    "paper-D-smoothing0": Preset("base, to train without label smoothing", {}, Printed(4.67, 25.3)),
    "paper-D-smoothing0.2": Preset("base, to train with label smoothing 0.2", {}, Printed(5.47, 25.7)),
    "paper-E": Preset("base with learned positions", {"positions": "learned"}, Printed(4.92, 25.7)),
}

_SMALL: Final[Mapping[str, Preset]] = {
    "tiny": Preset(
        "4+4 layers, d_model 128: for a CPU",
        {
            "d_model": 128,
            "d_ff": 256,
            "num_heads": 4,
            "num_encoder_layers": 4,
            "num_decoder_layers": 4,
            "dropout": 0.3,
        },
    ),
    "small": Preset(
        "3+3 layers, d_model 256: for a CPU",
        {"d_model": 256, "d_ff": 1024, "num_heads": 4, "num_encoder_layers": 3, "num_decoder_layers": 3},
    ),
}

_DEEP_LSTM: Final[Mapping[str, object]] = {
    "cell": "lstm",
    "d_model": 1000,
    "d_embedding": 1000,
    "num_layers": 4,
    "bidirectional": False,
}
"""What Sutskever et al. (2014) and Luong et al. (2015) share: 4 layers of 1000 cells, word vectors of 1000."""


def _luong(description: str, score: str, locality: str = "global") -> Preset:
    changes = {**_DEEP_LSTM, "context": "luong", "score": score, "locality": locality, "dropout": 0.2}
    return Preset(description, changes, family="recurrent")


_RECURRENT: Final[Mapping[str, Preset]] = {
    # Sutskever also reversed the source, which is a matter of data.
    "sutskever": Preset(
        "LSTM, the source as first state (2014)",
        {**_DEEP_LSTM, "context": "first", "dropout": 0.0},
        family="recurrent",
    ),
    "cho": Preset(
        "GRU, the source as one vector (2014)",
        {"d_model": 1000, "d_embedding": 100, "bidirectional": False, "context": "every", "dropout": 0.0},
        family="recurrent",
    ),
    # Bahdanau gave each direction of the encoder 1000 units, where a direction here has half of d_model.
    "bahdanau": Preset(
        "GRU, additive attention (2015)",
        {"d_model": 1000, "d_embedding": 620, "context": "bahdanau", "dropout": 0.0},
        family="recurrent",
    ),
    "luong-dot": _luong("LSTM, attention by q . k (2015)", "dot"),
    "luong-general": _luong("LSTM, attention by q . W k (2015)", "general"),
    "luong-concat": _luong("LSTM, attention by tanh(W [q; k]) (2015)", "concat"),
    "luong-local-m": _luong("LSTM, near the same position (2015)", "general", "local-m"),
    "luong-local-p": _luong("LSTM, near a predicted position (2015)", "general", "local-p"),
}

PRESETS: Final[Mapping[str, Preset]] = {**_PAPER, **_SMALL, **_RECURRENT}
"""Every preset by name, the paper's first."""
