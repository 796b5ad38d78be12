"""A run folder made by hand: a log, and a probe of two sentences with heads that become sharper."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.alignment.tokens import Tokens
from dragoman.inspection.evolution import ProbeSnapshot, save_snapshot
from dragoman.inspection.trace import Trace

PAIRS = (("drei alte Hunde", "three old dogs"), ("ein Haus", "a house"))


def validation(update: int, bleu: float) -> dict[str, Any]:
    samples = [[source, target, f"{target} {update}"] for source, target in PAIRS]
    scores = {"loss": 3.0, "bleu": bleu, "chrf": bleu + 20}
    which = {"which": f"update {update:,}", "best": True, "took": 5.0}
    return {"event": "validation", "update": update, "seconds": update * 0.5, **which, **scores, "samples": samples}


def write_run(folder: Path) -> Path:
    folder.mkdir()
    begin = {"event": "begin", "update": 0, "seconds": 0.0, "last": 1000, "time": None, "parameters": 8_000_000}
    events = [begin | {"vocabulary": 4000, "pairs": 12_345, "device": "cpu", "processes": 2, "added": 0}]
    for update in range(50, 201, 50):
        numbers = {"rate": update * 1e-6, "loss": 8 - update / 100, "gradient": 1.0, "tokens_per_second": 3000.0}
        events.append({"event": "update", "update": update, "seconds": update * 0.5, **numbers})
        if update % 100 == 0:
            events.append(validation(update, update / 10))
    lines = (json.dumps(event, ensure_ascii=False) + "\n" for event in events)
    (folder / "log.jsonl").write_text("".join(lines), encoding="utf-8")
    for update in (0, 100, 200):
        write_probe(folder, update)
    return folder


def write_probe(folder: Path, update: int) -> None:
    scores = {"loss": 3.0, "bleu": update / 10, "chrf": update / 10 + 20} if update else {}
    snapshot = ProbeSnapshot(update=update, which=f"update {update:,}", best=update > 0, **scores)
    save_snapshot(snapshot, [_trace(*pair, sharpness=update / 40) for pair in PAIRS], folder)


def _trace(source: str, target: str, sharpness: float) -> Trace:
    read, written = _tokens(source), _tokens(target)
    shapes = {"encoder.layers.0.self_attention": (len(read), len(read))}
    shapes |= {f"decoder.layers.{layer}.cross_attention": (len(written), len(read)) for layer in (0, 1)}
    attention = {}
    for name, shape in shapes.items():
        raised = np.exp(sharpness * np.stack([np.eye(*shape, k) for k in range(3)]))
        attention[name] = (raised / raised.sum(-1, keepdims=True)).astype(np.float32)
    nothing = np.zeros((len(written), 0), np.float32)
    zeros = np.zeros(len(written), np.float32)
    return Trace(read, written, False, zeros, nothing.astype(np.int64), nothing, attention)


def _tokens(text: str) -> Tokens:
    words = text.split()
    ends = [sum(len(word) + 1 for word in words[: i + 1]) - 1 for i in range(len(words))]
    spans = (*zip([0, *ends], ends, strict=False), (len(text), len(text)))
    pieces = (*(f"▁{word}" for word in words), "</s>")
    return Tokens(text, tuple(range(len(pieces))), pieces, spans, (*range(len(words)), -1))
