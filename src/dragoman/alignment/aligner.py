"""Word alignment of line pairs from the attention weights of a teacher-forced pass.

Only layers with alignment heads compute explicit attention weights; all other layers use fused kernels. No logits are
computed, so aligning costs no more than scoring the same pairs.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from dragoman.alignment.head_names import guess_head
from dragoman.alignment.links import Links, WordMap, links
from dragoman.alignment.words import SegmentAligner, TokenPair, filled_pairs, merge_to_words, tokenize_pair
from dragoman.attention.multihead import MultiHead
from dragoman.attention.tap import Sight, Tap, cross_attentions
from dragoman.bundle import Bundle
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.decoding.batching import alike, compute_batches, require_short
from dragoman.decoding.decode_loop import require_eval
from dragoman.decoding.hypothesis import Tokens as TokenIds
from dragoman.decoding.torch_engine import load_model
from dragoman.device import device_of
from dragoman.io.progress import Progress, part_progress
from dragoman.models.convolutional import MultiStepAttention
from dragoman.models.seq2seq import Seq2Seq, shifted
from dragoman.text.cleaning import clean_line
from dragoman.text.vocab import EOS, PAD, Vocab

BATCH_TOKENS: Final = 2048
"""The maximum batch size in source and target tokens, including padding."""

WINDOW: Final = 4096
"""The number of line pairs that are tokenized at a time, which limits memory."""


class Aligner(SegmentAligner):
    """A word aligner that uses the attention of a PyTorch model; several alignment heads are averaged."""

    def __init__(self, model: Seq2Seq[Any, Any], vocab: Vocab, heads: tuple[AlignmentHead, ...] = ()) -> None:
        """Wrap a model; `heads` defaults to the head that `guess_head` returns."""
        self.model = model
        self.vocab = vocab
        self.longest = model.max_target
        self.is_guess = not heads
        self.heads = heads or (guess_head(cross_attentions(model)),)
        for head in self.heads:
            _require_head(model, head)

    @staticmethod
    def of(bundle: Bundle, heads: tuple[AlignmentHead, ...] = ()) -> "Aligner":
        """Return an aligner for the model in a bundle.

        `heads` defaults to the alignment heads stored in the bundle or, without any, to the result of `guess_head`.
        """
        return Aligner(load_model(bundle), bundle.vocab, heads or bundle.info.alignment_heads)

    def links(self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None) -> list[Links]:
        """Return the word links of each line pair, in input order; a pair with a blank line has no links."""
        require_short_lines(self.model, self.vocab, sources, targets)
        filled = filled_pairs(sources, targets)
        aligned: list[Links] = [frozenset()] * len(sources)
        for start in range(0, len(filled), WINDOW):
            window = filled[start : start + WINDOW]
            pairs = [tokenize_pair(self.vocab, sources[i], targets[i]) for i in window]
            report = progress and part_progress(progress, offset=start, whole=len(filled))
            for i, weights in zip(window, self.word_maps(pairs, report), strict=True):
                aligned[i] = links(weights)
        return aligned

    def word_maps(self, pairs: Sequence[TokenPair], progress: Progress | None = None) -> list[WordMap]:
        """Return the attention weight of each target word on each source word, for every pair."""
        require_eval(self.model)
        maps: dict[int, WordMap] = {}
        batches = alike([(len(pair.target), len(pair.source)) for pair in pairs], BATCH_TOKENS)
        for rows, aligned in compute_batches(
            batches, lambda rows: self._align_batch([pairs[i] for i in rows]), device_of(self.model)
        ):
            maps.update(zip(rows, aligned, strict=True))
            if progress:
                progress("align", len(maps), len(pairs))
        return [maps[i] for i in range(len(pairs))]

    def attention(
        self, sources: Sequence[TokenIds], targets: Sequence[TokenIds]
    ) -> list[Float[ndarray, "target source"]]:
        """Return the attention of each target to its source, averaged over the alignment heads; rows sum to 1.

        Sources end with EOS, targets do not; each matrix has one row per target token and one for EOS.
        """
        require_eval(self.model)
        ended = [[*target, EOS] for target in targets]
        found: dict[int, ndarray] = {}
        batches = alike([(len(s), len(t)) for s, t in zip(sources, ended, strict=True)], BATCH_TOKENS)
        for rows, maps in compute_batches(
            batches,
            lambda rows: self._capture([sources[i] for i in rows], [ended[i] for i in rows]),
            device_of(self.model),
        ):
            for place, i in enumerate(rows):
                of_heads = np.array([of_head[place, : len(ended[i]), : len(sources[i])] for of_head in maps.values()])
                totals = of_heads.sum(-1, keepdims=True)
                found[i] = (of_heads / np.where(totals > 0, totals, 1.0)).mean(0)
        return [found[i] for i in range(len(sources))]

    def _align_batch(self, batch: Sequence[TokenPair]) -> list[WordMap]:
        captured = self._capture([pair.source.ids for pair in batch], [pair.target.ids for pair in batch]).items()
        return [merge_to_words({head: maps[i] for head, maps in captured}, pair) for i, pair in enumerate(batch)]

    @torch.inference_mode()
    def _capture(
        self, sources: Sequence[TokenIds], targets: Sequence[TokenIds]
    ) -> dict[AlignmentHead, Float[ndarray, "batch target source"]]:
        """Return the weights of each alignment head in a teacher-forced pass without the output projection."""
        rows = ([torch.tensor(ids) for ids in side] for side in (sources, targets))
        source, target = (
            pad_sequence(side, batch_first=True, padding_value=PAD).to(device_of(self.model)) for side in rows
        )
        layers = list(dict.fromkeys(head.layer for head in self.heads))
        tapped = nn.ModuleList(self.model.get_submodule(layer) for layer in layers)  # named 0, 1, ... under the tap
        norms: dict[str, Tensor] = {}

        def keep_norms(seen: Sight) -> None:
            # In a forced pass all calls of an attention mix the same values.
            if seen.name not in norms:
                value = seen.vectors.value
                flat = value.transpose(0, 1).flatten(1, 2)  # [heads, batch x keys, d_v]
                of_keys = value_norms(tapped[int(seen.name)], flat)
                norms[seen.name] = of_keys.view(len(of_keys), len(value), -1).transpose(0, 1)

        with Tap(tapped, edit=keep_norms if any(head.measure == "norm" for head in self.heads) else None) as tap:
            hidden = self.model.hidden(self.model.encode(source), shifted(target))
        if hidden.isnan().any():
            raise ValueError("the model computes NaN (damaged weights or diverged training): use another model")
        captured = {}
        for head in self.heads:
            name = str(layers.index(head.layer))
            weights = tap[name] * norms[name][:, :, None] if head.measure == "norm" else tap[name]
            of_head = weights.mean(dim=1) if head.head is None else weights[:, head.head]
            captured[head] = of_head.cpu().double().numpy()
        return captured


def value_norms(attention: nn.Module, value: Float[Tensor, "heads keys d_v"]) -> Float[Tensor, "heads keys"]:
    """Return the norm of each transformed value: ||v W_O|| with the head's slice of W_O (Kobayashi et al., 2020).

    A key's attention weight times this norm is the key's contribution. Without an output projection, the norm is ||v||.
    """
    if isinstance(attention, MultiHead | MultiStepAttention):
        output = attention.output.weight
        by_head = output.view(len(output), _num_heads(attention), -1)  # [d_model, heads, d_v]
        value = torch.bmm(value, by_head.permute(1, 2, 0))
    norms: Tensor = torch.linalg.vector_norm(value, dim=-1)
    return norms


def require_short_lines(model: Seq2Seq[Any, Any], vocab: Vocab, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raise ValueError if any source or target line is too long for the model."""
    for side, subwords, lines in (("source", vocab.source, sources), ("target", vocab.target, targets)):
        require_short(side, subwords.encode([clean_line(line) for line in lines]).lengths, model.max_target)


def _require_head(model: nn.Module, head: AlignmentHead) -> None:
    names = cross_attentions(model)
    if head.layer not in names:
        raise ValueError(f"this model has no cross-attention {head.layer!r}: choose from {', '.join(names) or 'none'}")
    attention = model.get_submodule(head.layer)
    num_heads = _num_heads(attention)
    if head.head is not None and head.head >= num_heads:
        raise ValueError(f"there is no head {head.head} in {head.layer}: choose 0 to {num_heads - 1}")


def _num_heads(attention: nn.Module) -> int:
    return attention.num_heads if isinstance(attention, MultiHead) else 1
