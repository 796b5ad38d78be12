"""A training of a few seconds: what a test of `dragoman train` finds in its folder."""

from pathlib import Path

from dragoman.data.dates import dates

RECIPE = """\
name: short
data:
  train:
    - source: a.en
      target: a.iso
  split: 20
  vocabulary: {size: 380}
model: {d_model: 32, d_ff: 48, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  batch: {tokens: 512}
  batches_per_update: 2
  schedule: {factors: [warmup, linear], rate: 0.002, warmup: 5}
  stop: {updates: 30}
  validate_every: 30
"""


def write(folder: Path, num: int = 400) -> None:
    """Two files of so many dates, and the recipe."""
    for side, texts in zip(("en", "iso"), zip(*dates(num, seed=1), strict=True), strict=True):
        (folder / f"a.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (folder / "r.yaml").write_text(RECIPE, encoding="utf-8")
