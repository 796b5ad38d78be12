"""The ended hypotheses of a source, and the test for stopping its search."""

from dataclasses import dataclass, field

from dragoman.decoding.hypothesis import Candidate, Hypothesis, Result
from dragoman.decoding.options import SearchOptions


@dataclass
class Pool:
    """The ended hypotheses of a source, best first; of two with equal scores, the earlier comes first."""

    options: SearchOptions
    longest: int
    """The maximum output length for the source."""
    num_ended: int = 0
    best: list[Hypothesis] = field(default_factory=list)
    history: list[tuple[Candidate, ...]] = field(default_factory=list)

    def add(self, tokens: list[int], log_probabilities: list[float]) -> None:
        """Add a hypothesis that has ended; `tokens` ends with EOS."""
        length = len(tokens)
        score = self.options.penalty.score(sum(log_probabilities), length)
        cut = length == self.longest
        self.num_ended += 1
        self.best.append(Hypothesis(tuple(tokens[:-1]), tuple(log_probabilities), score, cut))
        self.best.sort(key=lambda hypothesis: -hypothesis.score)
        del self.best[self.options.num_best :]

    def is_enough(self, best_live: float, length: int) -> bool:
        """Return True if the search can stop, given the log-probability and length of the best live hypothesis."""
        if best_live == float("-inf"):
            return True
        match self.options.stop:
            case "never":
                return False
            case "count":
                return self.num_ended >= self.options.beam_size
            case "safe":
                if len(self.best) < self.options.num_best:
                    return False
                # The live hypothesis must still end, so it gets at least one more token.
                hope = self.options.penalty.best_future_score(best_live, length + 1, self.longest)
                return self.best[-1].score >= hope

    def result(self) -> Result:
        return Result(tuple(self.best), tuple(self.history))
