"""The results of checks before training, and the sizes of corpora that are too small."""

from typing import Final, Literal, NamedTuple

Level = Literal["ok", "note", "warning", "problem"]

TOO_FEW_PAIRS: Final = 2_000
NARROW_DOMAIN_PAIRS: Final = 10_000
FEW_FOR_A_PARENT: Final = 500


class Finding(NamedTuple):
    """The result of a check; the message says what to do."""

    check: str
    level: Level
    message: str


def check_num_pairs(num_pairs: int, tokens: float | None = None, has_parent: bool = False) -> Finding:
    """Check whether there are enough pairs to train a useful model; `tokens` is the mean length of a pair.

    A few hundred pairs are enough to train a parent on.
    """
    message = f"{num_pairs:,} pairs" + ("" if tokens is None else f", about {tokens:.0f} subwords each")
    if has_parent and num_pairs < FEW_FOR_A_PARENT:
        message += f": few even for a trained model; give {FEW_FOR_A_PARENT} or more"
        return Finding("pairs", "warning", message)
    if num_pairs < TOO_FEW_PAIRS and not has_parent:
        message += f": too few for a useful model; give {NARROW_DOMAIN_PAIRS:,} or more"
        return Finding("pairs", "warning", message)
    return Finding("pairs", "ok", message)
