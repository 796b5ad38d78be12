"""Compare the capture of all attention, norms and log-probabilities with one plain forced pass.

Random weights, one sentence of 30 tokens a side, the small preset (8,000 ids) and the paper's base model. Both take
turns, and the fastest run of each counts. Then the size of a trace file with 100 tokens a side and the last model.
`vs_plain_pass` is the larger ratio.

    python bench/trace.py [--seconds 10] [--presets small paper-base]
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from report import option_parser, print_values

from dragoman.alignment.tokens import Tokens
from dragoman.inspection.capture import capture
from dragoman.inspection.trace import Trace
from dragoman.models.build import build
from dragoman.models.presets import preset
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS

VOCABULARY = {"tiny": 8_000, "small": 8_000, "paper-base": 37_000}
TOKENS, LONG = 30, 100


def ids(length: int, vocabulary: int) -> list[int]:
    return [*torch.randint(NUM_SPECIALS, vocabulary, (length - 1,)).tolist(), EOS]


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratio(model: Seq2Seq, source: list[int], target: list[int], limit: float) -> float:
    """Return capture / plain pass, each at its fastest: other processes can only add to either."""

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
    """Return the ids as words of six letters."""
    pieces = tuple(f"▁{token:06}" for token in tokens[:-1])
    spans = tuple((7 * i, 7 * i + 6) for i in range(len(pieces)))
    text = " ".join(piece[1:] for piece in pieces)
    words = (*range(len(pieces)), -1)
    return Tokens(text, tuple(tokens), (*pieces, "</s>"), (*spans, (len(text), len(text))), words)


def file_bytes(model: Seq2Seq, source: list[int], target: list[int]) -> int:
    captured = capture(model, source, target)
    trace = Trace(
        side(source),
        side(target),
        False,
        captured.log_probabilities,
        captured.alternative_ids,
        captured.alternative_log_probabilities,
        captured.attention,
        captured.norms,
        pieces={token: f"▁{token:06}" for token in {*target, *captured.alternative_ids.flatten().tolist()}},
    )
    with tempfile.TemporaryDirectory() as folder:
        trace.save(Path(folder) / "long.trace")
        return (Path(folder) / "long.trace").stat().st_size


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each model")
    parser.add_argument("--presets", nargs="+", choices=VOCABULARY, default=["small", "paper-base"])
    options = parser.parse_args()
    torch.manual_seed(0)
    ratios = {}
    for name in options.presets:
        vocabulary = VOCABULARY[name]
        model = build(preset(name, vocabulary)).eval()
        ratios[name] = ratio(model, ids(TOKENS, vocabulary), ids(TOKENS, vocabulary), options.seconds)
        print(f"{name:10} capture / plain pass {ratios[name]:5.2f}", flush=True)
    size = file_bytes(model, ids(LONG, vocabulary), ids(LONG, vocabulary))
    print(f"{LONG} tokens a side: {size:,} bytes")
    print_values("trace", {"vs_plain_pass": max(ratios.values()), "file_bytes_100": size}, 2)


if __name__ == "__main__":
    main()
