"""A little task of two target languages: the same English words, in German or in French."""

import random
from pathlib import Path

GERMAN = {"dog": "Hund", "house": "Haus", "tree": "Baum", "ball": "Ball", "red": "rot", "old": "alt", "big": "groß"}
FRENCH = {"dog": "chien", "house": "maison", "tree": "arbre", "ball": "balle", "red": "rouge", "old": "vieux"}
FRENCH["big"] = "grand"
DICTIONARIES = {"de": GERMAN, "fr": FRENCH}

RECIPE = """\
name: two languages
source_language: en
target_language: de
data:
  train:
    - {name: german, source: train.en, target: train.de}
    - {name: french, source: train.en, target: train.fr, target_language: fr}
  split: 40
  test:
    - {name: test-de, source: test.en, target: test.de}
    - {name: test-fr, source: test.en, target: test.fr, target_language: fr}
  vocabulary: {size: 320}
  clean: {policies: {duplicate: keep, leak: keep}}
model: {d_model: 48, d_ff: 96, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0}
training:
  batch: {tokens: 500}
  schedule: {factors: [warmup, linear], rate: 0.005, warmup: 20}
  guided_alignment: {weight: 0.3}
  stop: {updates: 200, metric: bleu}
  validate_every: 100
  log_every: 40
  precision: float32
validation: {search: {beam_size: 2}, samples: 2}
"""


def sentences(count: int, seed: int) -> list[str]:
    """Return sentences of one to three different words."""
    draw = random.Random(seed)
    return [" ".join(draw.sample(list(GERMAN), k=draw.randint(1, 3))) for _ in range(count)]


def translate(sentence: str, language: str) -> str:
    """Translate word by word."""
    return " ".join(DICTIONARIES[language][word] for word in sentence.split())


def write(folder: Path, count: int = 600) -> Path:
    """Write the files and the recipe; return the path of the recipe."""
    for name, num, seed in (("train", count, 1), ("test", 30, 2)):
        lines = sentences(num, seed)
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        for language in DICTIONARIES:
            text = "".join(f"{translate(line, language)}\n" for line in lines)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path
