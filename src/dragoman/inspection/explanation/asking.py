"""One look of a recurrent decoder at the source: its arithmetic done again, whichever score and locality it has."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.attention.score import Additive, Concat, General, Score
from dragoman.inspection.explanation.look import Call, Look, array
from dragoman.inspection.explanation.weights import Recomputed, exact_weights
from dragoman.models.recurrent import Recurrent
from dragoman.models.recurrent_attention import Attention, Predictive
from dragoman.models.recurrent_decoder import Luong, top

ATTENTION: Final = "decoder.attention"
CELLS: Final = "decoder.cells"
COMBINE: Final = "decoder.combine"


@dataclass(frozen=True, eq=False)
class Asking:
    """What happened in one step of the decoder."""

    model: Recurrent
    row: int
    seen: Look

    @staticmethod
    def watch(model: Recurrent) -> list[str]:
        """The modules whose work must be seen in the pass."""
        return [CELLS, COMBINE] if isinstance(model.decoder, Luong) else [CELLS]

    @cached_property
    def recomputed(self) -> Recomputed:
        """From the decoder's state, the encoder's, and the matrices of the score."""
        asked, keys = self.compared
        scores = np.tanh(asked + keys) @ self.direction if self.direction is not None else keys @ asked
        weights = exact_weights(scores, self.seen.visible)
        if self.predicted is not None:
            weights = weights * self.gaussian
        return Recomputed(asked, keys, self.source, scores, self.seen.visible, weights, weights @ self.source)

    @property
    def state(self) -> Float[ndarray, " d_model"]:
        """Of the decoder: what asks."""
        return np.asarray(self.seen.query[0])

    @property
    def source(self) -> Float[ndarray, "keys d_model"]:
        """What the encoder held at each position: what is looked at."""
        return np.asarray(self.seen.value[0])

    @property
    def score(self) -> Score:
        """How they are compared."""
        attention = self.model.get_submodule(ATTENTION)
        assert isinstance(attention, Attention)
        return attention.attend.score

    @cached_property
    def compared(self) -> tuple[Float[ndarray, " d"], Float[ndarray, "keys d"]]:
        """Both sides in the space where they are compared."""
        score, state, source = self.score, self.state, self.source
        if isinstance(score, Additive):
            return array(score.query.weight) @ state, source @ array(score.key.weight).T
        if isinstance(score, Concat):
            joint = array(score.joint.weight)
            return joint[:, : len(state)] @ state, source @ joint[:, len(state) :].T
        return state, source @ array(score.key.weight).T if isinstance(score, General) else source

    @property
    def direction(self) -> Float[ndarray, " d"] | None:
        """The vector v of v . tanh(...); dot products have none."""
        score = self.score
        return array(score.value.weight[0]) if isinstance(score, Additive | Concat) else None

    @cached_property
    def predicted(self) -> float | None:
        """The position around which a decoder with local-p looks."""
        centre = self.model.decoder.centre if isinstance(self.model.decoder, Luong) else None
        if not isinstance(centre, Predictive):
            return None
        pull = float(array(centre.value.weight[0]) @ np.tanh(array(centre.hidden.weight) @ self.state))
        return len(self.source) / (1 + math.exp(-pull))

    @property
    def gaussian(self) -> Float[ndarray, " keys"]:
        """What the weights of local-p are multiplied by."""
        assert self.predicted is not None
        distance = (np.arange(len(self.source)) - self.predicted) / (self.model.config.window / 2)
        return np.asarray(np.exp(-0.5 * distance**2))

    @property
    def found(self) -> Float[ndarray, " d_model"]:
        """The context vector: the model's own."""
        width = len(self.state)
        if isinstance(self.model.decoder, Luong):
            return array(self._call(COMBINE).given[0][0, :width])
        return array(self._call(CELLS).given[0][0, -width:])

    @property
    def leaving(self) -> Float[ndarray, " d_model"]:
        """What comes of it: Luong's attentional vector, or the next state."""
        if isinstance(self.model.decoder, Luong):
            return np.asarray(np.tanh(array(self._call(COMBINE).made[0])))
        return array(top(self._call(CELLS).made)[0])

    def _call(self, module: str) -> Call:
        """One step of the decoder is one call."""
        return self.seen.calls[module][self.row]
