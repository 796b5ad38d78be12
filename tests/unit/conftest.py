"""Models that tests of several packages share: tables of bigrams, the built-in model, unchecked exports."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.api import Model
from dragoman.bundle import Bundle, Export, ExportCheck, demo_folder, open_bundle
from dragoman.decoding.options import EngineOptions
from dragoman.export.ctranslate2 import weights_file
from dragoman.io.durable import FileInfo
from dragoman.models.seq2seq import Seq2Seq, State


@dataclass(frozen=True)
class Written(State):
    kind: Int[Tensor, " rows"]
    """Which table each row is written by."""

    def select(self, rows: Int[Tensor, " rows"]) -> "Written":
        return Written(self.kind[rows])


class Bigram(Seq2Seq[Tensor, Written]):
    """The next token depends on the last one alone, by a table; the source's first token says which."""

    def __init__(self, *tables: dict[int, dict[int, float]], vocabulary: int, max_target: int | None = None) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.max_target = max_target
        self.projection = nn.Identity()
        self.logits = torch.full((len(tables), vocabulary, vocabulary), -1e4)
        for kind, table in enumerate(tables):
            for last, following in table.items():
                assert abs(sum(following.values()) - 1.0) < 1e-9
                for token, probability in following.items():
                    self.logits[kind, last, token] = torch.tensor(probability).log()

    def encode(self, source: Int[Tensor, "batch source"]) -> Tensor:
        return source[:, 0] - 4

    def start(self, memory: Tensor) -> Written:
        return Written(memory)

    def step(self, tokens: Int[Tensor, " rows"], state: Written) -> tuple[Float[Tensor, "rows vocabulary"], Written]:
        return self.logits[state.kind, tokens].clone(), state

    def hidden(self, memory: Tensor, target: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n vocabulary"]:
        return self.logits[memory[:, None], target].clone()


@pytest.fixture(scope="session")
def bigram() -> Callable[..., Bigram]:
    """From tables, {last: {next: probability}}, a model; sources that begin with 4 go by the first, 5 by the next."""
    return lambda *tables, **sizes: Bigram(*tables, **sizes).eval()


@pytest.fixture(scope="session")
def exported() -> Callable[[Path], Bundle]:
    """The bundle in a folder, with an export that nobody has tried."""
    return _exported


def _exported(folder: Path) -> Bundle:
    bundle = open_bundle(folder)
    content = weights_file(bundle)
    file = FileInfo(file="model.bin", sha256=hashlib.sha256(content).hexdigest(), num_bytes=len(content))
    export = Export.model_construct(store="float32", file=file, kept=False, proof=ExportCheck.model_construct())
    return replace(bundle, exports=(export,))


@pytest.fixture(scope="session")
def demo() -> Model:
    """The model that is built in, on CTranslate2."""
    return Model(_exported(demo_folder()), EngineOptions("ctranslate2", threads=1))
