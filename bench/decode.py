"""What remembering keys and values saves: beam search with the cache against reading the whole prefix at every step.

The base model with random weights, 25-token sources, exactly 30 output tokens, beam 4, batches of 32. Both decoders
make the same decisions in the same search; only the model's `step` differs. Last, one JSON line.

    python bench/decode.py [--rounds 3]
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.data.vocab import EOS, NUM_SPECIALS
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.search import beam_search
from dragoman.models.presets import preset
from dragoman.models.seq2seq import Seq2Seq, State
from dragoman.models.transformer import Memory, Transformer

BATCH, SOURCE, OUTPUT, BEAM = 32, 25, 30, 4
OPTIONS = SearchOptions(beam_size=BEAM, min_length=OUTPUT, max_length=LengthLimit(ratio=0.0, extra=OUTPUT))


@dataclass(frozen=True)
class Prefix(State):
    """All that an uncached decoder has: the memory, and the tokens so far."""

    memory: Memory
    tokens: Tensor

    def select(self, rows: Tensor) -> "Prefix":
        memory = Memory(self.memory.hidden.index_select(0, rows), self.memory.visible.index_select(0, rows))
        return Prefix(memory, self.tokens.index_select(0, rows))


class Uncached(Seq2Seq[Memory, Prefix]):
    """The same model, which begins again at every step."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.projection = model.projection
        self.vocabulary, self.max_target = model.vocabulary, model.max_target

    def encode(self, source: Tensor) -> Memory:
        return self.model.encode(source)

    def start(self, memory: Memory) -> Prefix:
        return Prefix(memory, torch.empty(len(memory.hidden), 0, dtype=torch.int64))

    def step(self, tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        prefix = torch.cat([state.tokens, tokens[:, None]], dim=1)
        logits = self.projection(self.hidden(state.memory, prefix)[:, -1])
        return logits, Prefix(state.memory, prefix)

    def hidden(self, memory: Memory, target: Tensor) -> Tensor:
        return self.model.hidden(memory, target)


def seconds(model: Seq2Seq, source: Tensor) -> tuple[float, list[tuple[int, ...]]]:
    begin = time.perf_counter()
    found = beam_search(model, source, OPTIONS)
    elapsed = time.perf_counter() - begin
    assert all(len(result.best.tokens) == OUTPUT - 1 for result in found)
    return elapsed, [result.best.tokens for result in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="times each decoder takes its turn")
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    config = preset("paper-base")
    model = Transformer(config).eval()
    source = torch.randint(NUM_SPECIALS, config.source_vocabulary, (BATCH, SOURCE))
    source[:, -1] = EOS
    decoders = {"cached": model, "uncached": Uncached(model).eval()}
    times: dict[str, list[float]] = {name: [] for name in decoders}
    answers = {}
    for _ in range(rounds):
        for name, decoder in decoders.items():
            elapsed, answers[name] = seconds(decoder, source)
            times[name].append(elapsed)
    same = sum(a == b for a, b in zip(*answers.values(), strict=True))
    middle = {name: statistics.median(values) for name, values in times.items()}
    for name, value in middle.items():
        print(f"{name:9} {value:6.2f} s   {BATCH / value:6.1f} sentences/s")
    print(f"{same} of {BATCH} outputs are the same")
    ratio = middle["uncached"] / middle["cached"]
    print(json.dumps({"bench": "decode", "values": {"cached_vs_uncached": round(ratio, 2)}}))


if __name__ == "__main__":
    main()
