"""Compare beam search with cached keys and values against reading the whole prefix at every step.

The base model with random weights, 25-token sources, exactly 30 output tokens, beam 4, batches of 32. Both decoders
make the same decisions in the same search; only the model's `step` differs.

    python bench/decode.py [--rounds 3] [--preset paper-base]
"""

import statistics
import time
from dataclasses import dataclass

import torch
from report import option_parser, print_values
from torch import Tensor

from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.models.presets import preset
from dragoman.models.seq2seq import Seq2Seq, State
from dragoman.models.transformer import Transformer, TransformerMemory
from dragoman.text.vocab import EOS, NUM_SPECIALS

BATCH, SOURCE, OUTPUT, BEAM = 32, 25, 30, 4
OPTIONS = SearchOptions(beam_size=BEAM, min_length=OUTPUT, max_length=LengthLimit(ratio=0.0, extra=OUTPUT))


@dataclass(frozen=True)
class Prefix(State):
    """The state of an uncached decoder: the memory and the tokens so far."""

    memory: TransformerMemory
    tokens: Tensor

    def select(self, rows: Tensor) -> "Prefix":
        memory = TransformerMemory(self.memory.hidden.index_select(0, rows), self.memory.visible.index_select(0, rows))
        return Prefix(memory, self.tokens.index_select(0, rows))


class Uncached(Seq2Seq[TransformerMemory, Prefix]):
    """The same model, recomputing the prefix at every step."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.projection = model.projection
        self.vocabulary, self.max_target = model.vocabulary, model.max_target

    def encode(self, source: Tensor) -> TransformerMemory:
        return self.model.encode(source)

    def start(self, memory: TransformerMemory) -> Prefix:
        return Prefix(memory, torch.empty(len(memory.hidden), 0, dtype=torch.int64))

    def step(self, tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        prefix = torch.cat([state.tokens, tokens[:, None]], dim=1)
        logits = self.projection(self.hidden(state.memory, prefix)[:, -1])
        return logits, Prefix(state.memory, prefix)

    def hidden(self, memory: TransformerMemory, target: Tensor) -> Tensor:
        return self.model.hidden(memory, target)


def seconds(model: Seq2Seq, source: Tensor) -> tuple[float, list[tuple[int, ...]]]:
    begin = time.perf_counter()
    results = beam_search(model, source, OPTIONS)
    elapsed = time.perf_counter() - begin
    assert all(len(result.best.tokens) == OUTPUT - 1 for result in results)
    return elapsed, [result.best.tokens for result in results]


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each decoder")
    parser.add_argument("--preset", default="paper-base")
    parser.add_argument("--batch", type=int, default=BATCH)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = preset(options.preset)
    model = Transformer(config).eval()
    source = torch.randint(NUM_SPECIALS, config.source_vocabulary, (options.batch, SOURCE))
    source[:, -1] = EOS
    decoders = {"cached": model, "uncached": Uncached(model).eval()}
    times: dict[str, list[float]] = {name: [] for name in decoders}
    answers = {}
    for _ in range(options.rounds):
        for name, decoder in decoders.items():
            elapsed, answers[name] = seconds(decoder, source)
            times[name].append(elapsed)
    same = sum(a == b for a, b in zip(*answers.values(), strict=True))
    middle = {name: statistics.median(values) for name, values in times.items()}
    for name, value in middle.items():
        print(f"{name:9} {value:6.2f} s   {options.batch / value:6.1f} sentences/s")
    print(f"{same} of {options.batch} outputs are equal")
    ratio = middle["uncached"] / middle["cached"]
    print_values("decode", {"cached_vs_uncached": ratio}, 2)


if __name__ == "__main__":
    main()
