"""Gradients of stacked recurrent layers in halves are those of float32, rounded."""

from __future__ import annotations

import numpy as np
import pytest
from mxlite import autograd, nd
from pairing import pairs

GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("mode", list(GATES))
def test_gradients_of_halves_follow_float32(mode: str, layers: int) -> None:
    steps, batch, inputs, hidden = 3, 2, 4, 5
    rows = GATES[mode] * hidden
    first = rows * (inputs + hidden + 2)
    count = 2 * (first + (layers - 1) * rows * (3 * hidden + 2))
    rng = np.random.RandomState(0)
    states = 2 if mode == "lstm" else 1
    values = [rng.randn(steps, batch, inputs), 0.5 * rng.randn(count)]
    values += [rng.randn(2 * layers, batch, hidden) for _ in range(states)]
    head = rng.randn(steps, batch, 2 * hidden)
    grads = {}
    for dtype in ("float32", "float16"):
        arrays = [nd.array(v, dtype=dtype) for v in values]
        for array in arrays:
            array.attach_grad()
        with autograd.record():
            y = nd.RNN(*arrays, mode=mode, state_size=hidden, num_layers=layers, bidirectional=True)
        y.backward(nd.array(head, dtype=dtype))
        grads[dtype] = [array.grad.asnumpy().astype("float64") for array in arrays]
    for half, full in pairs(grads["float16"], grads["float32"]):
        np.testing.assert_allclose(half, full, rtol=0.02, atol=0.02 * np.abs(full).max())
