"""One run, once it has begun: its training, and the bundle it leaves."""

import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from dragoman.bundle import Bundle, BundleInfo, Card, CardData, CardScore, write_bundle
from dragoman.bundle.info import Store
from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.data.vocab import Vocab
from dragoman.decoding.proof import ENOUGH, export_bundle
from dragoman.evaluation.metrics import compare
from dragoman.experiment.begin import RECIPE
from dragoman.experiment.log import Log, read_log
from dragoman.experiment.material import PREPARED, Material, held_out
from dragoman.experiment.preflight import is_under_way
from dragoman.experiment.probe import Probe, chosen
from dragoman.experiment.recipe import Recipe, ValidationSection, load_recipe
from dragoman.experiment.validator import Pairs, Validator, translate_together
from dragoman.export.refusal import why_not
from dragoman.models.build import build
from dragoman.models.config import ModelConfig, sized
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.weights import weights_of
from dragoman.training.allocator import keep_freed_memory
from dragoman.training.parallel import Group
from dragoman.training.randomness import seed_weights
from dragoman.training.trainer import Event, Outcome, Trainer

BUNDLE: Final = "bundle"
CURVES: Final = "curves.png"

Tell = Callable[[Event], None]


def carry_out(folder: Path, group: Group, tell: Tell, command: str = "", tensorboard: bool = False) -> Bundle | None:
    """Train what `begin` prepared, and write the bundle. Every process calls it; the first one gets the bundle."""
    recipe = load_recipe(folder / RECIPE)
    material = Material.open(folder)
    vocab = Vocab.load(folder / PREPARED)
    kept_out = [pairs_of(corpus) for corpus in held_out(recipe)]  # what is wrong with them is told before, not after
    shape = sized(recipe.model, vocab.source.size, vocab.target.size)
    seed_weights(recipe.seed)
    model = build(shape)
    keep_freed_memory()
    with Log(folder, tensorboard, is_under_way(folder)) if group.is_first else nullcontext(_unheard) as log:
        probe = _probe(recipe, kept_out[0], vocab, model, folder) if group.is_first else _unheard
        listen = partial(_heard, (log, tell, probe), folder, recipe.name)
        listen(_beginning(recipe, material, model))
        validator = _validator(recipe, kept_out[0], vocab, group)
        trainer = _trainer(recipe, material, vocab, model, validator, folder, listen)
        outcome = trainer.run()
        _round(model, recipe.store)
        card = _card(recipe, material, model, outcome, command)
        bundled = partial(_bundled, recipe, folder, shape, model, vocab) if group.is_first else _unbundled
        bundled(card)  # at once: whatever happens while test sets are translated, the model is safe
        scores = _scores(kept_out, recipe.validation, vocab, model, group, listen)
        bundle = bundled(card.model_copy(update={"scores": tuple(scores)}))
        exported = bundle and _exported(bundle, kept_out[0], listen)
        trainer.checkpoints.remove()  # last: as long as there is one, the same command finishes what is left to do
        return exported


def _validator(recipe: Recipe, dev: Pairs, vocab: Vocab, group: Group) -> Validator:
    validation = recipe.validation
    few = dev.first(validation.max_pairs)
    return Validator(few, vocab, validation.search, validation.reading, validation.samples, group)


def _probe(recipe: Recipe, dev: Pairs, vocab: Vocab, model: Seq2Seq[Any, Any], folder: Path) -> Probe:
    return Probe(chosen(dev, vocab, recipe.validation.probe, model.max_target), vocab, model, folder)


def _trainer(
    recipe: Recipe,
    material: Material,
    vocab: Vocab,
    model: Seq2Seq[Any, Any],
    validator: Validator,
    folder: Path,
    listen: Tell,
) -> Trainer:
    return Trainer(
        model,
        material.reader(recipe, vocab),
        recipe.training,
        validator,
        folder,
        recipe.seed,
        validator.group,
        listen,
        d_model=recipe.model.d_model,
    )


def _scores(
    held_out: Sequence[Pairs],
    validation: ValidationSection,
    vocab: Vocab,
    model: Seq2Seq[Any, Any],
    group: Group,
    listen: Tell,
) -> list[CardScore]:
    """What the finished model is worth on all held-out pairs, with intervals."""
    found = []
    for pairs in held_out:
        hypotheses = translate_together(model, vocab, pairs.source, validation.search, group)
        if not group.is_first:
            continue
        for score in compare([hypotheses], [pairs.target], ["bleu", "chrf"], validation.reading)[0]:
            fields = score.model_dump(exclude={"p_value"})
            found.append(CardScore(**fields, test_set=pairs.name))
            listen({"event": "score", "test_set": pairs.name, **fields})
    return found


def pairs_of(corpus: CorpusConfig) -> Pairs:
    """A small corpus, whole, as text. Bytes that are no UTF-8 are refused."""
    chunks = list(read_chunks(corpus, 1 << 30))
    try:
        source, target = (
            [text.decode() for chunk in chunks for text in getattr(chunk, side).to_pylist()]
            for side in ("source", "target")
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"{corpus.source}, {corpus.target}: not UTF-8 ({error}); convert the file first") from error
    if not source:
        raise ValueError(f"{corpus.source}: there is not one pair in it")
    return Pairs(corpus.name, source, target)


def _heard(listeners: Sequence[Tell], folder: Path, name: str, event: Event) -> None:
    for listener in listeners:
        listener(event)
    if event["event"] == "validation":
        from dragoman.experiment.curves import draw  # here: matplotlib takes a second, in which training could begin

        draw(read_log(folder), folder / CURVES, name)


def _unheard(_: Event) -> None:
    """The log and the probe of the processes that keep none."""


def _card(
    recipe: Recipe,
    material: Material,
    model: Seq2Seq[Any, Any],
    outcome: Outcome,
    command: str,
) -> Card:
    terms = recipe.card.corpora
    data = [
        CardData(
            name=corpus.name,
            pairs=corpus.num_pairs,
            **(terms[corpus.name].model_dump() if corpus.name in terms else {}),
        )
        for corpus in material.corpora(recipe, outcome.updates)
    ]
    course = (
        f"Trained for {outcome.updates:,} updates in {_duration(outcome.seconds)}, until {outcome.why}; these are "
        f"the weights of {outcome.which}, the best by {recipe.training.stop.metric} on the validation pairs."
    )
    return Card(
        title=recipe.name,
        data=tuple(data),
        sizes={"parameters": _num_parameters(model), "vocabulary": model.vocabulary},
        licence=recipe.card.licence,
        command=command or None,
        notes=tuple(note for note in (recipe.description, course) if note),
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _unbundled(_: Card) -> None:
    """What all processes but the first do about the bundle."""


def _bundled(
    recipe: Recipe, folder: Path, shape: ModelConfig, model: Seq2Seq[Any, Any], vocab: Vocab, card: Card
) -> Bundle:
    info = BundleInfo(
        model=shape,
        search=recipe.validation.search.model_dump(mode="json"),
        source_language=recipe.source_language,
        target_language=recipe.target_language,
    )
    return write_bundle(folder / BUNDLE, info, weights_of(model), vocab, card, recipe.store)


def _exported(bundle: Bundle, dev: Pairs, listen: Tell) -> Bundle:
    """The bundle with an export for CTranslate2, if there can be one. Without it, the run still has its model."""
    try:
        bundle = export_bundle(bundle.folder, "float32", dev.first(ENOUGH).source)
    except (ValueError, OSError) as error:
        reason = why_not(bundle.info.model)
        listen({"event": "export", "reason": f"this model stays with torch: {reason}" if reason else str(error)})
    else:
        listen({"event": "export", **bundle.exports[-1].proof.model_dump(mode="json")})
    return bundle


def _round(model: Seq2Seq[Any, Any], store: Store) -> None:
    """Make the weights those that will be read back, so that the scores are the bundle's own."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.to(getattr(torch, store)))


def _beginning(recipe: Recipe, material: Material, model: Seq2Seq[Any, Any]) -> Event:
    return {
        "event": "begin",
        "update": 0,
        "seconds": 0.0,
        "last": recipe.training.stop.updates,
        "parameters": _num_parameters(model),
        "vocabulary": model.vocabulary,
        "pairs": material.num_pairs,
    }


def _num_parameters(model: Seq2Seq[Any, Any]) -> int:
    return sum(weight.numel() for weight in model.parameters())


def typed(arguments: Sequence[str]) -> str:
    """The command as it can be typed again."""
    return shlex.join(["dragoman", *arguments])
