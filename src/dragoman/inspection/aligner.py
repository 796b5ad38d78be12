"""Lines in, links between their words out: a model is led through the targets, in batches, and one head is watched.

Only the attention that is asked for is captured, all others stay on the fast path, and no token is scored: aligning
costs no more than scoring the same pairs.
"""

from collections.abc import Sequence
from typing import Any, Final

import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn

from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Sight, Tap, seams
from dragoman.bundle import Bundle
from dragoman.data.alignment import AlignmentHead, LinkRule, Links, WordMap, links
from dragoman.data.characters import mended
from dragoman.data.progress import Progress
from dragoman.data.vocab import PAD, Vocab
from dragoman.decoding.batching import alike, require_short
from dragoman.decoding.torch_engine import load_model
from dragoman.decoding.translator import Part
from dragoman.decoding.walk import require_eval
from dragoman.inspection.alignment_heads import ARGMAX, best_guess
from dragoman.inspection.capture import value_norms
from dragoman.inspection.trace import kind_of
from dragoman.inspection.words import Sides, links_written, mean_given, sides_of, words_given
from dragoman.models.seq2seq import Seq2Seq, shifted

BATCH_TOKENS: Final = 2048
"""Of a batch, both sides, padding included."""

WINDOW: Final = 4096
"""Pairs whose tokens are held at a time."""


class Aligner:
    """A model, its vocabulary and the heads to align by; of several heads, the mean is taken."""

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        vocab: Vocab,
        heads: tuple[AlignmentHead, ...] = (),
        rule: LinkRule = ARGMAX,
    ) -> None:
        """Without heads, by the best guess there is without measuring."""
        self.model = model
        self.vocab = vocab
        self.rule = rule
        self.guessed = not heads
        self.heads = heads or (best_guess(attentions(model)),)
        for head in self.heads:
            _require(model, head)

    @staticmethod
    def of(bundle: Bundle, heads: tuple[AlignmentHead, ...] = ()) -> "Aligner":
        """The model of a bundle that is open, with the heads given, else those stored in it, else the best guess."""
        return Aligner(load_model(bundle), bundle.vocab, heads or bundle.info.alignment_heads)

    def links(self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None) -> list[Links]:
        """Those of each pair of lines, in their order. A pair with an empty side has none."""
        require_short_lines(self.model, self.vocab, sources, targets)
        whole = [i for i, pair in enumerate(zip(sources, targets, strict=True)) if all(map(str.split, pair))]
        found: list[Links] = [frozenset()] * len(sources)
        for start in range(0, len(whole), WINDOW):
            window = whole[start : start + WINDOW]
            sides = [sides_of(self.vocab, sources[i], targets[i]) for i in window]
            maps = self.word_maps(sides, progress and _within(progress, start, len(whole)))
            for i, given in zip(window, maps, strict=True):
                found[i] = links(given, self.rule)
        return found

    def links_of(self, lines: Sequence[str], translations: Sequence[Sequence[Part]]) -> list[Links]:
        """Those of lines and of what a translator wrote for them, token by token as it was written."""
        return links_written(self.vocab, lines, translations, self.word_maps, self.rule)

    def word_maps(self, pairs: Sequence[Sides], progress: Progress | None = None) -> list[WordMap]:
        """What each target word gave to each source word, pair by pair."""
        require_eval(self.model)
        found: list[WordMap | None] = [None] * len(pairs)
        done = 0
        for rows in alike([(len(pair.target), len(pair.source)) for pair in pairs], BATCH_TOKENS):
            batch = [pairs[i] for i in rows]
            for i, given in zip(rows, self._of_batch(batch), strict=True):
                found[i] = given
            done += len(rows)
            if progress:
                progress("align", done, len(pairs))
        return [given for given in found if given is not None]

    def _of_batch(self, batch: Sequence[Sides]) -> list[WordMap]:
        weights = self._watched(batch)
        return [
            mean_given([words_given(weights[head][i], pair, head) for head in self.heads])
            for i, pair in enumerate(batch)
        ]

    @torch.inference_mode()
    def _watched(self, batch: Sequence[Sides]) -> dict[AlignmentHead, Float[ndarray, "batch target source"]]:
        """What each head shows in one forced pass, as far as its last hidden layer."""
        device = next(self.model.parameters(), torch.empty(0)).device
        source, target = (_padded([side.ids for side in of_all]).to(device) for of_all in zip(*batch, strict=True))
        layers = list(dict.fromkeys(head.layer for head in self.heads))
        eye = _Eye([self.model.get_submodule(layer) for layer in layers])
        with Tap(eye.attentions, edit=eye.keep if any(head.measure == "norm" for head in self.heads) else None) as tap:
            hidden = self.model.hidden(self.model.encode(source), shifted(target))
        if hidden.isnan().any():
            raise ValueError("the model computes NaN: its weights are damaged or its training diverged; use another")
        return {head: _chosen(head, tap, str(layers.index(head.layer)), eye) for head in self.heads}


def attentions(model: nn.Module) -> list[str]:
    """The qualified names of those from the target to the source, from the lowest layer up."""
    return [name for name, _ in seams(model) if kind_of(name) == "cross"]


def require_short_lines(model: Seq2Seq[Any, Any], vocab: Vocab, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Asked of all lines before the first is aligned."""
    for side, subwords, lines in (("source", vocab.source, sources), ("target", vocab.target, targets)):
        require_short(side, subwords.encode([mended(line) for line in lines]).lengths, model.max_target)


class _Eye:
    """The attentions to be watched, by the numbers that name them under a tap, and what their values are worth."""

    def __init__(self, attentions: Sequence[nn.Module]) -> None:
        self.attentions = nn.ModuleList(attentions)
        self.norms: dict[str, Float[Tensor, "batch heads keys"]] = {}

    def keep(self, sight: Sight) -> None:
        """In a forced pass all calls of an attention mix the same values."""
        if sight.name not in self.norms:
            value = sight.vectors.value
            flat = value.transpose(0, 1).flatten(1, 2)  # [heads, batch x keys, d_v]
            norms = value_norms(self.attentions[int(sight.name)], flat)
            self.norms[sight.name] = norms.view(len(norms), len(value), -1).transpose(0, 1)


def _chosen(head: AlignmentHead, tap: Tap, name: str, eye: _Eye) -> Float[ndarray, "batch target source"]:
    weights = tap[name]
    if head.measure == "norm":
        weights = weights * eye.norms[name][:, :, None]
    one = weights.mean(dim=1) if head.head is None else weights[:, head.head]
    return one.double().cpu().numpy()


def _require(model: nn.Module, head: AlignmentHead) -> None:
    names = attentions(model)
    if head.layer not in names:
        known = ", ".join(names)
        raise ValueError(f"this model has no attention {head.layer!r} to align by; it has {known or 'none'}")
    attention = model.get_submodule(head.layer)
    num_heads = attention.num_heads if isinstance(attention, MultiHead) else 1
    if head.head is not None and head.head >= num_heads:
        raise ValueError(f"{head.layer} has {num_heads} heads, counted from 0: there is no head {head.head}")


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


def _within(progress: Progress, before: int, total: int) -> Progress:
    return lambda what, done, _: progress(what, before + done, total)
