"""Statistics of each attention head over traces: entropy, sink share, distance profile, and a label for the role.

Numbers are means over the rows of all traces, so that long sentences weigh more. In self-attention, offsets are counted
from the query token (in the decoder, the last input token), so that -1 is the previous token in both encoder and
decoder. In cross-attention, an offset is key minus row, where the row is the output token.

A label only summarises the evidence. A head is *diffuse* if its entropy is at least `DIFFUSE` times the largest
possible. Otherwise each share is compared with the share of uniform attention in the same sentences:
(share - uniform) / (1 - uniform), which is 0 for uniform attention and 1 if the share is 1. The label is the largest of
previous token, next token, same word, alignment and sink if this value is at least `LABEL_FROM`; otherwise the label is
*mixed*. A head that an intervention switched off is *off*, and has no statistics.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from pydantic import Field

from dragoman.alignment.links import word_map
from dragoman.attention.kinds import Kind, kind_of
from dragoman.config import Config
from dragoman.inspection.trace import Trace
from dragoman.inspection.view import heads_off, labels

Label = Literal["previous token", "next token", "same word", "alignment", "sink", "diffuse", "mixed", "off"]
Sums = dict[str, tuple[np.ndarray, int]]
"""Statistics by name: the sums over rows, by head, and the number of rows."""

DIFFUSE: Final = 0.9
LABEL_FROM: Final = 0.5
REACH: Final = 5
"""The largest offset with a separate entry in a distance profile."""
_LABELS: Final[dict[str, Label]] = {
    "previous_token": "previous token", "next_token": "next token", "same_word": "same word", "sink_share": "sink",
    "alignment": "alignment",
}  # fmt: skip
"""The label that belongs to each statistic."""


class HeadSummary(Config):
    """The statistics and the label of one attention head over several sentences."""

    name: str = Field(description="qualified name of the attention, such as decoder.layers.2.cross_attention")
    head: int = Field(ge=0)
    kind: Kind
    entropy: float | None = Field(description="normalised entropy of a row: 0 for one key, 1 for uniform weights")
    sink_share: float = Field(description="share of the weight on BOS, EOS and punctuation")
    profile: tuple[float, ...] = Field(description="weight by offset from -5 to 5; both ends include larger offsets")
    previous_token: float | None = Field(description="weight on the previous token; null in cross-attention")
    next_token: float | None = Field(description="weight on the next token; null outside the encoder")
    same_word: float | None = Field(description="weight on the tokens of the same word, the row's token included")
    alignment: float | None = Field(description="alignment score, focus times coverage; null outside cross-attention")
    label: Label
    evidence: str
    num_sentences: int = Field(ge=1)


def summarise_heads(traces: Sequence[Trace]) -> list[HeadSummary]:
    """Return a summary of every attention head over traces of one model.

    Alignment is focus times coverage. Focus is the mean weight of a target word on its most attended source word.
    Coverage is the number of distinct source words chosen that way, divided by the smaller of the two word counts.
    """
    if not traces:
        raise ValueError("there are no traces to summarise: give at least one trace")
    names = list(traces[0].attention)
    if any(list(trace.attention) != names for trace in traces):
        raise ValueError("the traces have different attention maps: trace all sentences with one model")
    return [summary for name in names for summary in _summaries(name, traces)]


def _summaries(name: str, traces: Sequence[Trace]) -> Iterator[HeadSummary]:
    total: Sums = {}
    for trace in traces:
        for key, (sums, rows) in _measure(trace, name).items():
            before, num_before = total.get(key, (np.zeros_like(sums), 0))
            total[key] = (before + sums, num_before + rows)
    means = {key: sums / rows for key, (sums, rows) in total.items() if rows}
    single = {key: mean.tolist() for key, mean in means.items() if mean.ndim == 1}
    uniform = {key: mean[-1] for key, mean in single.items()}
    over = f"over {len(traces)} sentence{'s' if len(traces) > 1 else ''}"
    for head in range(len(total["sink_share"][0]) - 1):
        is_off = all(head in heads_off(trace, name) for trace in traces)
        numbers = {} if is_off else {key: mean[head] for key, mean in single.items()}
        profile = means["profile"][head] if "profile" in means else np.zeros(2 * REACH + 1)
        label, evidence = ("off", "switched off by an intervention") if is_off else _label(numbers, uniform)
        yield HeadSummary(
            name=name,
            head=head,
            kind=kind_of(name),
            sink_share=numbers.get("sink_share", 0.0),
            profile=tuple(profile.tolist()),
            label=label,
            evidence=f"{evidence}; {over}",
            num_sentences=len(traces),
            **{key: numbers.get(key) for key in ("entropy", "previous_token", "next_token", "same_word", "alignment")},
        )


def _label(numbers: dict[str, float], uniform: dict[str, float]) -> tuple[Label, str]:
    entropy = numbers.get("entropy")
    if entropy is not None and entropy >= DIFFUSE:
        return "diffuse", f"entropy {entropy:.2f} of the largest possible (from {DIFFUSE})"
    shares = {key: numbers[key] for key in _LABELS if key in numbers}
    if not shares:
        return "mixed", "no row has any weight"
    above = {key: (share - uniform[key]) / max(1 - uniform[key], 1e-9) for key, share in shares.items()}
    best = max(above, key=lambda key: above[key])
    meanings = {
        "sink_share": "of the weight on marks and punctuation",
        "alignment": "focus times coverage, measured on rows of tokens written",
    }
    meaning = meanings.get(best, f"of the weight on the {_LABELS[best]}")
    evidence = f"{shares[best]:.2f} {meaning}; uniform attention has {uniform[best]:.2f}"
    is_clear = above[best] >= LABEL_FROM
    return (_LABELS[best], evidence) if is_clear else ("mixed", f"no clear role; the largest is {evidence}")


def _measure(trace: Trace, name: str) -> Sums:
    """Return the statistics of each head, and last those of a head with uniform attention, for comparison."""
    kind = kind_of(name)
    maps = np.asarray(trace.attention[name], np.float64)
    uniform = np.ones((1, *maps.shape[1:]))
    weights = np.concatenate([maps, np.tril(uniform) if kind == "decoder" else uniform])
    total = weights.sum(-1, keepdims=True)
    # Re-weighted rows (Luong's local attention) need not sum to 1, and an empty row says nothing about its head.
    on = [i for i in range(len(weights)) if i not in heads_off(trace, name)]
    is_full = (total[on] > 0).all(axis=(0, 2))
    shares = weights / np.where(total > 0, total, 1.0)
    weights = shares[:, is_full]
    queries, keys = np.flatnonzero(is_full), np.arange(weights.shape[-1])
    offsets = keys - queries[:, None]
    sinks = np.array(labels(trace, kind, "written").sinks, np.bool_)
    measured: Sums = {
        "sink_share": (weights[..., sinks].sum((1, 2)), len(queries)),
        "profile": (_profile(weights, offsets), len(queries)),
        "entropy": _entropy(weights, queries + 1 if kind == "decoder" else np.full_like(queries, len(keys))),
    }
    if kind == "cross":
        return measured | _alignment(trace, shares)
    measured["previous_token"] = _share(weights, offsets == -1)
    if kind == "encoder":
        measured["next_token"] = _share(weights, offsets == 1)
    words = np.array(trace.source.words if kind == "encoder" else (-1, *trace.target.words[:-1]))
    of_query = words[queries][:, None]
    measured["same_word"] = _share(weights, (of_query == words) & (of_query >= 0))
    return measured


def _share(weights: Float[ndarray, "heads rows keys"], marked: Bool[ndarray, "rows keys"]) -> tuple[np.ndarray, int]:
    """Return the weight on marked keys, summed over rows, and the number of rows with a marked key."""
    return (weights * marked).sum((1, 2)), int(marked.any(1).sum())


def _profile(weights: Float[ndarray, "heads rows keys"], offsets: Int[ndarray, "rows keys"]) -> np.ndarray:
    near = np.clip(offsets, -REACH, REACH)
    return np.stack([(weights * (near == offset)).sum((1, 2)) for offset in range(-REACH, REACH + 1)], axis=1)


def _entropy(weights: Float[ndarray, "heads rows keys"], visible: Int[ndarray, " rows"]) -> tuple[np.ndarray, int]:
    """Return the entropy summed over rows, and the number of rows; rows with one visible key do not count."""
    has_choice = visible > 1
    logs = np.log(np.where(weights > 0, weights, 1.0))
    entropy = -(weights * logs).sum(-1)[:, has_choice] / np.log(visible[has_choice])
    return entropy.sum(1), int(has_choice.sum())


def _alignment(trace: Trace, weights: Float[ndarray, "heads target source"]) -> Sums:
    source, target = trace.source, trace.target
    num_source, num_target = len(source.word_spans), len(target.word_spans)
    if not num_source or not num_target:
        return {}
    by_word = word_map(weights, source.words, target.words, "written", (num_source, num_target)).words
    distinct = np.array([len(np.unique(row)) for row in by_word.argmax(-1)])
    focus = by_word.max(-1).sum(-1)
    return {"alignment": (focus * distinct / min(num_source, num_target), num_target)}
