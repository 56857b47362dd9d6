"""Converter of recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tables import reordered
from .table import Call, converter

__all__: list[str] = []

# ONNX's operator, its order of gates as positions in 1.x's order, and further attributes.
_MODES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), {}),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", (0,), {}),
    "rnn_relu": ("RNN", (0,), {}),
}


class _Packed:
    """Weights that 1.x packs into one array: the matrices of all layers, then all biases."""

    def __init__(self, array: np.ndarray, sizes: list[int], directions: int, rows: int) -> None:
        self.weights: list[tuple[np.ndarray, np.ndarray]] = []
        self.biases: list[tuple[np.ndarray, np.ndarray]] = []
        self._array, self._at = array.reshape(-1), 0
        hidden = sizes[-1]
        for size in sizes[:-1]:
            for _ in range(directions):
                self.weights.append((self._take(rows, size), self._take(rows, hidden)))
        for _ in self.weights:
            self.biases.append((self._take(rows), self._take(rows)))

    def _take(self, *shape: int) -> np.ndarray:
        begin, self._at = self._at, self._at + int(np.prod(shape))
        return self._array[begin : self._at].reshape(shape)


@converter("RNN")
def _rnn(c: Call) -> list[str]:
    if c.p.projection_size is not None:
        raise c.refuse("projection_size must be None, because ONNX has no projected LSTM")
    if c.p.lstm_state_clip_min is not None or c.p.lstm_state_clip_max is not None:
        raise c.refuse("lstm_state_clip_min and lstm_state_clip_max must be None")
    packed = c.value_of(1)
    if packed is None:
        raise c.refuse("the weights must be parameters, got values that are computed from inputs")
    op, gates, options = _MODES[c.p.mode]
    more = dict(options)
    directions, hidden = 2 if c.p.bidirectional else 1, c.p.state_size
    if op == "RNN":
        more["activations"] = ["Tanh" if c.p.mode == "rnn_tanh" else "Relu"] * directions
    sizes = [c.extent(0, 2), *[hidden * directions] * (c.p.num_layers - 1), hidden]
    weights = _Packed(packed, sizes, directions, len(gates) * hidden)
    length = c.cast(len(c.x) - 1, "int32") if c.p.use_sequence_length else ""
    states = c.x[2:4] if op == "LSTM" else c.x[2:3]
    x = c.x[0]
    last: list[list[str]] = [[] for _ in states]
    for layer in range(c.p.num_layers):
        cut = slice(layer * directions, (layer + 1) * directions)
        first, second = (
            np.stack([reordered(pair[i], gates) for pair in weights.weights[cut]]) for i in (0, 1)
        )
        bias = np.stack(
            [np.concatenate([reordered(b, gates) for b in pair]) for pair in weights.biases[cut]]
        )
        initial = states
        if c.p.num_layers > 1:
            initial = [c.g.slice(state, [0], [cut.start], [cut.stop]) for state in states]
        out, *ends = c.op(
            op, x, c.const(first), c.const(second), c.const(bias), length, *initial,
            outputs=1 + len(states), hidden_size=hidden,
            direction="bidirectional" if directions == 2 else "forward", **more,
        )  # fmt: skip
        for part, end in zip(last, ends):
            part.append(end)
        moved = c.op("Transpose", out, perm=[0, 2, 1, 3])  # (time, batch, direction, hidden)
        x = c.op("Reshape", moved, c.g.const([0, 0, directions * hidden]))
    ends = [part[0] if len(part) == 1 else c.op("Concat", *part, axis=0) for part in last]
    return [x, *ends]
