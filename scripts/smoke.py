"""Decode token ids with an untrained model to check that an installed package is complete. Run outside the tree."""

import torch

from dragoman.decoding.options import SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.text.vocab import EOS

model = build(preset("tiny", vocabulary=50)).eval()
source = torch.tensor([[7, 11, 13, EOS], [5, 6, EOS, 0]])
for result in beam_search(model, source, SearchOptions(beam_size=3, num_best=2)):
    assert len(result.hypotheses) == 2
    print(f"{result.best.score:8.3f}  {' '.join(map(str, result.best.tokens[:12]))} ...")
