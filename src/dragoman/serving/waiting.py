"""The queue: first come, first served, in batches of those who wish the same. It knows neither engines nor clocks."""

from collections import deque
from collections.abc import Callable, Iterable

from dragoman.serving.piece import Piece, Wish


class Waiting:
    """Pieces that no engine has yet."""

    def __init__(self) -> None:
        self.cost = 0
        """Of all that wait, in tokens."""
        self.number = 0
        self._lines: dict[Wish, deque[Piece]] = {}
        self._alone: deque[Piece] = deque()

    def put(self, pieces: Iterable[Piece]) -> None:
        """To the end; but one that an engine has died with goes before all others, and alone."""
        for piece in pieces:
            line = self._alone if piece.lost else self._lines.setdefault(piece.wish, deque())
            line.append(piece)
            piece.waiting = True
            self.cost += piece.cost
            self.number += 1

    def discard(self, pieces: Iterable[Piece]) -> None:
        """Whoever asked has gone."""
        for piece in pieces:
            if piece.waiting:
                self._left(piece)

    def oldest(self, suits: Callable[[Wish], bool]) -> Piece | None:
        """The one whose turn it is, of those an engine can take."""
        self._forget_the_gone()
        for piece in self._alone:
            if piece.waiting and suits(piece.wish):
                return piece
        heads = [line[0] for wish, line in self._lines.items() if suits(wish)]
        return min(heads, key=lambda piece: piece.asked, default=None)

    def take(self, first: Piece, budget: int) -> list[Piece]:
        """That one with those behind it who wish the same, up to so many tokens; at least itself."""
        if first.lost:
            self._left(first)
            return [first]
        line, cost = self._lines[first.wish], 0
        taken: list[Piece] = []
        while line and (not taken or not line[0].waiting or cost + line[0].cost <= budget):
            piece = line.popleft()
            if piece.waiting:
                self._left(piece)
                taken.append(piece)
                cost += piece.cost
            if piece.wish.prefix:
                break  # a translation that begins as given is searched for alone
        return taken

    def stranded(self, served: Callable[[Wish], bool]) -> list[Piece]:
        """Those whose wish nobody can fulfil any more."""
        lines = (self._alone, *self._lines.values())
        return [piece for line in lines for piece in line if piece.waiting and not served(piece.wish)]

    def _left(self, piece: Piece) -> None:
        piece.waiting = False
        self.cost -= piece.cost
        self.number -= 1

    def _forget_the_gone(self) -> None:
        while self._alone and not self._alone[0].waiting:
            self._alone.popleft()
        for wish, line in list(self._lines.items()):
            while line and not line[0].waiting:
                line.popleft()
            if not line:
                del self._lines[wish]
