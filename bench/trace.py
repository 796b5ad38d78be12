"""What a trace costs: the capture of all attention, norms and log-probabilities against one plain forced pass.

Random weights, one sentence of 30 tokens on either side, the small preset (8,000 ids) and the paper's base model. Both
take turns, and the fastest of each counts. Then the size of a file with 100 tokens on either side, 6 + 6 layers and 8
heads. Last, one JSON line, with the larger of the two ratios.

    python bench/trace.py [--seconds 10]
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from dragoman.data.vocab import BOS, EOS, NUM_SPECIALS
from dragoman.inspection.capture import capture
from dragoman.inspection.trace import Tokens, Trace
from dragoman.inspection.trace_file import save
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.models.seq2seq import Seq2Seq

VOCABULARY = {"small": 8_000, "paper-base": 37_000}
TOKENS, LONG = 30, 100


def ids(length: int, vocabulary: int) -> list[int]:
    return [*torch.randint(NUM_SPECIALS, vocabulary, (length - 1,)).tolist(), EOS]


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratio(model: Seq2Seq, source: list[int], target: list[int], limit: float) -> float:
    """Capture / plain pass, each at its fastest: whatever else the machine does can only add to either."""

    @torch.inference_mode()
    def plain() -> object:
        return model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]))

    rounds: list[tuple[float, float]] = []
    end = time.perf_counter() + limit
    while time.perf_counter() < end or len(rounds) < 10:
        rounds.append((seconds(lambda: capture(model, source, target)), seconds(plain)))
    captures, plains = zip(*rounds, strict=True)
    return min(captures) / min(plains)


def side(tokens: list[int]) -> Tokens:
    """Ids as if they were words of six letters."""
    pieces = tuple(f"▁{token:06}" for token in tokens[:-1])
    spans = tuple((7 * i, 7 * i + 6) for i in range(len(pieces)))
    text = " ".join(piece[1:] for piece in pieces)
    words = (*range(len(pieces)), -1)
    return Tokens(text, tuple(tokens), (*pieces, "</s>"), (*spans, (len(text), len(text))), words)


def file_bytes(model: Seq2Seq, source: list[int], target: list[int]) -> int:
    seen = capture(model, source, target)
    trace = Trace(
        side(source),
        side(target),
        False,
        seen.log_probabilities,
        seen.alternative_ids,
        seen.alternative_log_probabilities,
        seen.attention,
        seen.norms,
        pieces={token: f"▁{token:06}" for token in {*target, *seen.alternative_ids.flatten().tolist()}},
    )
    with tempfile.TemporaryDirectory() as folder:
        save(trace, Path(folder) / "long.trace")
        return (Path(folder) / "long.trace").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each model")
    limit = parser.parse_args().seconds
    torch.manual_seed(0)
    ratios = {}
    for name, vocabulary in VOCABULARY.items():
        model = build(preset(name, vocabulary)).eval()
        ratios[name] = ratio(model, ids(TOKENS, vocabulary), ids(TOKENS, vocabulary), limit)
        print(f"{name:10} capture / plain pass {ratios[name]:5.2f}", flush=True)
    size = file_bytes(model, ids(LONG, vocabulary), ids(LONG, vocabulary))
    print(f"{LONG} tokens a side: {size:,} bytes")
    values = {"vs_plain_pass": round(max(ratios.values()), 2), "file_bytes_100": size}
    print(json.dumps({"bench": "trace", "values": values}))


if __name__ == "__main__":
    main()
