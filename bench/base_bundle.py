"""A bundle of the paper's base size that nobody has trained, but that ends its sentences, to measure speed with.

Random weights almost never write EOS. Here EOS has the direction in which the slow sinusoids of the target's position
grow, so that it becomes likely with every token, and outputs end after some 15 to 25.

    python bench/base_bundle.py FOLDER [--layers 6] [--d-model 512]
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from dragoman.bundle import Bundle, BundleInfo, Card, demo_folder, open_bundle, write_bundle
from dragoman.data.vocab import EOS
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.proof import export_bundle
from dragoman.layers.sinusoids import sinusoids
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.weights import weights_of

USUAL_LENGTH = 25
STRENGTH = 4.0
"""How steeply EOS becomes likely: tried until outputs were of all lengths around the usual one."""


def base_bundle(folder: Path, layers: int = 6, d_model: int = 512) -> Bundle:
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
    weights["projection.tokens.weight"][EOS] = _towards_the_end(d_model)
    info = BundleInfo(model=config, search=SearchOptions().model_dump(mode="json"))
    write_bundle(folder, info, weights, vocab, Card(title="untrained, to measure speed with"))
    return export_bundle(folder, "float32", None)


def _towards_the_end(d_model: int) -> np.ndarray:
    """The direction from an early position to the usual length, as long as makes EOS win about there."""
    table = sinusoids(2 * USUAL_LENGTH, d_model)
    way = table[USUAL_LENGTH] - table[USUAL_LENGTH // 4]
    return (STRENGTH * 8 * way / (way @ way) ** 0.5 / d_model**0.25).astype(np.float32)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--layers", type=int, default=6)
    options.add_argument("--d-model", type=int, default=512)
    given = options.parse_args()
    print(base_bundle(given.folder, given.layers, given.d_model).folder)


if __name__ == "__main__":
    main()
