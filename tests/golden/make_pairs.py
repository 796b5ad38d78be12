"""Write pair-*.trace: the translation of schema-1.trace forced on other models, to be compared with it.

python tests/golden/make_pairs.py

The model with one uniform head has the same tokens as schema-1.trace; the recurrent model has other tokens and the same
words. scripts/studio_inputs.py and the tests of the pages read the files.
"""

from pathlib import Path

from dragoman.inspection.inspector import Inspector
from dragoman.inspection.interventions import HeadsUniform

GOLDEN = Path(__file__).parent
TEXTS = ("two red dogs.", "zwei rote Hunde.")
UNIFORM = HeadsUniform(where="decoder.layers.0.cross_attention", heads=(0,))

if __name__ == "__main__":
    changed = Inspector.load(GOLDEN / "v1").trace(*TEXTS, interventions=[UNIFORM])
    changed.save(GOLDEN / "pair-tokens.trace")
    Inspector.load(GOLDEN / "v1-recurrent").trace(*TEXTS).save(GOLDEN / "pair-words.trace")
