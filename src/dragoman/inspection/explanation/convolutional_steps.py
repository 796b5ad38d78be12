"""The attention of a ConvS2S decoder block at one position, step by step (Gehring et al., 2017)."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.inspection.explanation import worksheet as ws
from dragoman.inspection.explanation.attention_row import HeadArithmetic, InputToken, RowCapture, as_array
from dragoman.inspection.explanation.selection import AttentionLayer
from dragoman.inspection.explanation.worksheet import KeyTable, Step, Table
from dragoman.models.config import ConvolutionalConfig
from dragoman.models.convolutional import HALF, MultiStepAttention
from dragoman.models.seq2seq import Seq2Seq

Vector = Float[ndarray, " d"]
Cells = tuple[Decimal, ...]

ROOT: Final = ws.round_number(HALF, ws.FINE)


class ConvolutionalArithmetic:
    """The attention of one decoder block at one position, recomputed from its gate on."""

    symbol: ClassVar[str] = "s"
    divisor: ClassVar[float] = 1.0

    def __init__(
        self, model: Seq2Seq[Any, Any], layer: AttentionLayer, row: int, head: int, capture: RowCapture
    ) -> None:
        attention, config = model.get_submodule(layer.name), model.config
        assert isinstance(attention, MultiStepAttention)
        assert isinstance(config, ConvolutionalConfig)
        self.num_before, self.weights = config.kernel_size - 1, capture.weights[head]
        linear, enter = self.watch(layer)
        both = as_array(capture.calls[linear][0].output[0, row])
        self.passing, self.gate = np.split(both, 2)
        self.state = self.passing / (1 + np.exp(-self.gate))
        self.embedded = as_array(capture.calls[enter][0].inputs[0][0, row])
        self.mapped = as_array(attention.query.weight) @ self.state + as_array(attention.query.bias)
        query, keys, values = (self.mapped + self.embedded) * HALF, capture.key[head], capture.value[head]
        scores = keys @ query
        weights = ws.exact_softmax(scores, capture.visible)
        self.recomputed = HeadArithmetic(query, keys, values, scores, capture.visible, weights, weights @ values)
        self.context = self.weights @ values
        """The model's own weighted sum of the values."""
        self.output_weight, self.output_bias = as_array(attention.output.weight), as_array(attention.output.bias)
        self.added = self.output_weight @ self.context + self.output_bias

    @staticmethod
    def watch(layer: AttentionLayer) -> list[str]:
        """Return the names of the modules whose calls must be recorded."""
        return [f"{layer.name.rpartition('.')[0]}.convolution.linear", "decoder.enter"]

    def steps(self, keys: KeyTable, token: InputToken) -> Iterator[Step]:
        """Yield the steps from the encoder's output to the sum of state and context."""
        now, num_keys = self.recomputed, len(self.recomputed.keys)
        source = ("z, the output of the encoder:", keys.vectors(now.keys), "The values:", keys.vectors(now.values))
        yield ws.write_step("source_convolutional", *source, factor=ws.round_number(math.sqrt(num_keys / 2), ws.FINE))
        step, state = self._gate(token)
        yield step
        step, query = self._ask()
        yield step
        j = keys.choose(self.weights.tolist())
        scores = ws.round_all(now.scores)
        example = ws.dot_product(("d", f"z of {keys.labels[j]}", "s"), now.query, now.keys[j], cells=query)
        blocks = (f"For {keys.labels[j]}:", *example, "For every position:", keys.table({"s": scores}))
        section = "Gehring et al., 2017, section 3.3"
        yield ws.write_step("dot_scores", *blocks, formula="s_j = d · z_j", short="d · z", section=section)
        root = ws.square_root(len(now.query))
        divided = {f"over √{len(now.query)} = {root}": now.scores / math.sqrt(len(now.query))}
        spread = ws.spread_table(keys, {"as they are": now.scores, **divided})
        yield ws.write_step("undivided", *spread, why=ws.write_text("undivided_dot"))
        yield ws.mask_step(keys, scores, ws.write_text("mask_cross"), section)
        step, weights = ws.softmax_step(keys, scores, section, self.weights)
        yield step
        sentence = "The weight of each position, and its product with the value:"
        mixed = ws.weighted_sum(keys, weights, now.values, self.context)
        yield ws.write_step("context_convolutional", sentence, *mixed)
        summed, _ = self._scaled_sum("h", self.state, state, "+ W c + b", self.added)
        first = ws.dot_product(
            ("c", "W, row 0", "the first number"), self.context, self.output_weight[0], float(self.output_bias[0])
        )
        yield ws.write_step("next_convolutional", *first, summed)

    def _gate(self, token: InputToken) -> tuple[Step, Cells]:
        passing, gate = ws.first_numbers(self.passing), ws.first_numbers(self.gate)
        opened = tuple(ws.round_number(1 / (1 + (-number).exp())) for number in gate)
        state = tuple(ws.round_number(a * b) for a, b in zip(passing, opened, strict=True))
        table = ws.vectors(
            ("A", self.passing, passing),
            ("B", self.gate, gate),
            ("sigmoid of B", 1 / (1 + np.exp(-self.gate)), opened),
            ("h = A · that", self.state, state),
        )
        seen = f"{self.num_before} inputs before it" if self.num_before else "nothing else"
        return ws.write_step("gate", token.about, table, seen=seen), state

    def _ask(self) -> tuple[Step, Cells]:
        table, query = self._scaled_sum("W h + b", self.mapped, ws.first_numbers(self.mapped), "+ g", self.embedded)
        return ws.write_step("query_convolutional", table), query

    @staticmethod
    def _scaled_sum(name: str, one: Vector, cells: Cells, other_name: str, other: Vector) -> tuple[Table, Cells]:
        """Return the table of (one + other) * sqrt(1/2), and its last row; `cells` are the printed numbers of `one`."""
        total = tuple(a + b for a, b in zip(cells, ws.first_numbers(other), strict=True))
        scaled = tuple(ws.round_number(number * ROOT) for number in total)
        table = ws.vectors(
            (name, one, cells), (other_name, other), ("= sum", one + other, total),
            (f"· √½ = {ROOT}", (one + other) * HALF, scaled),
        )  # fmt: skip
        return table, scaled
