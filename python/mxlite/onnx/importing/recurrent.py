"""Converters of recurrent layers to the operator RNN where it fits, else to a loop over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..tables import GATES, reordered
from .control_flow import scanned
from .pointwise import ACTIVATIONS, activation, binary, scalar
from .table import Node, Value, constant, converter

__all__: list[str] = []

# For each of ONNX's operators: the mode of the operator RNN, and ONNX's default activations.
_LAYERS = {
    "LSTM": ("lstm", ["Sigmoid", "Tanh", "Tanh"]),
    "GRU": ("gru", ["Sigmoid", "Tanh"]),
    "RNN": ("rnn_tanh", ["Tanh"]),
}


class _Layer:
    """Attributes and constant weights of a layer."""

    def __init__(self, n: Node) -> None:
        self.n, self.hidden = n, n.get("hidden_size")
        self.direction = n.get("direction", "forward")
        self.count = 2 if self.direction == "bidirectional" else 1
        self.mode, usual = _LAYERS[n.op]
        self.gates: list[int] = np.argsort(GATES[n.op]).tolist()  # 1.x's gates in ONNX's order
        given = [k.decode() if isinstance(k, bytes) else k for k in n.get("activations") or ()]
        self.kinds = given or usual * self.count
        self.is_usual = self.kinds == usual * self.count
        if n.op == "RNN" and self.kinds == ["Relu"] * self.count:
            self.mode, self.is_usual = "rnn_relu", True
        self.batch_first = bool(n.get("layout", 0))
        first, second, bias = n.array(1), n.array(2), n.array(3)
        assert first is not None and second is not None
        if bias is None:
            bias = np.zeros((self.count, 2 * len(self.gates) * self.hidden), first.dtype)
        self.weights, self.recurrent = first, second
        self.bias = bias.reshape(self.count, 2, -1)
        self.lengths = [n.cast(n.x_at(4), "int32")] if n.has(4) else []
        self.x = self._by_time(n.x[0])

    def _by_time(self, value: Value) -> Value:
        """Return inputs or states with the batch as axis 1."""
        if not self.batch_first:
            return value
        return self.n.mx("SwapAxis", value, dim1=0, dim2=1)

    def initial(self) -> list[Value]:
        """Return the initial states (directions, batch, hidden)."""
        n = self.n
        return [
            self._by_time(n.x_at(i)) if n.has(i) and not _is_zero(n.x_at(i)) else self._zeros()
            for i in ((5, 6) if n.op == "LSTM" else (5,))
        ]

    def _zeros(self) -> Value:
        n, x, hidden = self.n, self.x, self.hidden
        if x.sizes[0] == x.sizes[1]:
            return n.const(np.zeros((self.count, x.shape[1], hidden)), x.dtype)
        one = n.mx("zeros_like", n.mx("slice", x, begin=(0, None, 0), end=(1, None, 1)))
        return n.mx("tile", one, reps=(self.count, 1, hidden))

    def reversed(self, value: Value) -> Value:
        """Return a sequence in reverse order of steps."""
        timed = bool(self.lengths)
        return self.n.mx("SequenceReverse", value, *self.lengths, use_sequence_length=timed)

    def results(self, out: Value, last: Sequence[Value]) -> list[Value]:
        """Return ONNX's outputs; ``out`` is (time, directions, batch, hidden)."""
        n = self.n
        if not self.batch_first:
            return [out, *last]
        moved = n.mx("transpose", out, axes=(2, 0, 1, 3))
        return [moved, *(n.mx("SwapAxis", state, dim1=0, dim2=1) for state in last)]


def _is_zero(value: Value) -> bool:
    return value.const is not None and not any(part.any() for part in value.const)


@converter("LSTM", "GRU", "RNN")
def _recurrent(n: Node) -> list[Value]:
    layer = _Layer(n)
    before_reset = n.op == "GRU" and not n.get("linear_before_reset", 0)
    other = n.get("clip") or n.get("input_forget", 0) or n.has(7)
    return _looped(layer) if before_reset or other or not layer.is_usual else _fused(layer)


def _fused(layer: _Layer) -> list[Value]:
    n, count, hidden, gates = layer.n, layer.count, layer.hidden, layer.gates
    initial = layer.initial()
    weights = [
        reordered(w[d], gates).reshape(-1)
        for d in range(count)
        for w in (layer.weights, layer.recurrent)
    ]
    weights += [reordered(layer.bias[d][i], gates) for d in range(count) for i in (0, 1)]
    packed = constant(np.concatenate(weights), name=n.x_at(1).name, trainable=True)
    backward = layer.direction == "reverse"
    x = layer.reversed(layer.x) if backward else layer.x
    out, *last = n.mx_all(
        "RNN", x, packed, *initial, *layer.lengths, state_size=hidden, num_layers=1,
        mode=layer.mode, bidirectional=count == 2, state_outputs=True,
        use_sequence_length=bool(layer.lengths),
    )  # fmt: skip
    out = layer.reversed(out) if backward else out
    first, second = ((*s[:2], count, hidden) for s in x.sizes)
    split = n.mx("Reshape", out, shape=(0, 0, count, hidden), sizes=(first, second))
    return layer.results(n.mx("transpose", split, axes=(0, 2, 1, 3)), last[: len(initial)])


class _Cell:
    """One step of one direction: its activations and its weights."""

    def __init__(self, layer: _Layer, direction: int) -> None:
        self.layer, self.n, self.hidden = layer, layer.n, layer.hidden
        per = len(layer.kinds) // layer.count
        start = direction * per
        self.functions = [self._function(i) for i in range(start, start + per)]
        self.recurrent = self._weight(layer.recurrent[direction])
        self.bias = self._weight(layer.bias[direction][1])
        holes = self.n.array(7)
        self.holes = None if holes is None else holes.reshape(layer.count, 3, -1)[direction]

    def _weight(self, array: np.ndarray) -> Value:
        return constant(array, name=self.n.x_at(2).name, trainable=True)

    def _function(self, index: int) -> Callable[[Value], Value]:
        kind = self.layer.kinds[index]
        if kind not in ACTIVATIONS:
            raise self.n.refuse(f"activations must be of {', '.join(ACTIVATIONS)}, got {kind}")
        alpha, beta = (
            dict(enumerate(self.n.get(name) or ())).get(index)
            for name in ("activation_alpha", "activation_beta")
        )
        op, params = activation(kind, alpha, beta)
        return partial(self.n.mx, op, **params)

    def dense(self, h: Value, begin: int = 0, end: int | None = None) -> Value:
        """Return the product of a state and the recurrent weights of some gates, with biases."""
        gates = len(self.layer.gates) if end is None else end
        rows = slice(begin * self.hidden, gates * self.hidden)
        weight, bias = self.recurrent, self.bias
        if (begin, end) != (0, None):
            assert weight.const is not None and bias.const is not None
            weight, bias = (self._weight(v.const[0][rows]) for v in (weight, bias))  # type: ignore[index]
        return self.n.mx("FullyConnected", h, weight, bias, num_hidden=rows.stop - rows.start)

    def clipped(self, value: Value) -> Value:
        """Return a gate's input clipped to the layer's limit."""
        limit = self.n.get("clip")
        return self.n.mx("clip", value, a_min=-limit, a_max=limit) if limit else value

    def gate(self, value: Value, index: int) -> Value:
        """Return the slice of one gate from the concatenated gates."""
        size = self.hidden
        return self.n.mx("slice_axis", value, axis=1, begin=index * size, end=(index + 1) * size)

    def add(self, a: Value, b: Value) -> Value:
        """Return a sum."""
        return binary(self.n, "Add", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """Return a product."""
        return binary(self.n, "Mul", a, b)

    def seen(self, value: Value, state: Value, index: int) -> Value:
        """Return a gate's input plus its peephole term, a product with the cell state."""
        if self.holes is None:
            return value
        hole = self.n.const(self.holes[index], state.dtype)
        return self.add(value, self.mul(state, hole))

    def rest(self, value: Value) -> Value:
        """Return one minus a value."""
        return scalar(self.n, "rminus", value, 1)

    def lstm(self, x: Value, h: Value, c: Value) -> list[Value]:
        """Return the next state and cell state."""
        total = self.add(x, self.dense(h))
        first, second, third = self.functions
        i, o, f, g = (self.gate(total, index) for index in range(4))
        i = first(self.clipped(self.seen(i, c, 0)))
        f = self.rest(i) if self.n.get("input_forget", 0) else first(
            self.clipped(self.seen(f, c, 2)))  # fmt: skip
        new = self.add(self.mul(f, c), self.mul(i, second(self.clipped(g))))
        o = first(self.clipped(self.seen(o, new, 1)))
        return [self.mul(o, third(new)), new]

    def gru(self, x: Value, h: Value) -> list[Value]:
        """Return the next state."""
        first, second = self.functions
        total = self.dense(h, 0, 2)
        z, r = (first(self.clipped(self.add(self.gate(x, i), self.gate(total, i)))) for i in (0, 1))
        if self.n.get("linear_before_reset", 0):
            inner = self.mul(r, self.dense(h, 2, 3))
        else:
            inner = self.dense(self.mul(r, h), 2, 3)
        new = second(self.clipped(self.add(self.gate(x, 2), inner)))
        return [self.add(self.mul(self.rest(z), new), self.mul(z, h))]

    def rnn(self, x: Value, h: Value) -> list[Value]:
        """Return the next state."""
        return [self.functions[0](self.clipped(self.add(x, self.dense(h))))]


def _direction(layer: _Layer, direction: int, states: list[Value]) -> tuple[Value, list[Value]]:
    """Return the outputs (time, batch, hidden) and the last states of one direction."""
    n, cell = layer.n, _Cell(layer, direction)
    call: Callable[..., list[Value]] = getattr(cell, n.op.lower())
    backward = direction == 1 or layer.direction == "reverse"
    x = layer.reversed(layer.x) if backward else layer.x
    rows = len(layer.gates) * layer.hidden
    weight = constant(layer.weights[direction], name=n.x_at(1).name, trainable=True)
    bias = constant(layer.bias[direction][0], name=n.x_at(1).name, trainable=True)
    inputs = n.mx("FullyConnected", x, weight, bias, num_hidden=rows, flatten=False)
    times = [n.const(np.arange(x.shape[0]), "int32")] if layer.lengths else []

    def step(slices: list[Value], own: list[Value]) -> tuple[list[Value], list[Value]]:
        new = call(slices[0], *own)
        if not times:
            return new, new[:1]
        lengths = n.mx("expand_dims", layer.lengths[0], axis=1)
        going = binary(n, "Less", slices[1], lengths)
        mask = n.cast(going, x.dtype)
        stay = cell.rest(mask)
        kept = [cell.add(cell.mul(a, mask), cell.mul(b, stay)) for a, b in zip(new, own)]
        return kept, [cell.mul(new[0], mask)]

    last, (out,) = scanned(n, [inputs, *times], states, step)
    return layer.reversed(out) if backward else out, last


def _looped(layer: _Layer) -> list[Value]:
    n, initial = layer.n, layer.initial()
    outs, ends = [], []
    for direction in range(layer.count):
        states = [
            n.mx("squeeze", n.mx("slice_axis", state, axis=0, begin=direction, end=direction + 1),
                 axis=0)
            for state in initial
        ]  # fmt: skip
        out, last = _direction(layer, direction, states)
        outs.append(n.mx("expand_dims", out, axis=1))
        ends.append([n.mx("expand_dims", state, axis=0) for state in last])
    if layer.count == 1:
        return layer.results(outs[0], ends[0])
    joined = [n.mx("Concat", *pair, dim=0) for pair in zip(*ends)]
    return layer.results(n.mx("Concat", *outs, dim=1), joined)
