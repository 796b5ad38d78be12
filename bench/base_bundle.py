"""Write an untrained bundle of the paper's base size whose outputs end, to measure speed with.

Random weights almost never produce EOS, and sometimes PAD or BOS, unlike a trained model. Here PAD and BOS are never
likely, and EOS points where the slow sinusoids of the target's position grow: it becomes likelier with every token, and
outputs end after 15 to 25. With `--length`, all outputs have that many tokens: the decoder's own contribution is scaled
down, and EOS depends on the position alone.

    python bench/base_bundle.py FOLDER [--layers 6] [--d-model 512] [--length 30]
"""

from pathlib import Path

import numpy as np
import torch
from report import option_parser, print_values

from dragoman.bundle import Bundle, BundleInfo, Card, demo_folder, open_bundle, write_bundle
from dragoman.decoding.options import SearchOptions
from dragoman.layers.sinusoids import sinusoids
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.models.weights import weights_of
from dragoman.text.vocab import BOS, EOS, PAD
from dragoman.translation.export_check import export_bundle

USUAL_LENGTH = 25
STRENGTH = 4.0
"""How steeply EOS becomes likely: found by trial, so that output lengths vary around the usual one."""

FAINT = 0.01
"""The factor on embeddings and on the decoder's layers, so that the position dominates."""
SURE = 30.0
"""The distance of EOS's score from the other scores."""


def base_bundle(
    folder: Path,
    layers: int = 6,
    d_model: int = 512,
    length: int | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    beam_size: int = 4,
) -> Bundle:
    """Write the bundle with the demo's vocabulary, and its export."""
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
    search = SearchOptions(beam_size=beam_size).model_dump(mode="json")
    info = BundleInfo(model=config, search=search, source_language=languages[0], target_language=languages[1])
    write_bundle(folder, info, weights, vocab, Card(title="untrained, for speed measurements"))
    return export_bundle(folder)


def _towards_the_end(d_model: int) -> np.ndarray:
    """Return the direction from an early position to the usual length, scaled so that EOS wins about there."""
    table = sinusoids(2 * USUAL_LENGTH, d_model)
    direction = table[USUAL_LENGTH] - table[USUAL_LENGTH // 4]
    return (STRENGTH * 8 * direction / (direction @ direction) ** 0.5 / d_model**0.25).astype(np.float32)


def _ending_at(weights: dict[str, np.ndarray], d_model: int, length: int) -> dict[str, np.ndarray]:
    """Make EOS far less likely than other tokens before its position, and far likelier from there on."""
    faint = ("embedding.tokens.weight", "output.weight", "contract.weight")
    weights = {
        name: value * (FAINT if name.startswith("decoder.") and name.endswith(faint) else 1.0)
        for name, value in weights.items()
    }
    table = sinusoids(2 * length, d_model).astype(np.float64)
    table = (table - table.mean(1, keepdims=True)) / table.std(1, keepdims=True)  # like the output of the last norm
    scores = np.where(np.arange(2 * length) < length - 1, -SURE, SURE)
    weights["projection.tokens.weight"][EOS] = np.linalg.lstsq(table, scores, rcond=1e-2)[0].astype(np.float32)
    return weights


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--length", type=int, help="tokens of every output, with EOS")
    options = parser.parse_args()
    bundle = base_bundle(options.folder, options.layers, options.d_model, options.length)
    size = sum(path.stat().st_size for path in bundle.folder.rglob("*") if path.is_file())
    print(bundle.folder)
    print_values("base_bundle", {"bytes": size})


if __name__ == "__main__":
    main()
