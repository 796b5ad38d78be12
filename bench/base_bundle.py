"""A bundle of the paper's base size that nobody has trained, but that ends its sentences, to measure speed with.

Random weights almost never write EOS, and now and then PAD or BOS, which no trained model does. Here these two are
never likely, and EOS has the direction in which the slow sinusoids of the target's position grow, so that it becomes
likely with every token, and outputs end after some 15 to 25. With `--length`, all end with that many tokens: what the
decoder adds to the position is made small, and EOS looks at the position alone.

    python bench/base_bundle.py FOLDER [--layers 6] [--d-model 512] [--length 30]
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from dragoman.bundle import Bundle, BundleInfo, Card, demo_folder, open_bundle, write_bundle
from dragoman.data.vocab import BOS, EOS, PAD
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.proof import export_bundle
from dragoman.layers.sinusoids import sinusoids
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.weights import weights_of

USUAL_LENGTH = 25
STRENGTH = 4.0
"""How steeply EOS becomes likely: tried until outputs were of all lengths around the usual one."""

FAINT = 0.01
"""What is left of embeddings and of what the decoder's layers add, beside the position."""
SURE = 30.0
"""How far EOS's score stands from those of others."""


def base_bundle(
    folder: Path,
    layers: int = 6,
    d_model: int = 512,
    length: int | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Bundle:
    """With the demo's vocabulary, and its export."""
    vocab = open_bundle(demo_folder()).vocab
    config = TransformerConfig(
        d_model=d_model,
        d_ff=4 * d_model,
        num_heads=max(1, d_model // 64),
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        norm="pre",
        tie="none",
        attention_bias=True,
        source_vocabulary=vocab.source.size,
        target_vocabulary=vocab.target.size,
    )
    torch.manual_seed(7)
    weights = weights_of(build(config))
    weights["projection.tokens.weight"][[PAD, BOS]] = 0.0
    if length is None:
        weights["projection.tokens.weight"][EOS] = _towards_the_end(d_model)
    else:
        weights = _ending_at(weights, d_model, length)
    search = SearchOptions().model_dump(mode="json")
    info = BundleInfo(model=config, search=search, source_language=languages[0], target_language=languages[1])
    write_bundle(folder, info, weights, vocab, Card(title="untrained, to measure speed with"))
    return export_bundle(folder)


def _towards_the_end(d_model: int) -> np.ndarray:
    """The direction from an early position to the usual length, as long as makes EOS win about there."""
    table = sinusoids(2 * USUAL_LENGTH, d_model)
    way = table[USUAL_LENGTH] - table[USUAL_LENGTH // 4]
    return (STRENGTH * 8 * way / (way @ way) ** 0.5 / d_model**0.25).astype(np.float32)


def _ending_at(weights: dict[str, np.ndarray], d_model: int, length: int) -> dict[str, np.ndarray]:
    """EOS is far less likely than the others before its position, and far likelier from there on."""
    faint = ("embedding.tokens.weight", "output.weight", "contract.weight")
    weights = {
        name: value * (FAINT if name.startswith("decoder.") and name.endswith(faint) else 1.0)
        for name, value in weights.items()
    }
    table = sinusoids(2 * length, d_model).astype(np.float64)
    table = (table - table.mean(1, keepdims=True)) / table.std(1, keepdims=True)  # as the last norm gives it
    wanted = np.where(np.arange(2 * length) < length - 1, -SURE, SURE)
    weights["projection.tokens.weight"][EOS] = np.linalg.lstsq(table, wanted, rcond=1e-2)[0].astype(np.float32)
    return weights


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--layers", type=int, default=6)
    options.add_argument("--d-model", type=int, default=512)
    options.add_argument("--length", type=int, help="of every output, EOS included")
    given = options.parse_args()
    print(base_bundle(given.folder, given.layers, given.d_model, given.length).folder)


if __name__ == "__main__":
    main()
