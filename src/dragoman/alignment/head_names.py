"""Choose and describe alignment heads by layer and head number. Does not import torch."""

from collections.abc import Sequence

from dragoman.bundle.alignment_head import AlignmentHead


def guess_head(names: Sequence[str]) -> AlignmentHead:
    """Return the default alignment head: the mean over the heads of the penultimate layer (Garg et al., 2019).

    `names` are the module names of the cross-attentions, lowest layer first; a single layer is used itself.
    """
    return pick_head(names, max(-2, -len(names)), None)


def pick_head(names: Sequence[str], layer: int, head: int | None) -> AlignmentHead:
    """Return the alignment head with this layer and head number.

    Both count from 0; layer -1 is the last layer, and head None is the mean over the layer's heads.
    """
    if not names:
        wrong = "this model cannot align, as it has no cross-attention"
        raise ValueError(f"{wrong}: use a transformer, a convs2s, a bahdanau or a luong model")
    if not -len(names) <= layer < len(names):
        raise ValueError(f"there is no layer {layer}: choose 0 to {len(names) - 1}, or -1 for the last")
    return AlignmentHead(layer=names[layer], head=head)


def describe_head(head: AlignmentHead) -> str:
    """Return a description of an alignment head for messages: layer, head, row convention and measure."""
    which = "mean of heads" if head.head is None else f"head {head.head}"
    return f"{head.layer}, {which}, {head.rows}, {head.measure}"
