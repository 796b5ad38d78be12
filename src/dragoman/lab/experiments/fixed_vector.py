"""One fixed vector as a bottleneck: copying sequences of growing length with and without attention."""

import torch
from torch import Tensor

from dragoman.decoding.search import greedy_search
from dragoman.lab.experiment import Criterion, Experiment, Measurement, Panel
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent import Recurrent
from dragoman.text.vocab import EOS, NUM_SPECIALS, PAD
from dragoman.training.config import LossConfig, OptimizerConfig
from dragoman.training.loss import Objective
from dragoman.training.optimizer import Adam

VOCABULARY, WIDTH, BATCH, LONGEST, RATE = NUM_SPECIALS + 12, 48, 48, 10, 0.01
CONTEXTS = {"fixed vector": "every", "attention": "bahdanau"}


def measure(seed: int, is_smallest: bool) -> Measurement:
    """Train both models to copy, and count the tokens that they copy right at each length."""
    num_updates, num_test = (3, 4) if is_smallest else (500, 100)
    lengths = (2, LONGEST) if is_smallest else (2, 4, 6, 8, LONGEST, 14)
    accuracies = {}
    for name, context in CONTEXTS.items():
        torch.manual_seed(seed)
        model = train(context, num_updates)
        accuracies[name] = tuple(accuracy(model, draw_batch(num_test, length, length)) for length in lengths)
    at = lengths.index(LONGEST)
    return Measurement(
        numbers={
            "fixed_short": accuracies["fixed vector"][0],
            "fixed_long": accuracies["fixed vector"][at],
            "attention_long": accuracies["attention"][at],
            "advantage": accuracies["attention"][at] - accuracies["fixed vector"][at],
        },
        panels=(
            Panel(
                title=f"Copying, trained on 1 to {LONGEST} tokens", x_label="length", y_label="tokens copied right",
                x=lengths, lines=accuracies,
            ),
        ),
    )  # fmt: skip


def draw_batch(num: int, shortest: int, longest: int) -> Tensor:
    """Return random sequences that end with EOS, padded."""
    lengths = torch.randint(shortest, longest + 1, (num, 1))
    tokens = torch.randint(NUM_SPECIALS, VOCABULARY, (num, int(lengths.max()) + 1))
    place = torch.arange(tokens.shape[1])[None, :]
    return tokens.masked_fill(place > lengths, PAD).masked_fill(place == lengths, EOS)


def train(context: str, num_updates: int) -> Recurrent:
    """Train a recurrent model with this use of the source to copy."""
    sizes = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY, "d_model": WIDTH, "d_embedding": WIDTH}
    model = Recurrent(RecurrentConfig.model_validate({**sizes, "context": context, "dropout": 0.0}))
    objective, optimizer = Objective(model, LossConfig(label_smoothing=0.0)), Adam(model, OptimizerConfig())
    for update in range(num_updates):
        tokens = draw_batch(BATCH, 1, LONGEST)
        optimizer.set_rate(RATE * min(1.0, (update + 1) / 50) * (1 - update / num_updates))
        optimizer.zero_grad()
        loss = objective(tokens, tokens) / int((tokens != PAD).sum())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def accuracy(model: Recurrent, tokens: Tensor) -> float:
    """Return the share of tokens that greedy search writes right at their places."""
    right = total = 0
    for row, hypothesis in zip(tokens.tolist(), greedy_search(model, tokens), strict=True):
        wanted = row[: row.index(EOS)]
        right += sum(a == b for a, b in zip(wanted, hypothesis.tokens, strict=False))
        total += len(wanted)
    return right / total


EXPERIMENT = Experiment(
    claim="A source squeezed into one vector of fixed size is a bottleneck: the longer the sequence, the worse; "
    "attention removes it.",
    source="Cho et al. 2014, On the Properties of Neural Machine Translation; Bahdanau et al. 2015",
    prediction="Both copy two tokens; at ten tokens the fixed vector of 48 numbers has learned far less in the same "
    "training, and attention copies nearly all.",
    method=f"GRU models of models/recurrent.py, dimension {WIDTH}, with one fixed vector (Cho) and with additive "
    f"attention (Bahdanau), copy random sequences of 12 symbols: 500 updates of {BATCH} sequences of 1 to {LONGEST} "
    "tokens. Greedy search on 100 new sequences per length; a token counts if it is right at its place.",
    numbers={
        "fixed_short": "tokens copied right at length 2, fixed vector",
        "fixed_long": f"tokens copied right at length {LONGEST}, fixed vector",
        "attention_long": f"tokens copied right at length {LONGEST}, attention",
        "advantage": f"attention minus fixed vector at length {LONGEST}",
    },
    criteria=(
        Criterion(number="fixed_short", side="above", bound=0.9, reason="one vector is enough for short sequences"),
        Criterion(number="fixed_long", side="below", bound=0.7, reason="but not for longer ones"),
        Criterion(number="attention_long", side="above", bound=0.9, reason="attention copies long ones as well"),
    ),
    lesson="",
    measure=measure,
)
