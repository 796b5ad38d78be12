"""Train a prepared run: build, train and score the model, and write the bundle."""

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import torch

from dragoman.alignment.head_names import pick_head
from dragoman.attention.tap import cross_attentions
from dragoman.bundle import Bundle, BundleInfo, Card, CardData, CardParent, CardScore, write_bundle
from dragoman.bundle.alignment_head import Heads
from dragoman.bundle.file_names import LICENCES
from dragoman.bundle.info import Store
from dragoman.decoding.options import SearchOptions
from dragoman.device import describe_device, is_cpu
from dragoman.evaluation.metric_options import METRIC_TITLES
from dragoman.evaluation.metrics import score_translations
from dragoman.experiment.comparison import ComparedScore, compare_scores, comparison_event, describe_comparison
from dragoman.experiment.held_out import TextPairs, mix_sources, read_pairs
from dragoman.experiment.log import Event, EventCallback, TrainingLog, ignore_event, read_log
from dragoman.experiment.parent import open_parent
from dragoman.experiment.probe import Probe, choose_pairs
from dragoman.experiment.run_state import BEST, BUNDLE, PREPARED, RECIPE, has_checkpoint
from dragoman.experiment.training_data import TrainingData
from dragoman.experiment.validator import Validator, translate_together
from dragoman.experiment.verdict import judge, spread
from dragoman.export.obstacles import find_obstacle
from dragoman.io.progress import Progress
from dragoman.models.build import build
from dragoman.models.config import ModelConfig, with_vocabulary
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.weights import freeze_parts, load_weights, weights_of
from dragoman.recipes.recipe import CorpusTerms, Recipe, ValidationSection, load_recipe
from dragoman.text.vocab import Vocab
from dragoman.training.allocator import keep_freed_memory
from dragoman.training.config import GuidedAlignmentConfig
from dragoman.training.parallel import Group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import REPORT_S, Trainer, TrainingResult
from dragoman.training.watchdog import Watchdog
from dragoman.translation.export_check import ENOUGH, export_bundle

CURVES: Final = "curves.png"
_PARENT: Final = "update 0, the parent"
"""The name of the initial weights, if they are those of a parent."""
_QUICK: Final = "This model is hardly trained: its scores are those of a greedy search that ends early."


def train_model(
    folder: Path, group: Group, on_event: EventCallback, command: str = "", tensorboard: bool = False
) -> Bundle | None:
    """Train in a prepared run folder and write the bundle.

    Every process must call this function. Only the first process returns the bundle.
    """
    recipe = load_recipe(folder / RECIPE)
    data = TrainingData.open(folder)
    vocab = Vocab.load(folder / PREPARED)
    # An error in them is raised before training.
    dev, tests = ([read_pairs(corpus) for corpus in sets] for sets in (recipe.data.dev_sets, recipe.data.test))
    config = with_vocabulary(recipe.model, vocab.source.size, vocab.target.size)
    seed_weights(recipe.seed)
    model = build(config)
    parent = open_parent(recipe.init) if recipe.init else None
    if recipe.init and parent:
        load_weights(model, parent.weights())
        freeze_parts(model, recipe.init.freeze)
    model = model.to(group.device)  # built on the CPU: the same weights on every device
    if is_cpu(group.device):
        keep_freed_memory()
    with (
        TrainingLog(folder, tensorboard, has_checkpoint(folder)) if group.is_first else nullcontext(ignore_event) as log
    ):
        validation = recipe.validation
        probe: EventCallback = ignore_event
        if group.is_first:
            counts = _share(validation.probe, len(dev))
            shares = [choose_pairs(*each, model.max_target) for each in zip(dev, repeat(vocab), counts, strict=False)]
            probe = Probe(shares, vocab, model, folder)
        info = _bundle_info(recipe, config, vocab, model, parent)
        save_best = partial(_save_best, recipe, folder, info, model, vocab) if group.is_first else ignore_event
        notify = partial(_notify, (log, on_event, probe, save_best), folder, recipe.name)
        notify(_begin_event(recipe, data, model, group))
        most = validation.max_pairs
        few = dev if most is None else list(map(TextPairs.first, dev, _share(most, len(dev))))
        watchdog = Watchdog(folder, group, partial(_report_stall, group, notify))
        others = (validation.samples, group, watchdog.progress, validation.all_metrics)
        validator = Validator(few, vocab, validation.search, validation.reading, *others)
        settings = (recipe.training, validator, folder, recipe.seed, group, notify, recipe.model.d_model)
        trainer = Trainer(
            model,
            data.reader(recipe, vocab),
            *settings,
            on_step=watchdog.step,
            parent=_PARENT if parent else "",
            parent_share=recipe.init.parent_share if recipe.init else 0.0,
        )
        with watchdog:
            outcome = trainer.run()
        _round_weights(model, recipe.store)
        search = validator.search_for(outcome.scores.get("loss", 0.0))
        card = _make_card(recipe, data, model, group, outcome, command, parent, search != validation.search)
        # At once: if something goes wrong while test sets are translated, the model is safe.
        bundle = _write_bundle(recipe, folder, info, model, vocab, card) if group.is_first else None
        if parent and bundle and (parent.folder / LICENCES).is_dir():  # what is made from the parent has to keep them
            shutil.copytree(parent.folder / LICENCES, bundle.folder / LICENCES, dirs_exist_ok=True)
        scores: list[CardScore] = []
        translations: list[list[str]] = []
        for pairs in (*dev, *tests):
            progress = _scoring_progress(pairs, group, notify)
            hypotheses = translate_together(model, vocab.to(pairs.language), pairs.source, search, group, progress)
            translations.append(hypotheses)
            for score in _score(hypotheses, pairs, validation) if bundle else ():
                scores.append(score)
                notify({"event": "score", **score.model_dump(exclude={"command"})})
        rows: list[ComparedScore] = []
        if parent:
            is_kept = outcome.which == _PARENT
            earlier = (
                translations if is_kept else list(_translate_by_parent(parent, config, (*dev, *tests), group, notify))
            )
            if group.is_first:
                rows = compare_scores((*dev, *tests), earlier, translations, validation.reading)
        if bundle:
            notes = (*card.notes, *([describe_comparison(rows)] if rows else []))
            card = card.model_copy(update={"scores": tuple(scores), "notes": notes})
            bundle = _write_bundle(recipe, folder, info, model, vocab, card)
            bundle = _export(bundle, dev, notify)
            values = [score.value for score in scores if score.metric == "BLEU"][: len(dev)]
            bleu = sum(values) / len(values)
            of_dev = zip(dev, translations, strict=False)
            triples = [row for pairs, found in of_dev for row in zip(pairs.source, pairs.target, found, strict=True)]
            time_limit = None if parent else recipe.training.stop.time  # advice about time is for untrained models
            message = judge(bleu, outcome.is_still_improving, time_limit, data.num_pairs)
            if validation.metrics:  # the words of `judge` are for BLEU of sentences
                message = ", ".join(
                    f"{score.metric} {score.value:.1f}" for score in scores[: len(validation.all_metrics)]
                )
            notify({"event": "verdict", "message": message, "samples": spread(triples)})
            if recipe.init:
                notify(comparison_event(rows, recipe.init, outcome.which == _PARENT))
            shutil.rmtree(folder / BEST, ignore_errors=True)
        trainer.checkpoints.remove()  # last: as long as there is one, the same command finishes what is left to do
        return bundle


def _translate_by_parent(
    parent: Bundle, config: ModelConfig, test_sets: Sequence[TextPairs], group: Group, notify: EventCallback
) -> Iterator[list[str]]:
    """Yield the parent's translations of each test set, by its own search options."""
    model = build(config)
    load_weights(model, parent.weights())
    model = model.to(group.device)
    search = SearchOptions.model_validate(parent.info.search)
    for pairs in test_sets:
        progress = _scoring_progress(pairs, group, notify)
        yield translate_together(model, parent.vocab.to(pairs.language), pairs.source, search, group, progress)


def _share(num_pairs: int, num_sets: int) -> list[int]:
    """Divide a number of pairs among sets; each gets at least one, unless the number is 0."""
    return [num_pairs and max(1, (num_pairs + later) // num_sets) for later in reversed(range(num_sets))]


def _notify(callbacks: Sequence[EventCallback], folder: Path, name: str, event: Event) -> None:
    for callback in callbacks:
        callback(event)
    if event["event"] == "validation":
        # Here: matplotlib takes a second, in which training could begin.
        from dragoman.experiment.training_curves import draw

        draw(read_log(folder), folder / CURVES, name)


def _report_stall(group: Group, notify: EventCallback, update: int, message: str) -> None:
    """Report a stall as an event; a process that reports no events prints the message."""
    if group.is_first:
        notify({"event": "stalled", "update": update, "message": message})
    else:
        print(message, file=sys.stderr, flush=True)


def _begin_event(recipe: Recipe, data: TrainingData, model: Seq2Seq[Any, Any], group: Group) -> Event:
    stop = recipe.training.stop
    begin = {"event": "begin", "update": 0, "seconds": 0.0, "last": stop.updates, "time": stop.time}
    where = {"device": describe_device(group.device), "processes": group.world_size}
    return {**begin, **_sizes(model), **where, "pairs": data.num_pairs, "added": data.num_added}


def _sizes(model: Seq2Seq[Any, Any]) -> dict[str, int]:
    return {"parameters": sum(weight.numel() for weight in model.parameters()), "vocabulary": model.vocabulary}


def _scoring_progress(pairs: TextPairs, group: Group, notify: EventCallback) -> Progress:
    """Return a progress callback that emits a `scoring` event in the first process, twice a second."""
    last = 0.0

    def report(what: str, done: int, total: int | None = None, unit: str = "") -> None:  # noqa: ARG001
        nonlocal last
        if group.is_first and (now := time.monotonic()) - last >= REPORT_S:
            last, all_done = now, min(len(pairs), done * group.world_size)
            notify({"event": "scoring", "test_set": pairs.name, "done": all_done, "total": len(pairs)})

    report("", 0)
    return report


def _round_weights(model: Seq2Seq[Any, Any], store: Store) -> None:
    """Round the weights to the precision of the bundle, so that the scores are those of the bundle."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(getattr(torch, store)))


def _score(hypotheses: Sequence[str], pairs: TextPairs, validation: ValidationSection) -> Iterator[CardScore]:
    """Yield BLEU, chrF and the recipe's metrics of translated held-out pairs, with confidence intervals."""
    metrics, reading = validation.all_metrics, validation.reading
    for score in score_translations(hypotheses, [pairs.target], metrics, reading).values():
        yield CardScore(**score.model_dump(exclude={"p_value"}), test_set=pairs.name)


def _make_card(
    recipe: Recipe,
    data: TrainingData,
    model: Seq2Seq[Any, Any],
    group: Group,
    outcome: TrainingResult,
    command: str,
    parent: Bundle | None = None,
    is_quick: bool = False,
) -> Card:
    corpora = []
    for corpus in data.corpora(recipe, outcome.updates):
        terms = recipe.card.corpora.get(corpus.name, CorpusTerms())
        corpora.append(CardData(name=corpus.name, pairs=corpus.num_pairs - corpus.num_added, **terms.model_dump()))
    seconds = outcome.seconds
    duration = f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    device = f"{group.world_size} x {describe_device(group.device)}"
    summary = (
        f"Trained for {outcome.updates:,} updates in {duration} on {device}, with {recipe.training.precision} "
        f"products, until {outcome.stop_reason}; these are the weights of {outcome.which}, the best by "
        f"{recipe.training.stop.metric} on the validation pairs."
    )
    return Card(
        title=recipe.name,
        data=tuple(corpora),
        sizes=_sizes(model),
        licence=recipe.card.licence,
        command=command or None,
        parent=_card_parent(parent),
        notes=tuple(note for note in (recipe.description, summary, _QUICK * is_quick) if note),
    )


def _card_parent(parent: Bundle | None) -> CardParent | None:
    if parent is None:
        return None
    return CardParent(title=parent.card.title, sha256=parent.model_sha256, licence=parent.card.licence)


def _write_bundle(
    recipe: Recipe, folder: Path, info: BundleInfo, model: Seq2Seq[Any, Any], vocab: Vocab, card: Card
) -> Bundle:
    return write_bundle(folder / BUNDLE, info, weights_of(model), vocab, card, recipe.store)


def _bundle_info(
    recipe: Recipe, config: ModelConfig, vocab: Vocab, model: Seq2Seq[Any, Any], parent: Bundle | None = None
) -> BundleInfo:
    sources = recipe.source_languages or (parent.info.sources if parent else ())
    targets = vocab.languages if len(vocab.languages) > 1 else ()
    heads = _guided_heads(recipe.training.guided_alignment, model)
    return BundleInfo(
        model=config,
        search=recipe.validation.search.model_dump(mode="json"),
        source_language=sources[0] if len(sources) == 1 else None,
        target_language=None if targets else recipe.target_language,
        source_languages=sources if len(sources) > 1 else (),
        target_languages=targets,
        protect=recipe.protect,
        alignment_heads=heads or (parent.info.alignment_heads if parent else ()),
    )


def _guided_heads(guided: GuidedAlignmentConfig, model: Seq2Seq[Any, Any]) -> Heads:
    """Return the head that was trained to align, if any."""
    if not guided.weight:
        return ()
    names = cross_attentions(model)
    head = pick_head(names, guided.layer_of(len(names)), guided.head)
    return (head.model_copy(update={"rows": guided.rows}),)


def _save_best(
    recipe: Recipe, folder: Path, info: BundleInfo, model: Seq2Seq[Any, Any], vocab: Vocab, event: Event
) -> None:
    """After a validation with a new best, write a bundle with the validated weights."""
    if event["event"] == "validation" and event["best"]:
        scores = ", ".join(f"{METRIC_TITLES[name]} {event[name]:.1f}" for name in recipe.validation.all_metrics)
        where = f"of {event['which']} ({scores} on the validation pairs)"
        unfinished = f"training is not finished: these are the best weights so far, {where}"
        write_bundle(
            folder / BEST,
            info,
            weights_of(model),
            vocab,
            Card(title=recipe.name, sizes=_sizes(model), licence=recipe.card.licence, unfinished=unfinished),
            recipe.store,
        )


def _export(bundle: Bundle, dev: Sequence[TextPairs], notify: EventCallback) -> Bundle:
    """Export the bundle to CTranslate2 if the model is supported, report the result, and return the bundle."""
    try:
        bundle = export_bundle(bundle.folder, "float32", mix_sources(dev)[:ENOUGH])
    except (ValueError, OSError) as error:
        reason = find_obstacle(bundle.info.model)
        notify({"event": "export", "reason": f"this model stays with torch: {reason}" if reason else str(error)})
    else:
        notify({"event": "export", **bundle.exports[-1].proof.model_dump(mode="json")})
    return bundle
