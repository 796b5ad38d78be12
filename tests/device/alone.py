"""What one process computes on the stand-in, and what on the CPU: python alone.py FOLDER. Prints JSON."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from standin import standin_c as native
from toy_run import ToyRun

from dragoman.api import load
from dragoman.bundle import open_bundle
from dragoman.data.batches import Batch
from dragoman.decoding.options import EngineOptions, SamplingOptions, SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.device import choose_device, device_of
from dragoman.evaluation.likelihood import score_pairs
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.experiment import train_model as train_module
from dragoman.experiment.held_out import TextPairs
from dragoman.experiment.training_data import prepare_run
from dragoman.experiment.validator import Validator
from dragoman.inspection.inspector import Inspector
from dragoman.models.build import build
from dragoman.models.config import TransformerConfig
from dragoman.recipes.recipe import load_recipe
from dragoman.text.vocab import PAD
from dragoman.training import loss as loss_module
from dragoman.training.config import TrainingConfig
from dragoman.training.gradients import Gradients
from dragoman.training.parallel import Group
from dragoman.translation.translator import Translator

GOLDEN = Path(__file__).parents[1] / "golden"
VOCABULARY = 37_000
DEVICES = ("cpu", "standin")
WORDS = ("two", "three", "four"), ("red", "green", "old", "blue"), ("dogs", "women", "tables", "men")
SENTENCES = ["two red dogs.", "four green women and three old tables."]


def chosen() -> dict[str, Any]:
    device = choose_device("auto")
    return {"auto": str(device), "cpu": str(choose_device("cpu")), "second": str(choose_device("standin:1"))}


def updates(folder: Path) -> dict[str, Any]:
    """The losses on both devices: float32 without dropout, R-Drop's two passes, a guided head, other families."""
    cases: dict[str, tuple[str, int, dict[str, Any]]] = {
        "transformer": ("transformer", 50, {"snapshots": {"every": 20, "average": 2}}),
        "r_drop": ("transformer", 5, {"loss": {"r_drop": 1.0}}),
        "microbatches": ("transformer", 5, {"pieces": 2, "optimizer": {"clip": 0.5}}),
        "recompute": ("transformer", 5, {"recompute": True}),
        "guided": ("transformer", 5, {"pieces": 2, "guided_alignment": {"weight": 0.3, "head": 1}}),
        "bahdanau": ("bahdanau", 5, {}),
        "luong": ("luong", 5, {}),
        "convs2s": ("convs2s", 5, {}),
    }
    found = {}
    for name, (family, count, changes) in cases.items():
        runs = [ToyRun(device, family, folder / f"{name}-{device}", count, **changes) for device in ("cpu", "standin")]
        assert all(weight.device.type == "cpu" for run in runs for weight in run.result.weights.values())
        found[name] = [list(run.losses.values()) for run in runs]
        assert all(weight.device.type == "standin" for weight in runs[1].trainer.model.parameters())
    return found


def prefetched(folder: Path) -> dict[str, Any]:
    """The number of processes that make batches ahead by default, and the losses with them."""
    runs = {device: ToyRun(device, "transformer", folder / device, 50, loader_workers="auto") for device in DEVICES}
    return {device: [run.num_workers, list(run.losses.values())] for device, run in runs.items()}


def half(folder: Path) -> dict[str, Any]:
    """The data types of the logits under each precision, and how far the losses are from those of float32."""
    seen: dict[str, set[str]] = {}
    original = loss_module.cross_entropy_then_gradient
    losses = {}
    for precision in ("float32", "bfloat16"):
        dtypes = seen.setdefault(precision, set())

        def note(logits: torch.Tensor, *rest: Any, to: set[str] = dtypes, **named: Any) -> torch.Tensor:
            to.add(str(logits.dtype))
            return original(logits, *rest, **named)

        loss_module.cross_entropy_then_gradient = note
        run = ToyRun("standin", "transformer", folder / precision, 3, precision=precision)
        losses[precision] = list(run.losses.values())
    loss_module.cross_entropy_then_gradient = original
    return {"dtypes": {name: sorted(kinds) for name, kinds in seen.items()}, "losses": losses}


def launches() -> dict[str, Any]:
    """The host's waits and the kernels of one batch with the paper's vocabulary, by the number of tokens."""
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    shape = TransformerConfig(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, **sizes)
    gradients = Gradients(build(shape).to("standin"), TrainingConfig(precision="float32"), Group(), 1)
    found = {}
    for rows in (4, 16):
        ids = np.random.default_rng(0).integers(5, VOCABULARY, (rows, 32)).astype(np.int32)
        batch = Batch(0, ids, ids, "random", np.arange(rows))
        gradients.of_update([batch])
        native.reset()
        gradients.of_update([batch])
        found[str(rows * 32)] = [native.counts()["waits"], sum(native.kernels().values())]
    return found


def memory(folder: Path) -> dict[str, Any]:
    """A run whose memory is too small for a whole batch: the number of microbatches, and its losses."""
    native.reset()
    before = native.counts()
    free = ToyRun("standin", "transformer", folder / "free", 3, rows=200)
    need = native.counts()["peak"] - before["in_use"]
    del free.trainer
    found: dict[str, Any] = {"free": list(free.losses.values())}
    for name, share in (("once", 0.7), ("twice", 0.4)):
        emptied, used = native.counts()["emptied"], native.counts()["in_use"]
        native.set_budget(used + int(need * share))
        try:
            tight = ToyRun("standin", "transformer", folder / name, 3, rows=200)
        finally:
            native.set_budget(0)
        found[name] = {
            "losses": list(tight.losses.values()),
            "microbatches": tight.trainer.num_microbatches,
            "emptied": native.counts()["emptied"] - emptied,
            "end": tight.events[-1],
        }
        del tight
    return found


def memory_of_decoding(_: Path) -> dict[str, Any]:
    """Validation, search, sampling and scoring whose memory is too small for a whole batch, and with enough."""
    bundle = open_bundle(GOLDEN / "v1")
    translator = Translator.load(bundle, EngineOptions("torch", device="standin"))
    model = Inspector.of(bundle, device="standin").model
    sentences = [f"{' '.join(choice)}." for choice in product(*WORDS)]
    engine, encoded = TorchEngine(model), bundle.vocab.source.encode(sentences)
    tokens = [encoded.take(np.array([index])).padded(PAD)[0].tolist() for index in range(len(sentences))]
    sampler = replace(translator, sampling=SamplingOptions(seed=3))
    held_out = TextPairs("dev", sentences, sentences[::-1])
    validate = Validator([held_out], bundle.vocab, SearchOptions(beam_size=2), MetricOptions())

    def scores() -> list[float]:
        scored = score_pairs(model, bundle.vocab, sentences, sentences[::-1])
        return [likelihood.log_probability for likelihood in scored]

    def validation() -> list[float]:
        scores = validate(model)
        return [scores[name] for name in ("loss", "bleu", "chrf")]

    works: dict[str, Callable[[], list[Any]]] = {
        "search": lambda: translator.translate(sentences),
        "sampling": lambda: sampler.translate(sentences),
        "scoring": scores,
        "rescoring": lambda: list(chain(*engine.score(tokens, tokens[::-1]))),
        "validation": validation,
    }
    found = {}
    for name, work in works.items():
        native.reset()
        before = native.counts()["in_use"]
        free = work()
        need, emptied = native.counts()["peak"] - before, native.counts()["emptied"]
        native.set_budget(before + int(need * 0.4))
        try:
            tight = work()
        finally:
            native.set_budget(0)
        found[name] = {"free": free, "tight": tight, "emptied": native.counts()["emptied"] - emptied}
    return found


def checkpoints(folder: Path) -> dict[str, Any]:
    """A run of 30 updates that changes its device after 10 and 20, and one that does not."""
    every = {"checkpoints": {"every": 10}, "validate_every": 10}
    straight = ToyRun("cpu", "transformer", folder / "straight", 30, **every)
    losses: dict[int, float] = {}
    resumed = []
    for device, last in (("cpu", 10), ("standin", 20), ("cpu", 30)):
        run = ToyRun(device, "transformer", folder / "moved", last, **every)
        losses |= run.losses
        resumed += [event for event in run.events if event["event"] == "resumed"]
    return {"straight": list(straight.losses.values()), "moved": list(losses.values()), "resumed": resumed}


def finetuned(folder: Path) -> dict[str, Any]:
    """A training that begins with a model: whether the device computes before it, where it translates, its scores."""
    found: dict[str, Any] = {}
    original = train_module.translate_together
    folder.mkdir()
    sentences = [f"{' '.join(choice)}." for choice in product(*WORDS)]
    for side, texts in (("en", sentences), ("de", sentences[::-1])):
        (folder / f"text.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    child = {
        "name": "child",
        "data": {"train": [{"source": "text.en", "target": "text.de"}], "split": 4},
        "init": {"bundle": str(GOLDEN / "v1"), "keep": {"source": "text.en"}},
        "training": {
            "batch": {"tokens": 200},
            "schedule": {"factors": ["warmup"], "rate": 0.001, "warmup": 2},
            "stop": {"updates": 2, "metric": "loss"},
            "precision": "float32",
        },
    }
    (folder / "recipe.yaml").write_text(json.dumps(child), encoding="utf-8")  # JSON is YAML
    for name in DEVICES:
        native.reset()
        prepare_run(load_recipe(folder / "recipe.yaml"), folder / name, num_workers=1, device=name)
        kernels, places, rows = sum(native.kernels().values()), list[str](), list[dict[str, Any]]()

        def note(model: Any, *rest: Any, to: list[str] = places) -> list[str]:
            to.append(device_of(model).type)
            return original(model, *rest)

        def on_event(event: dict[str, Any], to: list[dict[str, Any]] = rows) -> None:
            to.extend(event["rows"] if event["event"] == "comparison" else [])

        train_module.translate_together = note
        train_module.train_model(folder / name, Group(device=choose_device(name)), on_event)
        found[name] = {"kernels": kernels, "places": places, "rows": rows}
    train_module.translate_together = original
    return found


def use() -> dict[str, Any]:
    """A bundle on both devices: translations of several kinds, scores of pairs, word links, and a trace."""
    found: dict[str, Any] = {}
    for name in ("v1", "v1-recurrent", "v1-convolutional"):
        bundle = open_bundle(GOLDEN / name)
        of_device: dict[str, Any] = {}
        for device in ("cpu", "standin"):
            translator = Translator.load(bundle, EngineOptions("torch", device=device))
            inspector = Inspector.of(bundle, device=device)
            assert next(inspector.model.parameters()).device.type == device
            sampler = replace(translator, sampling=SamplingOptions(seed=3, top_p=0.9))
            trace = inspector.trace(SENTENCES[0])
            scored = score_pairs(inspector.model, bundle.vocab, SENTENCES, SENTENCES[::-1])
            model = load(GOLDEN / name, engine="torch", device=device)
            of_device[device] = {
                "begun": model.translate(SENTENCES[0], prefix="zwei"),
                "with terms": model.translate(SENTENCES, glossary={"dogs": "Wölfe"}),
                "aligned": model.align(SENTENCES, SENTENCES[::-1]),
                "alternatives": [one.word for one in model.alternatives(SENTENCES[0], num=2)],
                "translated": translator.translate(SENTENCES),
                "sampled": sampler.translate(SENTENCES),
                "scores": [likelihood.log_probability for likelihood in scored],
                "trace": [float(weights.sum()) for weights in trace.attention.values()],
            }
        found[name] = of_device
    return found


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    found = {"chosen": chosen(), "launches": launches(), "use": use()}
    for part in (updates, prefetched, half, memory, memory_of_decoding, checkpoints, finetuned):
        found[part.__name__] = part(folder / part.__name__)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
