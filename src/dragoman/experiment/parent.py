"""The parent of a run: the trained model that training begins with, and old text against forgetting.

Does not import torch, unless the parent translates old text.
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dragoman.bundle import Bundle, open_bundle
from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.decoding.options import EngineOptions
from dragoman.device import AUTO
from dragoman.evaluation.text_files import read_text
from dragoman.experiment.dev_split import DevSplit, split_off
from dragoman.io.durable import write_durably
from dragoman.io.progress import Progress
from dragoman.recipes.recipe import InitSection, KeepSection, Recipe, with_data

OLD: Final = "old"
"""The name of the training corpus of old pairs."""

KEPT: Final = "kept"
"""The name of the test set of old pairs, which measures forgetting."""

_LINES: Final = 50_000
_MAX_WEIGHT: Final = 2.0
"""The maximum number of times that an epoch reads an old pair."""

_MIN_OLD: Final = 5000
_OLD_PER_PAIR: Final = 20
"""The number of old pairs to prepare, per new pair: more would not be read."""

_MIN_REHEARSED: Final = 1000
_REHEARSED_PER_PAIR: Final = 2
"""The number of old sentences that the parent translates, per new pair."""

_REHEARSAL: Final = "rehearsal"
_CHUNK: Final = 500
"""The sentences per file of an unfinished rehearsal; a run that is resumed goes on after the last file."""

_LONGEST: Final = 1000
"""The maximum bytes of an old sentence to translate."""


def open_parent(init: InitSection) -> Bundle:
    """Open and verify the parent; raise ValueError if it is not the model that the run began with."""
    parent = open_bundle(init.bundle)
    if init.sha256 not in (None, parent.model_sha256):
        wrong = f"the model in {init.bundle} is not the one that this run began with (SHA-256 {init.sha256})"
        raise ValueError(f"{wrong}: restore that model, or give another --out")
    return parent


def pin_parent(recipe: Recipe, before: Recipe | None) -> tuple[Recipe, Bundle | None]:
    """Return the recipe with the hash of its parent, and the parent; `before` is the recipe of the run to resume."""
    if recipe.init is None:
        return recipe, None
    known = before.init.sha256 if before and before.init else None
    parent = open_parent(recipe.init.model_copy(update={"sha256": recipe.init.sha256 or known}))
    init = recipe.init.model_copy(update={"sha256": parent.model_sha256})
    return recipe.model_copy(update={"init": init}), parent


def add_kept(
    recipe: Recipe, parent: Bundle | None, folder: Path, progress: Progress, device: str = AUTO
) -> tuple[Recipe, tuple[DevSplit, ...]]:
    """Return the recipe with the old pairs of `init.keep` as a training corpus and a test set, and files to write.

    The old pairs come first: corpora that are added to a run come last. Only what the parent translates is written
    here, by the parent on `device`. A recipe that has old pairs already, or has no old text, is returned unchanged.
    """
    keep = recipe.init.keep if recipe.init else None
    if keep is None or parent is None or has_kept(recipe):
        return recipe, ()
    num_new = sum(corpus.weight * count_pairs(corpus) for corpus in recipe.data.train)
    language = recipe.data.train[0].target_language  # all corpora have the same: the recipe has checked it
    if keep.target is None:
        parent = parent.to(language) if language else parent
        source, target = _rehearse(keep, parent, folder, int(num_new), progress, device)
        corpus = CorpusConfig(name=OLD, source=str(source), target=str(target), target_language=language)
    else:
        corpus = CorpusConfig(name=OLD, source=keep.source, target=keep.target, target_language=language)
    num_lines = count_pairs(corpus)
    splits = [split_off([corpus], num_held_out(keep.held_out, num_lines), recipe.seed, folder, KEPT)]
    test = (*recipe.data.test, splits[0].corpus)
    num_old = num_read(num_lines, int(num_new))
    if num_old < num_lines:
        splits.append(split_off([corpus], num_old, recipe.seed, folder, OLD))
        corpus = splits[1].corpus
    corpus = corpus.model_copy(update={"weight": kept_weight(keep.share, num_new, num_old)})
    return with_data(recipe, train=(corpus, *recipe.data.train), test=test), tuple(splits)


def has_kept(recipe: Recipe) -> bool:
    """Return True if the run has added the old pairs of `init.keep` to the recipe."""
    return bool(recipe.init and recipe.init.keep) and any(corpus.name == KEPT for corpus in recipe.data.test)


def new_corpora(recipe: Recipe) -> tuple[CorpusConfig, ...]:
    """Return the training corpora without that of old pairs."""
    return tuple(corpus for corpus in recipe.data.train if not has_kept(recipe) or corpus.name != OLD)


def remove_kept(recipe: Recipe) -> Recipe:
    """Return the recipe without what the run has added to it: the old pairs and the hash of the parent."""
    init = recipe.init
    if init is None:
        return recipe
    if has_kept(recipe):
        test = tuple(corpus for corpus in recipe.data.test if corpus.name != KEPT)
        recipe = with_data(recipe, train=new_corpora(recipe), test=test)
    return recipe.model_copy(update={"init": init.model_copy(update={"sha256": None})})


def kept_weight(share: float, num_new: float, num_old: int) -> float:
    """Return the passes over the old pairs per epoch with which they are a given share of all pairs, at most two."""
    return float(f"{min(_MAX_WEIGHT, share / (1.0 - share) * num_new / max(1, num_old)):.3g}")


def num_held_out(most: int, num_old: int) -> int:
    """Return the number of old pairs to measure forgetting with: at most a tenth."""
    return max(1, min(most, num_old // 10))


def num_read(num_lines: int, num_new: int) -> int:
    """Return the number of old pairs to prepare: all, or a sample if they are many times the new pairs."""
    enough = max(_MIN_OLD, _OLD_PER_PAIR * num_new)
    return enough if num_lines > 2 * enough else num_lines


def num_rehearsed(num_lines: int, num_new: int) -> int:
    """Return the number of old sentences for the parent to translate, by the number of new pairs."""
    return min(num_lines, max(_MIN_REHEARSED, _REHEARSED_PER_PAIR * num_new))


def count_old(keep: KeepSection | None, num_new: int) -> int:
    """Return the number of old pairs to prepare: those of `--keep`, or those that the parent translates."""
    if keep is None:
        return 0
    if keep.target is None:
        return num_rehearsed(len(read_text(keep.source).lines), num_new)
    return num_read(count_pairs(CorpusConfig(source=keep.source, target=keep.target)), num_new)


def count_pairs(corpus: CorpusConfig) -> int:
    """Return the number of pairs in a corpus."""
    return sum(len(chunk) for chunk in read_chunks(corpus, _LINES))


def _rehearse(
    keep: KeepSection, parent: Bundle, folder: Path, num_new: int, progress: Progress, device: str
) -> tuple[Path, Path]:
    """Translate old sentences with the parent, or finish doing so; return the files of both sides."""
    lines = read_text(keep.source).lines
    sentences = choose_sentences(lines, num_rehearsed(len(lines), num_new))
    if not sentences:
        raise ValueError(f"{keep.source}: no sentence can be translated: give a text with one sentence per line")
    source, target = (folder / f"{_REHEARSAL}.{side}" for side in ("source", "target"))
    content = _encode(sentences)
    if target.is_file() and source.is_file() and source.read_bytes() == content:
        return source, target
    from dragoman.translation.translator import Translator  # slow to load

    parts = folder / _REHEARSAL
    parts.mkdir(parents=True, exist_ok=True)
    translator: Translator | None = None
    files = []
    for start in range(0, len(sentences), _CHUNK):
        chunk = sentences[start : start + _CHUNK]
        files.append(parts / f"{start:09}-{hashlib.sha256(_encode(chunk)).hexdigest()[:16]}")
        if not files[-1].is_file():
            translator = translator or Translator.load(parent, EngineOptions(device=device))
            progress("translate old text with the parent", start, len(sentences), "sentences")
            write_durably(files[-1], _encode(translator.translate(chunk)))
    write_durably(source, content)
    write_durably(target, b"".join(file.read_bytes() for file in files))
    shutil.rmtree(parts)
    return source, target


def choose_sentences(lines: Sequence[str], most: int) -> list[str]:
    """Return up to `most` different sentences, spread evenly over the lines."""
    fit = [line for line in dict.fromkeys(map(str.strip, lines)) if 0 < len(line.encode()) <= _LONGEST]
    num = min(most, len(fit))
    return [fit[index * len(fit) // num] for index in range(num)]


def _encode(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
