"""Whether CTranslate2 gives what torch gives (C2): texts of both engines on real sentences, and of other batches.

- `identical_beam1`, `identical_beam5`: share of texts that are the same in float32. Those that differ are listed, with
  both scores.
- `batch_dependent_float32`, `batch_dependent_int8`: share of texts that come out otherwise when each is searched alone.
- `int8_bleu_difference`: BLEU of int8 less that of float32, with its 95 % interval by paired bootstrap.

    python bench/agreement.py MODEL --source FILE --reference FILE [--sentences 5000] [--tokenised]

Last, one JSON line.
"""

import argparse
import json
from pathlib import Path
from statistics import quantiles

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from dragoman.bundle import open_bundle
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.engines import Engine, search
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.decoding.translator import Translator
from dragoman.evaluation.text import read_text

RESAMPLES = 1000


def main() -> None:
    given = _options()
    bundle = open_bundle(given.model)
    sources = [text for name in given.source for text in read_text(name).lines][: given.sentences]
    references = [text for name in given.reference for text in read_text(name).lines][: given.sentences]
    options = SearchOptions.model_validate({**bundle.info.search, "stop": "count"})
    exact, rounded = (CTranslate2Engine.load(bundle, compute=compute) for compute in ("float32", "int8"))
    torch = TorchEngine.load(bundle)
    rows = _rows(Translator(exact, bundle.vocab), sources)
    values: dict[str, float] = {"sentences": len(rows)}
    for beam in (1, 5):
        wide = options.model_copy(update={"beam_size": beam})
        values[f"identical_beam{beam}"] = _identical(torch, exact, rows, wide)
    for name, engine in (("float32", exact), ("int8", rounded)):
        values[f"batch_dependent_{name}"] = _batch_dependent(engine, rows, options)
        print(name, "in batches and alone:", values[f"batch_dependent_{name}"], flush=True)
    texts = [Translator(engine, bundle.vocab, options).translate(sources) for engine in (exact, rounded)]
    judge = BLEU(tokenize="none" if given.tokenised else "13a", force=True)
    difference, low, high = _difference(judge, texts[0], texts[1], references)
    values |= {"int8_bleu_difference": difference, "int8_low": low, "int8_high": high}
    print(judge.get_signature())
    print(json.dumps({"bench": "agreement", "values": {name: round(value, 4) for name, value in values.items()}}))


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path)
    options.add_argument("--source", nargs="+", required=True)
    options.add_argument("--reference", nargs="+", required=True)
    options.add_argument("--sentences", type=int, default=5000)
    options.add_argument("--tokenised", action="store_true", help="the references are: BLEU must not tokenise again")
    return options.parse_args()


def _rows(translator: Translator, sources: list[str]) -> list[list[int]]:
    return [translator.vocab.source.encode([text]).ids.tolist() for text in sources]


def _identical(torch: Engine, exact: Engine, rows: list[list[int]], options: SearchOptions) -> float:
    pairs = list(zip(search(torch, rows, options), search(exact, rows, options), strict=True))
    other = [number for number, (one, two) in enumerate(pairs) if one.best.tokens != two.best.tokens]
    for number in other:
        scores = " and ".join(f"{found.best.score:.6f}" for found in pairs[number])
        print(f"beam {options.beam_size}, sentence {number + 1}: scores of torch and ctranslate2: {scores}")
    print(f"beam {options.beam_size}: {len(rows) - len(other)} of {len(rows)} texts are the same", flush=True)
    return 1 - len(other) / len(rows)


def _batch_dependent(engine: Engine, rows: list[list[int]], options: SearchOptions) -> float:
    together = search(engine, rows, options)
    alone = [search(engine, [row], options)[0] for row in rows]
    differing = sum(a.best.tokens != b.best.tokens for a, b in zip(together, alone, strict=True))
    return differing / len(rows)


def _difference(judge: BLEU, one: list[str], two: list[str], references: list[str]) -> tuple[float, float, float]:
    statistics = [np.array(judge._extract_corpus_statistics(texts, [references])) for texts in (one, two)]

    def score(table: np.ndarray) -> float:
        return float(judge._aggregate_and_compute(table).score)

    draw = np.random.default_rng(12345)
    seen = []
    for _ in range(RESAMPLES):
        places = draw.integers(0, len(references), len(references))
        seen.append(score(statistics[1][places]) - score(statistics[0][places]))
    ends = quantiles(seen, n=40)
    return score(statistics[1]) - score(statistics[0]), ends[0], ends[-1]


if __name__ == "__main__":
    main()
