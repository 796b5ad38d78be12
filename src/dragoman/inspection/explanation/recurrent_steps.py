"""The attention of a recurrent decoder, step by step (Bahdanau et al., 2015; Luong et al., 2015)."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.attention.score import ActivatedGeneral, Additive, BiasedGeneral, Concat, Cosine, Location
from dragoman.inspection.explanation import worksheet as ws
from dragoman.inspection.explanation.attention_row import HeadArithmetic, InputToken, RowCapture, as_array
from dragoman.inspection.explanation.selection import AttentionLayer
from dragoman.inspection.explanation.worksheet import KeyTable, Step, Table
from dragoman.models.config import RecurrentConfig
from dragoman.models.recurrent_attention import Predictive, RecurrentAttention
from dragoman.models.recurrent_decoder import Luong, top
from dragoman.models.seq2seq import Seq2Seq

PAPERS: Final = {
    "cosine": "Graves et al., 2014, section 3.3.1",
    "biased-general": "Sordoni et al., 2016",
    "activated-general": "Ma et al., 2017",
}
"""The papers of the scores that are neither Bahdanau's nor Luong's."""

QUERIES: Final = {
    "additive": "W s",
    "concat": "W s",
    "biased-general": "W s + b",
    "cosine": "b s / |s|",
}
"""What each score makes of the state s; the others take it as it is."""


class RecurrentArithmetic:
    """The attention of one recurrent decoder step, recomputed for any score function."""

    symbol: ClassVar[str] = "e"
    divisor: ClassVar[float] = 1.0

    def __init__(
        self, model: Seq2Seq[Any, Any], layer: AttentionLayer, row: int, head: int, capture: RowCapture
    ) -> None:
        attention, config = model.get_submodule(layer.name), model.config
        assert isinstance(attention, RecurrentAttention)
        assert isinstance(config, RecurrentConfig)
        self.decoder, self.config, self.row, self.weights = model.decoder, config, row, capture.weights[head]
        self.luong = self.decoder if isinstance(self.decoder, Luong) else None
        self.state, self.source = capture.query[head], capture.value[head]
        self.context = self.weights @ self.source
        self.next_state = as_array(top(capture.calls[self.watch(layer)[0]][row].output)[0])
        score, query, keys = attention.attend.score, self.state, capture.key[head]
        self.direction: Float[ndarray, " d"] | None = None
        """The vector v of v · tanh(...); None for dot products."""
        if isinstance(score, Additive | Concat):
            weight = score.query.weight if isinstance(score, Additive) else score.joint.weight[:, : len(query)]
            query, self.direction = as_array(weight) @ query, as_array(score.value.weight[0])
        elif isinstance(score, BiasedGeneral):
            query = as_array(score.query.weight) @ query + as_array(score.query.bias)
        elif isinstance(score, Cosine):
            query = query / np.linalg.norm(query) * math.exp(score.log_sharpness.item())
        elif isinstance(score, Location):
            keys = as_array(score.position.weight)[: len(keys)]
            if len(keys) < len(self.source):
                known = f"the location score knows {len(keys)} positions"
                raise ValueError(f"the source has {len(self.source)} tokens, and {known}: give a shorter source")
        scores = keys @ query if self.direction is None else np.tanh(query + keys) @ self.direction
        self.bias: float | None = None
        """The bias that is added before tanh; None for scores without tanh over a product."""
        if isinstance(score, ActivatedGeneral):
            self.bias = score.bias.item()
            scores = np.tanh(scores + self.bias)
        weights = ws.exact_softmax(scores, capture.visible)
        self.centre: float | None = None
        """The centre of the local-p attention window; None for other kinds of attention."""
        if self.luong is not None and isinstance(self.luong.centre, Predictive):
            predict, num_keys = self.luong.centre, len(self.source)
            pull = as_array(predict.value.weight[0]) @ np.tanh(as_array(predict.hidden.weight) @ self.state)
            self.centre = num_keys / (1 + math.exp(-float(pull)))
            weights *= np.exp(-2 * ((np.arange(num_keys) - self.centre) / config.window) ** 2)
        output = weights @ self.source
        self.recomputed = HeadArithmetic(query, keys, self.source, scores, capture.visible, weights, output)

    @staticmethod
    def watch(layer: AttentionLayer) -> list[str]:
        """Return the names of the modules whose calls must be recorded."""
        return [f"{layer.name.rpartition('.')[0]}.cells"]

    def steps(self, keys: KeyTable, token: InputToken) -> Iterator[Step]:
        """Yield the steps from the encoder's output to the decoder's next state."""
        now, kind = self.recomputed, self.config.score
        yield self._describe_source(keys)
        yield self._describe_state(token)
        if kind != "dot":
            query = ("The state:", ws.vectors((QUERIES[kind], now.query))) if kind in QUERIES else ()
            of_keys = ws.write_text("keys_location" if kind == "location" else "keys_source")
            blocks = query if kind == "biased-general" else (*query, of_keys, keys.vectors(now.keys))
            yield ws.write_step(f"compare_{kind}", *blocks, section=self._score_section())
        step, scores = self._score(keys)
        yield step
        width, form = now.keys.shape[1], "dot" if self.direction is None else "tanh"
        if kind in ("cosine", "activated-general"):
            form = "bounded"
        divided = {f"over √{width} = {ws.square_root(width)}": now.scores / math.sqrt(width)}
        spread = ws.spread_table(keys, {"as they are": now.scores, **divided})
        yield ws.write_step("undivided", *spread, why=ws.write_text(f"undivided_{form}"))
        yield self._mask(keys, scores)
        model = self.weights if self.centre is None else None  # otherwise the bell is in them, too
        step, weights = ws.softmax_step(keys, scores, self._section("section 3.1"), model)
        yield step
        if self.centre is not None:
            step, weights = self._weigh_by_distance(keys, weights, self.centre)
            yield step
        sentence = "The weight of each position, and its product with h:"
        blocks = (sentence, *ws.weighted_sum(keys, weights, self.source, self.context))
        yield ws.write_step("context", *blocks, section=self._section("section 3.1"))
        yield self._finish_step()

    def _section(self, luong: str, bahdanau: str | None = None) -> str:
        paper = "Luong et al., 2015" if self.luong else "Bahdanau et al., 2015"
        return f"{paper}, {luong if self.luong or bahdanau is None else bahdanau}"

    def _score_section(self) -> str:
        return PAPERS.get(self.config.score) or self._section("section 3.1", "appendix A.1.2")

    def _describe_source(self, keys: KeyTable) -> Step:
        sentence, direction, formula = "One vector for each position of the source.", "left to right", "f(h_{j-1}, x_j)"
        half = "last" if self.config.reverse_source else "first"  # its forward layer reads backwards
        if self.config.reverse_source:
            direction, formula = "right to left", "f(h_{j+1}, x_j)"
        if self.config.bidirectional:
            sentence += f" The {half} {self.source.shape[1] // 2} numbers are of the reader that goes forwards."
            direction, formula = "both ends", "[forwards_j; backwards_j]"
        section = self._section("section 3", "section 3.2")
        values = {"direction": f"from {direction}", "formula": f"h_j = {formula}", "section": section}
        return ws.write_step("source", sentence, keys.vectors(self.source), **values)

    def _describe_state(self, token: InputToken) -> Step:
        name, sentence = "state_luong", f"The state s after reading {token.piece}:"
        if not self.luong:
            name, sentence = "state_bahdanau", f"The state s before reading {token.piece}:"
            if self.row == 0:
                name, sentence = "state_first", "The first state s:"
        blocks = (token.about, sentence, ws.vectors(("s", self.state)))
        return ws.write_step(name, *blocks, section=self._section("section 3", "section 3.1"))

    def _score(self, keys: KeyTable) -> tuple[Step, tuple[Decimal, ...]]:
        now, j = self.recomputed, keys.choose(self.weights.tolist())
        label, query, key, scores = keys.labels[j], now.query, now.keys[j], ws.round_all(now.scores)
        columns, of_state = {"e": scores}, QUERIES.get(self.config.score, "s")
        if self.bias is not None:
            before = ws.round_all(now.keys @ query + self.bias)
            scores = tuple(ws.round_number(math.tanh(number)) for number in before)
            columns = {"s · W h + b": before, "e": scores}
            names = ("s", f"that of {label}", "s · W h + b")
            name, example = "tanh_of_dot_scores", ws.dot_product(names, query, key, self.bias)
        elif self.direction is None:
            name, example = "dot_scores", ws.dot_product((of_state, f"that of {label}", "e"), query, key)
        else:
            name, example = "tanh_scores", self._score_by_tanh(label, query, key, self.direction)
        blocks = (f"For {label}:", *example, "For every position:", keys.table(columns))
        formula = ws.write_text(f"score_{self.config.score}")
        short = formula.partition(" = ")[2]
        return ws.write_step(name, *blocks, formula=formula, short=short, section=self._score_section()), scores

    def _score_by_tanh(
        self, label: str, query: Float[ndarray, " d"], key: Float[ndarray, " d"], direction: Float[ndarray, " d"]
    ) -> tuple[Table, str]:
        squeezed, cells = np.tanh(query + key), zip(ws.first_numbers(query), ws.first_numbers(key), strict=True)
        tanh = tuple(ws.round_number(math.tanh(a + b)) for a, b in cells)
        products = tuple(ws.round_number(t * v) for t, v in zip(tanh, ws.first_numbers(direction), strict=True))
        table = ws.vectors(
            ("W s", query),
            (f"+ that of {label}", key),
            ("tanh of the sum", squeezed, tanh),
            ("· v", direction),
            ("= product", squeezed * direction, products),
        )
        return table, ws.add_up(products, len(direction), float(squeezed @ direction), "e")

    def _mask(self, keys: KeyTable, scores: tuple[Decimal, ...]) -> Step:
        if self.config.locality == "global":
            return ws.mask_step(keys, scores, ws.write_text("mask_global"), self._section("section 3.1"))
        centre = f"position {self.row}, as if both sides ran in step"
        if self.centre is not None:
            centre = f"position {round(self.centre)}, which the state predicts"
        why = ws.write_text("mask_local", window=self.config.window, centre=centre)
        return ws.mask_step(keys, scores, why, self._section("section 3.2"))

    def _weigh_by_distance(
        self, keys: KeyTable, shares: tuple[Decimal, ...], centre: float
    ) -> tuple[Step, tuple[Decimal, ...]]:
        p, window = ws.round_number(centre), self.config.window
        bell = tuple(ws.round_number((-2 * (j - p) ** 2 / window**2).exp()) for j in range(len(shares)))
        weights = tuple(ws.round_number(share * near) for share, near in zip(shares, bell, strict=True))
        columns = {"softmax": shares, "bell": bell, "weight": weights, "model": ws.round_all(self.weights)}
        sentence = f"It predicts p = {p:f}; the window reaches D = {window} positions to either side."
        return ws.write_step("near", sentence, keys.table(columns, self.weights.tolist())), weights

    def _finish_step(self) -> Step:
        if self.luong is None:
            table = ws.vectors(("s before", self.state), ("c", self.context), ("s after", self.next_state))
            return ws.write_step("next_bahdanau", table, section=self._section("section 3.1"))
        both, weight = np.concatenate([self.context, self.state]), as_array(self.luong.combine.weight)
        summed = weight @ both
        tanh = tuple(ws.round_number(math.tanh(number)) for number in ws.first_numbers(summed))
        fed = " It enters the next step, too (input feeding)." if self.config.input_feeding else ""
        return ws.write_step(
            "next_luong",
            *ws.dot_product(("[c; s]", "W_c, row 0", "the first number"), both, weight[0]),
            ws.vectors(("W_c [c; s]", summed), ("tanh of it", np.tanh(summed), tanh)),
            f"This vector is compared with every word of the vocabulary.{fed}",
            section=self._section("section 3.1"),
        )
