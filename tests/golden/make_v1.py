"""Makes the golden bundles of format 1: a tiny model of each family that has learned a few dozen phrases.

They are committed and must open and translate the same in every later version. This file stays as the account of where
they came from; another machine would give other weights, so it was run once for each.

python tests/golden/make_v1.py NAME
"""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from dragoman.bundle import BundleInfo, Card, CardData, CardScore, write_bundle
from dragoman.bundle.info import Store
from dragoman.decoding.engine import search
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.torch_engine import TorchEngine, load_model
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, ModelConfig, RecurrentConfig, TransformerConfig
from dragoman.models.cost import parameters
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.weights import weights_of
from dragoman.text.subwords import Subwords
from dragoman.text.vocab import BOS, PAD, Vocab, VocabConfig, train_vocab
from dragoman.translation.translator import Translator

HERE = Path(__file__).parent
NUMBERS = {"two": "zwei", "three": "drei", "four": "vier", "ten": "zehn"}
COLOURS = {"red": "rote", "green": "grüne", "old": "alte"}
NOUNS = {"dogs": "Hunde", "houses": "Häuser", "tables": "Tische", "women": "Frauen"}
PAIRS = [
    (f"{number} {colour} {noun}.", f"{NUMBERS[number]} {COLOURS[colour]} {NOUNS[noun]}.")
    for number, colour, noun in product(NUMBERS, COLOURS, NOUNS)
]
TEXTS = ["two red dogs.", "ten old houses.", "four green women.", "three tables.", "", " two\tred  dogs. ", "café 🙂"]
SEARCH = SearchOptions(beam_size=3, stop="safe")


def rows(texts: list[str], subwords: Subwords, first: list[int]) -> torch.Tensor:
    encoded = [torch.tensor(first + subwords.encode([text]).ids.tolist()) for text in texts]
    return pad_sequence(encoded, batch_first=True, padding_value=PAD)


def train(model: Seq2Seq[Any, Any], vocab: Vocab) -> None:
    source = rows([source for source, _ in PAIRS], vocab.source, [])
    target = rows([target for _, target in PAIRS], vocab.target, [BOS])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(300):
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


def exactly_right(model: Seq2Seq[Any, Any], vocab: Vocab) -> float:
    found = Translator(TorchEngine(model), vocab, SEARCH).translate([source for source, _ in PAIRS])
    return 100 * sum(a == b for a, (_, b) in zip(found, PAIRS, strict=True)) / len(PAIRS)


def card(config: ModelConfig, right: float) -> Card:
    return Card(
        title="Numbers, colours and things",
        data=(CardData(name="phrases", pairs=len(PAIRS), licence="Apache-2.0", attribution="tests/golden/make_v1.py"),),
        sizes={"parameters": parameters(config)},
        scores=(CardScore(metric="exactly right, %", value=right, test_set="the phrases it was trained on"),),
        licence="Apache-2.0",
        command="python tests/golden/make_v1.py",
        notes=("A model for the tests of dragoman; of no other use.",),
    )


def make(name: str, config: ModelConfig, vocab: Vocab, store: Store) -> None:
    torch.manual_seed(2017)
    model = build(config)
    train(model, vocab)
    info = BundleInfo(model=config, search=SEARCH.model_dump(mode="json"), source_language="en", target_language="de")
    made_of = card(config, exactly_right(model, vocab))
    bundle = write_bundle(HERE / name, info, weights_of(model), vocab, made_of, store)
    engine = TorchEngine(load_model(bundle))
    expected = {
        "sha256": bundle.sha256,
        "translations": dict(zip(TEXTS, Translator.load(bundle.folder).translate(TEXTS), strict=True)),
        "scores": {
            text: search(engine, rows([text], vocab.source, []).tolist(), SEARCH)[0].best.score for text in TEXTS[:4]
        },
    }
    written = json.dumps(expected, ensure_ascii=False, indent=1) + "\n"
    (HERE / name / "expected.json").write_text(written, encoding="utf-8")
    print(written)


def main() -> None:
    """One joint vocabulary and one matrix for everything, or two of each; in half the space or not."""
    sides = [source for source, _ in PAIRS], [target for _, target in PAIRS]
    joint = train_vocab(*sides, VocabConfig(size=300))
    transformer = TransformerConfig(
        d_model=24, d_ff=40, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0, max_positions=64,
        source_vocabulary=300, target_vocabulary=300,
    )  # fmt: skip
    separate = train_vocab(*sides, VocabConfig(size=285, joint=False))
    recurrent = RecurrentConfig(
        d_model=20, d_embedding=12, dropout=0.0, source_vocabulary=285, target_vocabulary=285
    )  # fmt: skip
    convolutional = ConvolutionalConfig(
        d_model=24, d_embedding=16, num_encoder_layers=1, num_decoder_layers=2, dropout=0.0, max_positions=64,
        source_vocabulary=300, target_vocabulary=300,
    )  # fmt: skip
    models = {
        "v1": (transformer, joint, "float32"),
        "v1-recurrent": (recurrent, separate, "float16"),
        "v1-convolutional": (convolutional, joint, "float16"),
    }
    for name in sys.argv[1:]:
        make(name, *models[name])


if __name__ == "__main__":
    main()
