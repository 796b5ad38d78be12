"""Token ids: what the numbers in a batch stand for.

The four special ids are the same in every vocabulary, so a batch of ids explains itself: no room needs to be
told what padding looks like.
"""

from typing import Final

PAD: Final = 0
"""Fills the end of a row that is shorter than its batch. Never attended to, never generated."""

BOS: Final = 1
"""What the decoder reads before it has written anything. Never generated."""

EOS: Final = 2
"""Ends a target."""

UNK: Final = 3
"""A piece the vocabulary does not have."""

NUM_SPECIALS: Final = 4
"""Ordinary pieces start at this id."""
