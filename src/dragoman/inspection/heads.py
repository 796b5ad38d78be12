"""What each head does as a habit: how sharp it is, where it rests, how far it looks, and the name such a habit has.

Numbers are means over the rows of all traces, so that long sentences weigh more. Offsets are counted between tokens of
one side: in the decoder's attention to itself from the token just *read*, which is what asks, so that -1 is the token
before it in both encoder and decoder. In cross-attention they are key minus row, the row being the token *written*.

A label is a summary and never more than its evidence. A head is called *diffuse* if its entropy is at least `DIFFUSE`
of what is possible. Else shares are seen against what uniform attention has in the same sentences, for in a target of
one word all is the same word: (share - uniform) / (1 - uniform), 0 for chance and 1 for all weight. It has the name of
the largest among previous token, next token, same word, alignment and sink, if that is at least `HABIT`, halfway from
chance to all; else it is *mixed*. One that was switched off on purpose is *off*, and has no numbers.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from pydantic import Field

from dragoman.config import Config
from dragoman.data.alignment import Links, Rows, word_map
from dragoman.inspection.trace import Kind, Trace, kind_of
from dragoman.inspection.view import heads_off, labels

Label = Literal["previous token", "next token", "same word", "alignment", "sink", "diffuse", "mixed", "off"]
Sums = dict[str, tuple[np.ndarray, int]]
"""By the name of a number: its sum over rows, for each head, and how many rows those were."""

DIFFUSE: Final = 0.9
HABIT: Final = 0.5
_OFF: Final[tuple[Label, str]] = ("off", "it was switched off, and looks nowhere")
REACH: Final = 5
"""The largest offset that a distance profile tells apart."""


class HeadHabit(Config):
    """One head over some sentences."""

    name: str = Field(description="the qualified name of its attention, such as decoder.layers.2.cross_attention")
    head: int = Field(ge=0)
    kind: Kind
    entropy: float | None = Field(description="of a row, over the log of its visible keys: 0 one key, 1 all alike")
    sink_share: float = Field(description="of the weight, what lies on BOS, EOS and punctuation")
    profile: tuple[float, ...] = Field(description="the weight by offset, from -5 to 5; both ends hold all beyond, too")
    previous_token: float | None = Field(description="the weight on it, where there is one; null in cross-attention")
    next_token: float | None = Field(description="the weight on it, where there is one; of the encoder only")
    same_word: float | None = Field(description="the weight on the row's own word, the token itself included")
    alignment: float | None = Field(
        description="of cross-attention: with links, the weight on the words linked; else focus times coverage"
    )
    label: Label
    evidence: str
    num_sentences: int = Field(ge=1)


def head_habits(traces: Sequence[Trace], links: Sequence[Links] | None = None) -> list[HeadHabit]:
    """All heads of all attentions. With `links`, one set for each trace, alignment is measured against them.

    Without them it is focus times coverage: the mean weight of the source word that each target word gave most to, and
    the number of different words that were so chosen, over the number that could be (the smaller of both sides' words).
    """
    if not traces:
        raise ValueError("there are no traces to know the heads by: give at least one")
    if links is not None and len(links) != len(traces):
        raise ValueError(f"there are {len(traces)} traces but links for {len(links)}: give one set for each")
    names = list(traces[0].attention)
    if any(list(trace.attention) != names for trace in traces):
        raise ValueError("the traces have different attention maps: trace all sentences with one model")
    return [habit for name in names for habit in _habits(name, traces, links)]


def _habits(name: str, traces: Sequence[Trace], links: Sequence[Links] | None) -> Iterator[HeadHabit]:
    total: Sums = {}
    for i, trace in enumerate(traces):
        for key, (summed, rows) in _measured(trace, name, None if links is None else links[i]).items():
            before, num_before = total.get(key, (np.zeros_like(summed), 0))
            total[key] = (before + summed, num_before + rows)
    means = {key: summed / rows for key, (summed, rows) in total.items() if rows}
    single = {key: mean.tolist() for key, mean in means.items() if mean.ndim == 1}
    uniform = _shares({key: mean[-1] for key, mean in single.items()})
    for head in range(len(total["sink_share"][0]) - 1):
        is_off = all(head in heads_off(trace, name) for trace in traces)
        numbers = {} if is_off else {key: mean[head] for key, mean in single.items()}
        profile = means["profile"][head] if "profile" in means else np.zeros(2 * REACH + 1)
        label, evidence = _OFF if is_off else _label(numbers, uniform, links is not None)
        yield HeadHabit(
            name=name,
            head=head,
            kind=kind_of(name),
            entropy=numbers.get("entropy"),
            sink_share=numbers.get("sink_share", 0.0),
            profile=tuple(profile.tolist()),
            previous_token=numbers.get("previous_token"),
            next_token=numbers.get("next_token"),
            same_word=numbers.get("same_word"),
            alignment=_shares(numbers).get("alignment"),
            label=label,
            evidence=f"{evidence}; over {len(traces)} sentence{'s' if len(traces) > 1 else ''}",
            num_sentences=len(traces),
        )


def _shares(numbers: dict[str, float]) -> dict[Label, float]:
    """What can give a head its name."""
    names: dict[str, Label] = {
        "previous_token": "previous token", "next_token": "next token", "same_word": "same word", "sink_share": "sink",
    }  # fmt: skip
    shares = {label: numbers[key] for key, label in names.items() if key in numbers}
    if "written" in numbers:
        shares["alignment"] = max(numbers["written"], numbers.get("read", 0.0))
    return shares


def _label(numbers: dict[str, float], uniform: dict[Label, float], with_links: bool) -> tuple[Label, str]:
    entropy = numbers.get("entropy")
    if entropy is not None and entropy >= DIFFUSE:
        return "diffuse", f"entropy {entropy:.2f} of the largest possible (from {DIFFUSE})"
    shares = _shares(numbers)
    above = {label: (share - uniform[label]) / max(1 - uniform[label], 1e-9) for label, share in shares.items()}
    if not above:
        return "mixed", "it saw nothing"
    best = max(above, key=lambda label: above[label])
    places = {"sink": "of the weight on marks and punctuation", "alignment": "of the weight on linked words"}
    place = places.get(best, f"of the weight on the {best}")
    if best == "alignment" and not with_links:
        place = "focus times coverage, with no links to measure against"
    if best == "alignment":
        rows: Rows = "written" if numbers["written"] >= numbers.get("read", 0.0) else "read"
        place = f"{place}, a row being the token {rows}"
    evidence = f"{shares[best]:.2f} {place}; uniform attention has {uniform[best]:.2f}"
    return (best, evidence) if above[best] >= HABIT else ("mixed", f"nothing stands out; most does: {evidence}")


def _measured(trace: Trace, name: str, links: Links | None) -> Sums:
    """For each head, and behind them for one whose attention is uniform."""
    kind = kind_of(name)
    maps = np.asarray(trace.attention[name], np.float64)
    uniform = np.ones((1, *maps.shape[1:]))
    weights = np.concatenate([maps, np.tril(uniform) if kind == "decoder" else uniform])
    total = weights.sum(-1, keepdims=True)
    # Re-weighted rows (Luong's local attention) need not sum to 1, and a row that saw nothing has no habit to show.
    on = [i for i in range(len(weights)) if i not in heads_off(trace, name)]
    full = (total[on] > 0).all(axis=(0, 2))
    shares = weights / np.where(total > 0, total, 1.0)
    weights = shares[:, full]
    asking, keys = np.flatnonzero(full), np.arange(weights.shape[-1])
    offsets = keys - asking[:, None]
    sinks = np.array(labels(trace, kind, "written")[2], np.bool_)
    measured: Sums = {
        "sink_share": (weights[..., sinks].sum((1, 2)), len(asking)),
        "profile": (_profile(weights, offsets), len(asking)),
        "entropy": _entropy(weights, asking + 1 if kind == "decoder" else np.full_like(asking, len(keys))),
    }
    if kind == "cross":
        return measured | _alignment(trace, shares, links)
    measured["previous_token"] = _share(weights, offsets == -1)
    if kind == "encoder":
        measured["next_token"] = _share(weights, offsets == 1)
    words = np.array(trace.source.words if kind == "encoder" else (-1, *trace.target.words[:-1]))
    measured["same_word"] = _share(weights, (words[asking][:, None] == words) & (words[asking][:, None] >= 0))
    return measured


def _share(weights: Float[ndarray, "heads rows keys"], there: Bool[ndarray, "rows keys"]) -> tuple[np.ndarray, int]:
    """The weight on what is marked, over the rows in which anything is."""
    return (weights * there).sum((1, 2)), int(there.any(1).sum())


def _profile(weights: Float[ndarray, "heads rows keys"], offsets: Int[ndarray, "rows keys"]) -> np.ndarray:
    near = np.clip(offsets, -REACH, REACH)
    return np.stack([(weights * (near == offset)).sum((1, 2)) for offset in range(-REACH, REACH + 1)], axis=1)


def _entropy(weights: Float[ndarray, "heads rows keys"], visible: Int[ndarray, " rows"]) -> tuple[np.ndarray, int]:
    """A row that sees one key has no choice, and does not count."""
    choice = visible > 1
    logs = np.log(np.where(weights > 0, weights, 1.0))
    entropy = -(weights * logs).sum(-1)[:, choice] / np.log(visible[choice])
    return entropy.sum(1), int(choice.sum())


def _alignment(trace: Trace, weights: Float[ndarray, "heads target source"], links: Links | None) -> Sums:
    source, target = trace.source, trace.target
    num_source, num_target = len(source.word_spans), len(target.word_spans)
    if not num_source or not num_target:
        return {}
    measured: Sums = {}
    conventions: tuple[Rows, ...] = ("written",) if links is None else ("written", "read")
    for rows in conventions:
        given = word_map(weights, source.words, target.words, rows, (num_source, num_target)).words
        if links is None:
            chosen = given.argmax(-1)
            distinct = np.array([len(np.unique(row)) for row in chosen])
            focus = given.max(-1).sum(-1)
            measured[rows] = focus * distinct / min(num_source, num_target), num_target
            continue
        gold = np.zeros((num_target, num_source), np.bool_)
        for i, j in links:
            if i >= num_source or j >= num_target:
                raise ValueError(f"the link {i}-{j} leads out of {num_source} source and {num_target} target words")
            gold[j, i] = True
        measured[rows] = _share(given, gold)
    return measured
