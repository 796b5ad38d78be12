"""One head of multi-head attention at one position, step by step (Vaswani et al., 2017, sections 3.1 to 3.5)."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from dragoman.attention.kinds import Kind
from dragoman.attention.multihead import MultiHead
from dragoman.attention.rotary import BASE
from dragoman.inspection.explanation import worksheet as ws
from dragoman.inspection.explanation.attention_row import HeadArithmetic, InputToken, RowCapture, as_array
from dragoman.inspection.explanation.selection import AttentionLayer
from dragoman.inspection.explanation.worksheet import KeyTable, Row, Step, Table
from dragoman.layers.embedding import Embedding
from dragoman.layers.positions import Layout
from dragoman.layers.sublayer import Residual
from dragoman.models.seq2seq import Seq2Seq

Cells = tuple[Decimal, ...]

RESIDUALS: Final[dict[Kind, str]] = {"encoder": "around_attention", "decoder": "around_self", "cross": "around_cross"}


class MultiHeadArithmetic:
    """One head at one position, recomputed from the head's matrices and their inputs."""

    symbol: ClassVar[str] = "s"

    def __init__(
        self, model: Seq2Seq[Any, Any], layer: AttentionLayer, row: int, head: int, capture: RowCapture
    ) -> None:
        attention, residual = model.get_submodule(layer.name), model.get_submodule(_residual_name(layer))
        embedding = model.get_submodule(f"{'encoder' if layer.kind == 'encoder' else 'decoder'}.embedding")
        assert isinstance(attention, MultiHead)
        assert isinstance(residual, Residual)
        assert isinstance(embedding, Embedding)
        self.layer, self.row, self.head, self.capture = layer, row, head, capture
        self.norm, self.embedding, self.is_pre_norm = residual.norm, embedding, residual.place == "pre"
        read, before_norm = (as_array(capture.calls[name][0].inputs[0][0, row]) for name in self.watch(layer))
        self.input = read
        """The input of the attention at this position."""
        self.stream = before_norm if self.is_pre_norm else read
        """The residual stream at this position before the attention."""
        d_k = capture.query.shape[1]
        self.divisor = math.sqrt(d_k)
        """The number by which the model divides the scores."""
        mine = slice(head * d_k, (head + 1) * d_k)
        self.query_weight = as_array(attention.query.weight)[mine]
        self.query_bias = None if attention.query.bias is None else as_array(attention.query.bias)[mine]
        query, keys = self.query_weight @ read, capture.key[head]
        query = query if self.query_bias is None else query + self.query_bias
        self.query, self.keys, self.is_rotary = query, keys, attention.rotary
        """The query and the keys as they are projected, before they turn with their positions."""
        if attention.rotary:
            query = turn(query, row)
            self.keys = np.stack([turn(key, -position) for position, key in enumerate(keys)])
        scores = keys @ query / self.divisor
        weights, values = ws.exact_softmax(scores, capture.visible), capture.value[head]
        self.recomputed = HeadArithmetic(query, keys, values, scores, capture.visible, weights, weights @ values)
        sums = np.einsum("hk,hkv->hv", capture.weights, capture.value)
        self.weighted_sum = sums[head]
        """The model's own weighted sum of this head's values."""
        weight = as_array(attention.output.weight)
        self.output_weight = weight.reshape(len(weight), attention.num_heads, -1)
        self.added = np.einsum("hv,mhv->hm", sums, self.output_weight)
        """The vector that each head adds to the position through its rows of W_O (columns in torch)."""
        bias = attention.output.bias
        self.output_bias = np.zeros(len(weight)) if bias is None else as_array(bias)
        self.output = self.added.sum(0) + self.output_bias

    @staticmethod
    def watch(layer: AttentionLayer) -> list[str]:
        """Return the names of the modules whose calls must be recorded."""
        return [f"{layer.name}.query", f"{_residual_name(layer)}.norm"]

    def steps(self, keys: KeyTable, token: InputToken) -> Iterator[Step]:
        """Yield the steps from the token's id to the sum of the residual stream and all heads."""
        now, kind, weights = self.recomputed, self.layer.kind, self.capture.weights[self.head]
        step, embedded, stream = self._embed(token)
        yield from step
        if self.layer.layer or kind == "cross":
            yield self._pass_layers_below(embedded, stream)
            stream = ws.first_numbers(self.stream)
        entering = stream
        if self.is_pre_norm:
            table, sentence, entering = self._norm_table("x", stream, self.stream)
            yield ws.write_step("norm", sentence, table)
        yield self._project(keys, entering)
        if self.is_rotary:
            yield self._turn(keys)
        products = now.keys @ now.query
        scores, divisor = ws.round_all(products), ws.square_root(len(now.query))
        j = keys.choose(weights.tolist())
        example = ws.dot_product(("q", f"k of {keys.labels[j]}", "q · k"), now.query, now.keys[j])
        blocks = (f"For {keys.labels[j]}:", *example, "For every key:", keys.table({"q · k": scores}))
        yield ws.write_step("dot_scores", *blocks, formula="q · k_j", short="q · k", section="section 3.2.1")
        divided = tuple(ws.round_number(score / divisor) for score in scores)
        table = keys.table({"q · k": scores, f"/ {divisor} = s": divided})
        spread = ws.spread_table(keys, {"divided": now.scores, "not divided": products})
        yield ws.write_step("division", table, *spread, d_k=len(now.query), divisor=divisor)
        yield ws.mask_step(keys, divided, ws.write_text(f"mask_{kind}"), "section 3.2.3")
        softmax, shares = ws.softmax_step(keys, divided, "section 3.2.1", weights)
        yield softmax
        sentence = "The weight of each key, and its product with the value:"
        yield ws.write_step("values", sentence, *ws.weighted_sum(keys, shares, now.values, self.weighted_sum))
        yield self._project_output()
        yield self._add_to_stream(stream)

    def _embed(self, token: InputToken) -> tuple[tuple[Step, Step], Float[ndarray, " d_model"], Cells]:
        """Return the steps for token and position, the embedding, and the embedding's first numbers."""
        row, positions = as_array(self.embedding.tokens.weight[token.id]), self.embedding.positions
        root, position = ws.square_root(len(row)), as_array(positions.table[self.row])
        scaled, embedded = row * self.embedding.scale, row * self.embedding.scale + position
        first = ws.first_numbers(row, ws.FINE)
        scaled_cells = tuple(ws.round_number(number * root) for number in first)
        table = ws.vectors((f"E[{token.id}]", row, first), (f"· √{len(row)} = {root}", scaled, scaled_cells))
        layout = positions.layout
        formula, sentence = ws.write_text(f"formula_{layout}"), ws.write_text(f"position_{layout}")
        has_waves = layout in ("sinusoidal", "sinusoidal-halves") and len(row) >= ws.SHOWN
        waves = [_wave_table(layout, self.row, len(row))] if has_waves else []
        cells = tuple(Decimal(wave.cells[1]) for wave in waves[0].rows) if waves else ws.first_numbers(position)
        total = tuple(a + b for a, b in zip(scaled_cells, cells, strict=True))
        added = (f"+ position {self.row}", position, cells)
        summed = ws.vectors(("from step 1", scaled, scaled_cells), added, ("= x", embedded, total))
        position_step = ws.write_step("position", sentence, *waves, summed, formula=formula)
        return (ws.write_step("token", token.about, table), position_step), embedded, total

    def _pass_layers_below(self, embedded: Float[ndarray, " d_model"], begun: Cells) -> Step:
        cosine = float(self.stream @ embedded / (np.linalg.norm(self.stream) * np.linalg.norm(embedded)))
        layer = self.layer.layer
        passed = [f"layers 0 to {layer - 1}" if layer > 1 else "layer 0"] if layer else []
        passed += [f"the self-attention of layer {layer}"] if self.layer.kind == "cross" else []
        return ws.write_step(
            "below",
            f"It went through {' and '.join(passed)}.",
            ws.vectors(("x at the start", embedded, begun), ("x now", self.stream)),
            ws.write_text("cosine", cosine=ws.round_number(cosine, 2)),
            position=self.row,
            layer=layer,
            sublayer="x + Sublayer(LayerNorm(x))" if self.is_pre_norm else "LayerNorm(x + Sublayer(x))",
        )

    def _project(self, keys: KeyTable, entering: Cells) -> Step:
        now, num_heads, kind = self.recomputed, len(self.added), self.layer.kind
        x = "y" if self.is_pre_norm else "x"
        bias = None if self.query_bias is None else float(self.query_bias[0])
        q, k, v = (f"W^{part}" if bias is None else f"W^{part} + b^{part}" for part in "QKV")
        d_k, d_v = len(now.query), now.values.shape[1]
        rest = ", W^K and W^V" if d_v == d_k else f" and W^K, and {d_v} of the {d_v * num_heads} of W^V"
        blocks = (
            f"This head has {d_k} of the {d_k * num_heads} columns of W^Q{rest}. How q begins:",
            *ws.dot_product((x, "W^Q, column 0", "q[0]"), self.input, self.query_weight[0], bias, entering),
            "The query, and then the key of every position:",
            ws.vectors(("q", self.query)),
            keys.vectors(self.keys),
            "And the value of every position:",
            keys.vectors(now.values),
        )
        m = "m" if kind == "cross" else x
        return ws.write_step("projections", *blocks, keys=ws.write_text(f"keys_{kind}"), x=x, m=m, q=q, k=k, v=v)

    def _turn(self, keys: KeyTable) -> Step:
        d_k, before = len(self.query), ws.first_numbers(self.query)
        rows, after = [], list(before)
        for i in range(0, len(before), 2):
            angle = ws.round_number(self.row / BASE ** (i / d_k), ws.FINE)
            cos, sin = ws.round_number(math.cos(angle), ws.FINE), ws.round_number(math.sin(angle), ws.FINE)
            rows.append(Row(f"[{i}] and [{i + 1}]", (angle, cos, sin)))
            a, b = before[i : i + 2]
            after[i : i + 2] = ws.round_number(a * cos - b * sin), ws.round_number(a * sin + b * cos)
        return ws.write_step(
            "rotary",
            f"The angles at position {self.row}:",
            Table(("angle", "cos", "sin"), tuple(rows)),
            ws.vectors(("q", self.query, before), ("q, turned", self.recomputed.query, after)),
            "The keys, each turned by the angles of its own position:",
            keys.vectors(self.recomputed.keys),
        )

    def _project_output(self) -> Step:
        added, column = self.added[self.head], self.output_weight[0, self.head]
        parts = {f"head {i}": numbers for i, numbers in enumerate(self.added)}
        if self.query_bias is not None:
            parts["the bias"] = self.output_bias
        parts["x, going around"] = self.stream
        lengths = {label: float(np.linalg.norm(part)) for label, part in parts.items()}
        longest, mine = max(lengths.values()), f"head {self.head}"
        rows = tuple(
            Row(label, (ws.round_number(length),), bar=length / longest, mark="explained" if label == mine else "")
            for label, length in lengths.items()
        )
        return ws.write_step(
            "output",
            *ws.dot_product(("head", "W^O, column 0", "the first number"), self.weighted_sum, column),
            ws.vectors((f"{mine} adds", added)),
            "How long that vector is beside the others. Long does not mean important:",
            Table(("length",), rows),
            d_v=len(column),
            d_model=len(added),
        )

    def _add_to_stream(self, stream: Cells) -> Step:
        summed = self.stream + self.output
        total = tuple(a + b for a, b in zip(stream, ws.first_numbers(self.output), strict=True))
        table = ws.vectors(("x", self.stream, stream), ("+ all heads", self.output), ("= the sum", summed, total))
        reader = "the attention over the source" if self.layer.kind == "decoder" else "the feed-forward layer"
        if self.is_pre_norm:
            return ws.write_step("next_pre", table, f"It stays as it is; {reader} reads it next, normalised again.")
        norm, sentence, _ = self._norm_table("the sum", total, summed)
        return ws.write_step("next_post", table, sentence, norm, f"{reader.capitalize()} reads it next.")

    def normalise(self, numbers: Float[ndarray, " d_model"]) -> Float[ndarray, " d_model"]:
        """Return the LayerNorm of a vector in full precision."""
        unit = (numbers - numbers.mean()) / math.sqrt(float(numbers.var()) + self.norm.eps)
        return np.asarray(unit * as_array(self.norm.weight) + as_array(self.norm.bias))

    def _norm_table(self, label: str, cells: Cells, numbers: Float[ndarray, " d_model"]) -> tuple[Table, str, Cells]:
        """Return the table of a LayerNorm, a sentence about mean and deviation, and the first normalised numbers."""
        mean, deviation = float(numbers.mean()), math.sqrt(float(numbers.var()) + self.norm.eps)
        centre, size = ws.round_number(mean, ws.FINE), ws.round_number(deviation, ws.FINE)
        gain, bias = as_array(self.norm.weight), as_array(self.norm.bias)
        unit = tuple(ws.round_number((cell - centre) / size) for cell in cells)
        parts = zip(unit, ws.first_numbers(gain), ws.first_numbers(bias), strict=True)
        result = tuple(ws.round_number(u * g + b) for u, g, b in parts)
        table = ws.vectors(
            (label, numbers, cells),
            ("- mean, / deviation", (numbers - mean) / deviation, unit),
            ("· gain", gain),
            ("+ bias", bias),
            ("= LayerNorm", self.normalise(numbers), result),
        )
        return table, f"Of all {len(numbers)} numbers the mean is {centre:f} and the deviation {size:f}:", result


def turn(x: Float[ndarray, " d_k"], position: int) -> Float[ndarray, " d_k"]:
    """Return the rotary encoding of a vector at this position; at minus the position it is undone."""
    angle = position / BASE ** (np.arange(0, len(x), 2) / len(x))
    a, b = x[0::2], x[1::2]
    turned = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
    return np.stack(turned, axis=-1).reshape(-1)


def _residual_name(layer: AttentionLayer) -> str:
    return f"{layer.name.rpartition('.')[0]}.{RESIDUALS[layer.kind]}"


def _wave_table(layout: Layout, position: int, d_model: int) -> Table:
    """Return the table of the first numbers of a sinusoidal position encoding, with the angles."""
    rows = []
    half = d_model // 2
    for i in range(ws.SHOWN):
        is_sine, exponent = i % 2 == 0, 2 * (i // 2) / d_model
        if layout == "sinusoidal-halves":
            is_sine, exponent = i < half, i % half / (half - 1)
        angle = ws.round_number(position / 10_000.0**exponent, ws.FINE)
        value = math.sin(angle) if is_sine else math.cos(angle)
        rows.append(Row(f"[{i}] {'sin' if is_sine else 'cos'} of", (angle, ws.round_number(value))))
    return Table(("angle", "position"), tuple(rows))
