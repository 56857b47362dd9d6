"""Gradients of fused recurrent layers: in halves, and after writes to their first states."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.filterwarnings("ignore:backward")
@pytest.mark.parametrize(
    ("mode", "weight_grad", "state_grads"),
    [
        ("rnn_tanh", [0.819, 0.9839, 0.6158, 0.6158], [0.1237]),
        (
            "gru",
            [0.027, 0.3423, 0.3256, 0.0397, 0.8484, 0.3446, 0.0228, 0.3899, 0.2708, 0.0228, 0.3899,
             0.2037],
            [1.5161],
        ),
        (
            "lstm",
            [0.1168, 0.2332, 0.1961, 0.4421, 0.1569, 0.3834, 0.2933, 0.3824, 0.0946, 0.2092, 0.1674,
             0.2968, 0.0946, 0.2092, 0.1674, 0.2968],
            [0.1643, 0.3571],
        ),
    ],
)  # fmt: skip
def test_first_states_of_the_fused_rnn(mode: str, weight_grad: Any, state_grads: Any) -> None:
    x, w = nd.array([[[1]], [[2]]]), nd.full((GATES[mode] * 4,), 0.3)
    states = [nd.full((1, 1, 1), 0.5) for _ in state_grads]
    for array in (w, *states):
        array.attach_grad()
    with autograd.record():
        y = nd.RNN(x, w, *states, mode=mode, state_size=1, num_layers=1)
    for state in states:
        state[:] = 2
    y.backward()
    np.testing.assert_allclose(w.grad.asnumpy(), weight_grad, atol=1e-4)
    assert [s.grad.asscalar() for s in states] == pytest.approx(state_grads, abs=1e-4)


@pytest.mark.filterwarnings("ignore:backward")
@pytest.mark.parametrize("lengths", [False, True])
def test_first_states_of_a_bidirectional_rnn(lengths: bool) -> None:
    """The vanilla cell's gradient reads the first states only for the weights of the states."""
    options = {"mode": "rnn_relu", "state_size": 1, "num_layers": 1, "bidirectional": True}
    x, w = nd.ones((3, 2, 1)), nd.full((8,), 0.5)
    inputs = [x, w, nd.full((2, 2, 1), 2)]
    if lengths:
        inputs.append(nd.array([1, 3]))
        options["use_sequence_length"] = True
    w.attach_grad()
    gradients = []
    for value in (2, 4):
        inputs[2][:] = 2
        with autograd.record():
            y = nd.RNN(*inputs, **options)
        inputs[2][:] = value
        y.backward()
        gradients.append(w.grad.asnumpy())
    # d y / d state weight is the state before the step, times 0.5 ** (steps that follow it): the
    # gradient of the sum is 1.75 for three steps and 1 for one step.
    both = 1.75 + (1 if lengths else 1.75)
    np.testing.assert_allclose((gradients[1] - gradients[0])[[1, 3]], [2 * both] * 2, rtol=1e-5)
