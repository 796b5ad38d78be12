"""The order of the batches of a run that corpora join between two starts.

The epoch that is under way is gone through as it was begun, so whatever has been read keeps its place. From the next
one on, the newcomers have their share of every epoch.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.data.order import BatchRef, Order


class Stretch(NamedTuple):
    """Epochs that the same corpora make."""

    first_epoch: int
    first_batch: int
    """Counted through all epochs, as everywhere."""
    order: Order


@dataclass(frozen=True, eq=False)
class Course:
    """The order of all batches of all epochs, of whatever corpora they are."""

    stretches: tuple[Stretch, ...]

    @staticmethod
    def of(orders: Sequence[tuple[int, Order]]) -> "Course":
        """Each order with the epoch that it begins with: the first with 0."""
        (epoch, order), *later = orders
        if epoch != 0:
            raise ValueError(f"a run begins with epoch 0, not with {epoch}")
        stretches = [Stretch(0, 0, order)]
        for epoch, order in later:
            last = stretches[-1]
            if epoch < last.first_epoch:
                raise ValueError(f"corpora join in the order of their epochs: not {epoch} after {last.first_epoch}")
            first_batch = last.first_batch + (epoch - last.first_epoch) * last.order.num_batches
            stretches.append(Stretch(epoch, first_batch, order))
        return Course(tuple(stretches))

    @property
    def num_batches(self) -> int:
        """In an epoch with all corpora."""
        return self.stretches[-1].order.num_batches

    def at(self, index: int) -> BatchRef:
        """The batch of this number, counted through all epochs."""
        stretch, epoch, place = self._found(index)
        return stretch.order.batch(epoch, place)

    def next_epoch(self, index: int) -> int:
        """The first epoch of which no batch stands before this number: where a newcomer can join."""
        _, epoch, place = self._found(index)
        return epoch + (place > 0)

    def longest(self) -> BatchRef:
        """A batch of the longest pairs: that which takes most memory."""
        return self.stretches[-1].order.longest()

    def _found(self, index: int) -> tuple[Stretch, int, int]:
        """The stretch, the epoch, and the place in it."""
        number = bisect_right([stretch.first_batch for stretch in self.stretches], index) - 1
        stretch = self.stretches[max(number, 0)]
        epochs, place = divmod(index - stretch.first_batch, stretch.order.num_batches)
        return stretch, stretch.first_epoch + epochs, place
