"""Converter of recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tables import GATES, reordered
from .table import Call, converter

__all__: list[str] = []

# Modes have an operator of ONNX with these attributes; activations are those of one direction.
_MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", {"activations": ["Tanh"]}),
    "rnn_relu": ("RNN", {"activations": ["Relu"]}),
}


class _Packed:
    """Weights that 1.x packs into one array: the matrices of all layers, then all biases.

    ``weights`` has, by layer and direction, the matrices of inputs, of states, and of the
    projection.
    """

    def __init__(
        self,
        array: np.ndarray,
        sizes: list[int],
        directions: int,
        rows: int,
        shape: tuple[int, ...],
    ) -> None:
        self.weights: list[tuple[np.ndarray, ...]] = []
        self.biases: list[tuple[np.ndarray, np.ndarray]] = []
        self._array, self._at = array.reshape(-1), 0
        out = sizes[-1]
        for size in sizes[:-1]:
            for _ in range(directions):
                parts = [self._take(rows, size), self._take(rows, out)]
                self.weights.append((*parts, *([self._take(*shape)] if shape else [])))
        for _ in self.weights:
            self.biases.append((self._take(rows), self._take(rows)))

    def _take(self, *shape: int) -> np.ndarray:
        begin, self._at = self._at, self._at + int(np.prod(shape))
        return self._array[begin : self._at].reshape(shape)


@converter("RNN")
def _rnn(c: Call) -> list[str]:
    packed = c.value_of(1)
    if packed is None:
        raise c.refuse("the weights must be parameters, got values that are computed from inputs")
    op, _ = _MODES[c.p.mode]
    directions, hidden = 2 if c.p.bidirectional else 1, c.p.state_size
    out = c.p.projection_size or hidden
    sizes = [c.extent(0, 2), *[out * directions] * (c.p.num_layers - 1), out]
    shape = (out, hidden) if c.p.projection_size else ()
    weights = _Packed(packed, sizes, directions, len(GATES[op]) * hidden, shape)
    clips = c.p.lstm_state_clip_min is not None or c.p.lstm_state_clip_max is not None
    layer_of = _stepped_layer if shape or (clips and op == "LSTM") else _layer
    states = c.x[2:4] if op == "LSTM" else c.x[2:3]
    x = c.x[0]
    last: list[list[str]] = [[] for _ in states]
    for layer in range(c.p.num_layers):
        cut = slice(layer * directions, (layer + 1) * directions)
        initial = states
        if c.p.num_layers > 1:
            initial = [c.g.slice(state, [0], [cut.start], [cut.stop]) for state in states]
        x, ends = layer_of(c, x, weights.weights[cut], weights.biases[cut], initial)
        for part, end in zip(last, ends):
            part.append(end)
    return [x, *(_joined(c, part, 0) for part in last)]


def _joined(c: Call, parts: list[str], axis: int) -> str:
    """Return parts concatenated along an axis."""
    whole: str = parts[0] if len(parts) == 1 else c.op("Concat", *parts, axis=axis)
    return whole


def _layer(
    c: Call, x: str, weights: list[Any], biases: list[Any], initial: list[str]
) -> tuple[str, list[str]]:
    """Return the output (time, batch, directions * hidden) and the last states of a layer."""
    op, options = _MODES[c.p.mode]
    gates, directions = GATES[op], len(weights)
    more = {k: v * directions if isinstance(v, list) else v for k, v in options.items()}
    first, second = (np.stack([reordered(pair[i], gates) for pair in weights]) for i in (0, 1))
    bias = np.stack([np.concatenate([reordered(b, gates) for b in pair]) for pair in biases])
    length = c.cast(len(c.x) - 1, "int32") if c.p.use_sequence_length else ""
    out, *ends = c.op(
        op, x, c.const(first), c.const(second), c.const(bias), length, *initial,
        outputs=1 + len(initial), hidden_size=c.p.state_size,
        direction="bidirectional" if directions == 2 else "forward", **more,
    )  # fmt: skip
    moved = c.op("Transpose", out, perm=[0, 2, 1, 3])  # (time, batch, direction, hidden)
    return c.op("Reshape", moved, c.g.const([0, 0, directions * c.p.state_size])), ends


def _stepped_layer(
    c: Call, x: str, weights: list[Any], biases: list[Any], initial: list[str]
) -> tuple[str, list[str]]:
    """Return the results of `_layer` for an LSTM with projection or clipped states, by a Scan."""
    if c.p.lstm_state_clip_nan:
        raise c.refuse("lstm_state_clip_nan True has no equivalent")
    outs: list[str] = []
    ends: list[list[str]] = [[], []]
    lengths, going = "", []
    if c.p.use_sequence_length:
        lengths = c.cast(len(c.x) - 1, "int64")
        steps = c.g.const(np.arange(c.extent(0, 0))[:, None])
        before_end = c.op("Less", steps, c.g.unsqueeze(lengths, 0))
        going = [c.g.unsqueeze(before_end, 2)]
    for number, (matrices, bias) in enumerate(zip(weights, biases)):
        back = number == 1
        inputs = c.op("MatMul", x, c.const(matrices[0].T))
        inputs = c.op("Add", inputs, c.const(bias[0] + bias[1]))
        if back and lengths:
            inputs = c.op("ReverseSequence", inputs, lengths, time_axis=0, batch_axis=1)
        turned = int(back and not lengths)
        states = [c.op("Gather", state, c.g.const(number), axis=0) for state in initial]
        scans = [inputs, *going]
        *last, out = c.op(
            "Scan", *states, *scans, outputs=3, body=_step(c, matrices, len(scans)),
            num_scan_inputs=len(scans), scan_input_directions=[turned] * len(scans),
            scan_output_directions=[turned],
        )  # fmt: skip
        if back and lengths:
            out = c.op("ReverseSequence", out, lengths, time_axis=0, batch_axis=1)
        outs.append(out)
        for part, state in zip(ends, last):
            part.append(c.g.unsqueeze(state, 0))
    joined = [_joined(c, part, 0) for part in ends]
    return _joined(c, outs, 2), joined


def _step(c: Call, matrices: Any, count: int) -> Any:
    """Return the graph of one step of an LSTM."""
    g, batch, hidden = c.g.child(), c.shapes[0][1], c.p.state_size
    out = matrices[1].shape[1]
    h, cell, x, going = (g.unique(f"{c.name}/{name}") for name in ("h", "cell", "x", "going"))
    total = g.node("Add", x, g.node("MatMul", h, c.const(matrices[1].T)))
    i, f, new, o = g.node("Split", total, g.const([hidden] * 4), outputs=4, axis=1)
    kept = g.node("Mul", g.node("Sigmoid", f), cell)
    added = g.node("Mul", g.node("Sigmoid", i), g.node("Tanh", new))
    next_cell = g.node("Add", kept, added)
    limits = [c.p.lstm_state_clip_min, c.p.lstm_state_clip_max]
    if any(limit is not None for limit in limits):
        given = ["" if limit is None else c.const(limit) for limit in limits]
        next_cell = g.node("Clip", next_cell, *given)
    next_h = g.node("Mul", g.node("Sigmoid", o), g.node("Tanh", next_cell))
    if len(matrices) > 2:
        next_h = g.node("MatMul", next_h, c.const(matrices[2].T))
    result = g.node("Identity", next_h)
    if count > 1:  # after its end, a sequence keeps its states and gives 0
        result = g.node("Where", going, next_h, c.const(0))
        next_h, next_cell = (
            g.node("Where", going, after, before)
            for after, before in ((next_h, h), (next_cell, cell))
        )
    infos = {h: (batch, out), cell: (batch, hidden), x: (batch, 4 * hidden)}
    inputs = [(name, shape, c.dtype) for name, shape in infos.items()]
    if count > 1:
        inputs.append((going, (batch, 1), "bool"))
    outputs = [
        (next_h, (batch, out), c.dtype),
        (next_cell, (batch, hidden), c.dtype),
        (result, (batch, out), c.dtype),
    ]
    return g.subgraph(f"{c.name}/step", inputs, outputs)
