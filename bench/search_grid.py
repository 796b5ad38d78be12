"""Choose beam size and length penalty on a dev set, and measure the choice on a test set.

    python bench/search_grid.py MODEL --dev-source F --dev-reference F --source F --reference F [--tokenised]

Every beam with every strength of the GNMT penalty translates the dev set; the best by BLEU (of equals, the smaller
beam) translates the test set once.
"""

from itertools import product
from pathlib import Path

import sacrebleu
from report import option_parser, print_values
from texts import read_lines

from dragoman.bundle import open_bundle
from dragoman.decoding.engine import open_engine
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.translation.translator import Translator

BEAMS = (1, 5, 8)
ALPHAS = (0.6, 1.0, 1.4, 1.8, 2.2)


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("model", type=Path)
    for name in ("--dev-source", "--dev-reference", "--source", "--reference"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--tokenised", action="store_true", help="the references are tokenised: BLEU must not do it")
    parser.add_argument("--beams", type=int, nargs="+", default=BEAMS)
    parser.add_argument("--alphas", type=float, nargs="+", default=ALPHAS)
    options = parser.parse_args()
    bundle = open_bundle(options.model)
    tokenise = "none" if options.tokenised else "13a"

    def bleu(beam: int, alpha: float, source: Path, reference: Path) -> float:
        search = SearchOptions(beam_size=beam, penalty=Penalty(alpha=alpha))
        engine = open_engine(bundle, search).engine
        hypotheses = Translator(engine, bundle.vocab, search).translate(read_lines(source))
        return float(sacrebleu.corpus_bleu(hypotheses, [read_lines(reference)], tokenize=tokenise, force=True).score)

    scores = {}
    for beam, alpha in product(options.beams, options.alphas):
        scores[beam, alpha] = bleu(beam, alpha, options.dev_source, options.dev_reference)
        print(f"beam {beam:2}, alpha {alpha}: {scores[beam, alpha]:.2f}", flush=True)
    beam, alpha = max(scores, key=lambda choice: (round(scores[choice], 2), -choice[0]))
    values = {"beam": beam, "alpha": alpha, "dev": scores[beam, alpha]}
    values["test"] = bleu(beam, alpha, options.source, options.reference)
    print_values("search_grid", values, 2)


if __name__ == "__main__":
    main()
