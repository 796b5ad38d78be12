"""The rows of the paper's Table 3 for any Transformer recipe: each changes one thing, trained with several seeds."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from dragoman.experiment.run_state import is_finished
from dragoman.lab.experiment import Interval
from dragoman.models.config import TransformerShape
from dragoman.recipes.recipe import Recipe, override_recipe

BASE: Final = "base"
ROWS: Final = {
    "A": "heads, with d_k = d_v = d_model / h",
    "B": "d_k alone",
    "C": "size",
    "D": "dropout and label smoothing",
    "E": "learned positions instead of sinusoids",
}
"""The rows of Table 3, section 6.2 of the paper, and what they change."""


class Variation(NamedTuple):
    """A model that differs from the base in one thing."""

    row: str
    """The row of Table 3; empty for the base."""
    name: str
    """The name of the variation, such as heads-1: also that of its folder."""
    changes: tuple[str, ...]
    """The recipe keys that differ, as for `dragoman train --set`."""


class SeedMean(NamedTuple):
    """A number over the seeds; without an interval for a single seed."""

    mean: float
    interval: Interval | None

    @staticmethod
    def of(values: Sequence[float]) -> "SeedMean":
        """Return the mean of the values, and its interval if there are several."""
        return SeedMean(sum(values) / len(values), Interval.of(values) if len(values) > 1 else None)


class AblationResult(NamedTuple):
    """The trained models of a variation, compared on the dev pairs with the base models of the same seeds."""

    variation: Variation
    num_seeds: int
    parameters: int
    perplexity: SeedMean
    bleu: SeedMean
    gain: SeedMean | None
    """BLEU less that of the base, seed by seed; None for the base itself."""


def variations(recipe: Recipe, rows: Sequence[str] = tuple(ROWS)) -> list[Variation]:
    """Return the base and the variations of the given rows; raise ValueError for another model than a Transformer.

    The factors are the paper's: its base has 8 heads, d_k 64, 6 layers, d_model 512 and d_ff 2048, and row A, for
    instance, has 1, 4, 16 and 32 heads. A variation that is the base itself, or not possible, is left out.
    """
    shape = recipe.model
    if not isinstance(shape, TransformerShape):
        raise ValueError(f"Table 3 varies a Transformer, and this recipe has a {shape.family} model")
    found = [Variation("", BASE, ())]
    for variation in _all_variations(shape):
        if variation.row in rows and override_recipe(recipe, variation.changes) != recipe:
            found.append(variation)
    return found


def _all_variations(shape: TransformerShape) -> Iterator[Variation]:
    heads, d_model = shape.num_heads, shape.d_model
    for number in sorted({1, heads // 2, 2 * heads, 4 * heads} - {0, heads}):
        if d_model % number == 0:
            yield _variation("A", f"heads-{number}", num_heads=number, d_k=d_model // number, d_v=d_model // number)
    for number in sorted({shape.key_width // 4, shape.key_width // 2} - {0}):
        yield _variation("B", f"key-width-{number}", d_k=number, d_v=shape.value_width)
    encoder, decoder = shape.num_encoder_layers, shape.num_decoder_layers
    for third in (1, 2, 4):
        layers = [max(1, round(number * third / 3)) for number in (encoder, decoder)]
        name = f"layers-{layers[0]}" if layers[0] == layers[1] else f"layers-{layers[0]}-{layers[1]}"
        yield _variation("C", name, num_encoder_layers=layers[0], num_decoder_layers=layers[1])
    for number in (d_model // 2, 2 * d_model):
        if number % heads == 0:
            yield _variation("C", f"width-{number}", d_model=number, d_k=number // heads, d_v=number // heads)
    for number in (shape.d_ff // 2, 2 * shape.d_ff):
        yield _variation("C", f"inner-width-{number}", d_ff=number)
    for rate in (0.0, 0.2):
        yield _variation("D", f"dropout-{rate:g}", dropout=rate)
    for rate in (0.0, 0.2):
        yield Variation("D", f"smoothing-{rate:g}", (f"training.loss.label_smoothing={rate:g}",))
    yield _variation("E", "learned-positions", positions="learned")


def _variation(row: str, name: str, **changes: object) -> Variation:
    return Variation(row, name, tuple(f"model.{key}={value}" for key, value in changes.items()))


def run_folder(out: Path, variation: Variation, seed: int) -> Path:
    """Return the folder of a training."""
    return out / variation.name / f"seed-{seed}"


def read_results(out: Path, chosen: Sequence[Variation]) -> list[AblationResult]:
    """Return the results of the variations that have finished trainings."""
    scores = {variation.name: _finished(out / variation.name) for variation in chosen}
    base = scores.get(BASE, {})
    results = []
    for variation in chosen:
        if not (of_seeds := scores[variation.name]):
            continue
        common = [seed for seed in of_seeds if seed in base]
        gains = [of_seeds[seed]["bleu"] - base[seed]["bleu"] for seed in common]
        results.append(
            AblationResult(
                variation,
                len(of_seeds),
                int(next(iter(of_seeds.values()))["parameters"]),
                SeedMean.of([each["perplexity"] for each in of_seeds.values()]),
                SeedMean.of([each["bleu"] for each in of_seeds.values()]),
                SeedMean.of(gains) if gains and variation.name != BASE else None,
            )
        )
    return results


def _finished(folder: Path) -> dict[str, dict[str, float]]:
    """Return the scores of the finished trainings in the folder of a variation, by the name of the seed's folder."""
    runs = [run for run in sorted(folder.glob("seed-*")) if is_finished(run)]
    return {run.name: _scores(run) for run in runs}


def _scores(run: Path) -> dict[str, float]:
    """Return the size of a trained model, and its perplexity per token and BLEU on the validation pairs."""
    events: list[dict[str, Any]] = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    parameters = next(event["parameters"] for event in events if event["event"] == "begin")
    best = [event for event in events if event["event"] == "validation" and event["best"]][-1]
    return {"parameters": float(parameters), "bleu": best["bleu"], "perplexity": math.exp(min(best["loss"], 20.0))}
