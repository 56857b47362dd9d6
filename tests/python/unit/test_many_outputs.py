"""Calls that write into many given outputs, some of which are inputs."""

from __future__ import annotations

import mxlite as mx
import pytest
from mxlite import nd
from pairing import pairs


@pytest.mark.parametrize("position", [1, 3, 8 * 70 + 1])
def test_a_result_that_is_another_input_is_copied_there(position: int) -> None:
    """The memory of each output is compared with that of all inputs, also of large calls."""
    weights = [nd.full(4, i) for i in range(300)]
    grads = [nd.full(4, i + 1) for i in range(300)]
    data = [array for pair in pairs(weights, grads) for array in pair]
    want = [i - (i + 1) for i in range(300)]
    out = list(weights)
    out[0] = data[position]  # a gradient that a weight after it needs
    mx.nd.multi_sgd_update(*data, out=out, lrs=[1.0] * 300, wds=[0.0] * 300, num_weights=300)
    for got, value in pairs(out, want):
        assert (got.asnumpy() == value).all()
