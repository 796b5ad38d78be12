"""Beam size and length penalty chosen on a dev set, and what they come to on a test set.

    python bench/search_grid.py MODEL --dev-source F --dev-reference F --source F --reference F [--tokenised]

Every beam with every strength of the GNMT penalty translates the dev set; the best by BLEU there, the smaller beam of
equals, translates the test set once. Last, one JSON line.
"""

import argparse
import json
from itertools import product
from pathlib import Path

import sacrebleu
from texts import lines

from dragoman.bundle import open_bundle
from dragoman.decoding.engines import open_engine
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.translator import Translator

BEAMS = (1, 5, 8)
ALPHAS = (0.6, 1.0, 1.4, 1.8, 2.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    for name in ("--dev-source", "--dev-reference", "--source", "--reference"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--tokenised", action="store_true", help="the references are: BLEU must not tokenise again")
    given = parser.parse_args()
    bundle = open_bundle(given.model)
    tokenise = "none" if given.tokenised else "13a"

    def bleu(beam: int, alpha: float, source: Path, reference: Path) -> float:
        search = SearchOptions(beam_size=beam, penalty=Penalty(alpha=alpha))
        engine = open_engine(bundle, search, "auto", None, None).engine
        hypotheses = Translator(engine, bundle.vocab, search).translate(lines(source))
        return float(sacrebleu.corpus_bleu(hypotheses, [lines(reference)], tokenize=tokenise, force=True).score)

    found = {}
    for beam, alpha in product(BEAMS, ALPHAS):
        found[beam, alpha] = bleu(beam, alpha, given.dev_source, given.dev_reference)
        print(f"beam {beam:2}, alpha {alpha}: {found[beam, alpha]:.2f}", flush=True)
    beam, alpha = max(found, key=lambda one: (round(found[one], 2), -one[0]))
    values = {"beam": beam, "alpha": alpha, "dev": round(found[beam, alpha], 2)}
    values["test"] = round(bleu(beam, alpha, given.source, given.reference), 2)
    print(json.dumps({"bench": "search_grid", "values": values}))


if __name__ == "__main__":
    main()
