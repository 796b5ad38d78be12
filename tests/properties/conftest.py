"""Small random models of every family, loud enough to have opinions, for whatever must hold for all of them."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import jaxtyping
import pytest
import torch

from dragoman.config import Config
from dragoman.models.build import build
from dragoman.models.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from dragoman.models.convolutional import Convolutional
from dragoman.models.seq2seq import Seq2Seq

LOUDNESS = {torch.float64: 2.5, torch.float32: 1.5}
"""What matrices are multiplied by. As they are initialised, models find all tokens about equally probable. The louder a
model, the more it magnifies rounding, so in float32 it must speak more softly to stay within 1e-5. The Transformer's
feed-forward sub-layers stay as they are: loud, they would drown what attention says. ConvS2S begins with embeddings of
a tenth: only they are louder, and by more."""


def transformer(vocabulary: int, **changes: object) -> TransformerConfig:
    sizes = {"d_model": 12, "d_ff": 20, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 2}
    fields = sizes | {"tie": "none", "max_positions": 40} | changes
    return TransformerConfig(source_vocabulary=11, target_vocabulary=vocabulary, **fields)


def recurrent(vocabulary: int, **changes: object) -> RecurrentConfig:
    fields = {"d_model": 12, "d_embedding": 10} | changes
    return RecurrentConfig(source_vocabulary=11, target_vocabulary=vocabulary, **fields)


def convolutional(vocabulary: int, **changes: object) -> ConvolutionalConfig:
    sizes = {"d_model": 12, "d_embedding": 10, "num_encoder_layers": 2, "num_decoder_layers": 2, "max_positions": 40}
    return ConvolutionalConfig(source_vocabulary=11, target_vocabulary=vocabulary, **(sizes | changes))


FAMILIES: dict[str, Callable[[int], Config]] = {
    "transformer": transformer,
    "transformer-pre": partial(transformer, norm="pre", positions="learned", attention_bias=True, d_k=5, d_v=3),
    "transformer-rotary": partial(transformer, norm="pre", positions="rotary", activation="swish"),
    "first": partial(recurrent, context="first", cell="lstm", num_layers=2, tie="target"),
    "every": partial(recurrent, context="every", cell="tanh"),
    "bahdanau": recurrent,
    "dot-local-m": partial(recurrent, context="luong", score="dot", locality="local-m", window=2),
    "general-local-p": partial(recurrent, context="luong", score="general", locality="local-p", window=2),
    "concat": partial(
        recurrent, context="luong", score="concat", cell="lstm", bidirectional=False, reverse_source=True
    ),
    "location": partial(recurrent, context="luong", score="location", max_locations=5),
    "convs2s": convolutional,
    "convs2s-wide": partial(convolutional, kernel_size=5, weight_norm=False, tie="target", num_decoder_layers=1),
}

MakeModel = Callable[..., Seq2Seq]


@cache
def make(name: str, seed: int, dtype: torch.dtype = torch.float64, vocabulary: int = 9) -> Seq2Seq:
    """One model for each seed, ready to decode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build(FAMILIES[name](vocabulary)).eval().to(dtype)
    with torch.no_grad():
        for where, parameter in model.named_parameters():
            if isinstance(model, Convolutional):
                parameter.mul_(4.0 * LOUDNESS[dtype] if where.endswith(("tokens.weight", "table")) else 1.0)
            elif parameter.dim() > 1 and "feed_forward" not in where:
                parameter.mul_(LOUDNESS[dtype])
    return model


@pytest.fixture(autouse=True, scope="module")
def _shapes_unchecked() -> Iterator[None]:
    """Checking shapes takes three quarters of the time of such small models; one property asks for it again."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """From the name of a family, a seed, and if need be a dtype and a vocabulary's size, a model."""
    return make


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> MakeModel:
    """The same for one family after the other."""
    return partial(make, request.param)
