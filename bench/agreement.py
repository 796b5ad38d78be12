"""Compare CTranslate2 with torch (C2): the texts of both engines on real sentences, and of other batches.

- `identical_beam1`, `identical_beam5`: share of equal texts in float32. Those that differ are listed with both scores.
- `batch_dependent_float32`, `batch_dependent_int8`: share of texts that change when each sentence is searched alone.
- `int8_bleu_difference`: BLEU of int8 less that of float32, with its 95 % interval by paired bootstrap.

    python bench/agreement.py MODEL --source FILE --reference FILE [--sentences 5000] [--tokenised]
"""

import argparse
from pathlib import Path
from statistics import quantiles

import numpy as np
from report import option_parser, print_values
from sacrebleu.metrics.bleu import BLEU
from texts import read_lines

from dragoman.bundle import open_bundle
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.engine import Engine, search
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.translation.translator import Translator

RESAMPLES = 1000


def parse() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", nargs="+", required=True)
    parser.add_argument("--reference", nargs="+", required=True)
    parser.add_argument("--sentences", type=int, default=5000)
    parser.add_argument("--tokenised", action="store_true", help="the references are tokenised: BLEU must not do it")
    return parser.parse_args()


def identical(torch: Engine, exact: Engine, rows: list[list[int]], options: SearchOptions) -> float:
    pairs = list(zip(search(torch, rows, options), search(exact, rows, options), strict=True))
    different = [number for number, (first, second) in enumerate(pairs) if first.best.tokens != second.best.tokens]
    for number in different:
        scores = " and ".join(f"{result.best.score:.6f}" for result in pairs[number])
        print(f"beam {options.beam_size}, sentence {number + 1}: scores of torch and ctranslate2: {scores}")
    print(f"beam {options.beam_size}: {len(rows) - len(different)} of {len(rows)} texts are equal", flush=True)
    return 1 - len(different) / len(rows)


def batch_dependent(engine: Engine, rows: list[list[int]], options: SearchOptions) -> float:
    together = search(engine, rows, options)
    alone = [search(engine, [row], options)[0] for row in rows]
    different = sum(a.best.tokens != b.best.tokens for a, b in zip(together, alone, strict=True))
    return different / len(rows)


def bleu_difference(
    judge: BLEU, first: list[str], second: list[str], references: list[str]
) -> tuple[float, float, float]:
    statistics = [np.array(judge._extract_corpus_statistics(texts, [references])) for texts in (first, second)]

    def score(table: np.ndarray) -> float:
        return float(judge._aggregate_and_compute(table).score)

    draw = np.random.default_rng(12345)
    differences = []
    for _ in range(RESAMPLES):
        sample = draw.integers(0, len(references), len(references))
        differences.append(score(statistics[1][sample]) - score(statistics[0][sample]))
    ends = quantiles(differences, n=40)
    return score(statistics[1]) - score(statistics[0]), ends[0], ends[-1]


def main() -> None:
    arguments = parse()
    bundle = open_bundle(arguments.model)
    sources = [text for name in arguments.source for text in read_lines(name)][: arguments.sentences]
    references = [text for name in arguments.reference for text in read_lines(name)][: arguments.sentences]
    options = SearchOptions.model_validate({**bundle.info.search, "stop": "count"})
    exact, rounded = (CTranslate2Engine.load(bundle, compute=compute) for compute in ("float32", "int8"))
    torch = TorchEngine.load(bundle)
    rows = [bundle.vocab.source.encode([text]).ids.tolist() for text in sources]
    values: dict[str, float] = {"sentences": len(rows)}
    for beam in (1, 5):
        values[f"identical_beam{beam}"] = identical(torch, exact, rows, options.model_copy(update={"beam_size": beam}))
    for name, engine in (("float32", exact), ("int8", rounded)):
        values[f"batch_dependent_{name}"] = batch_dependent(engine, rows, options)
        print(name, "in batches and alone:", values[f"batch_dependent_{name}"], flush=True)
    texts = [Translator(engine, bundle.vocab, options).translate(sources) for engine in (exact, rounded)]
    judge = BLEU(tokenize="none" if arguments.tokenised else "13a", force=True)
    difference, low, high = bleu_difference(judge, texts[0], texts[1], references)
    print(judge.get_signature())
    print_values("agreement", values | {"int8_bleu_difference": difference, "int8_low": low, "int8_high": high}, 4)


if __name__ == "__main__":
    main()
