"""``x **= y`` makes a new array, as in MXNet 1.9.1; the other signs write in place."""

from __future__ import annotations

import mxlite as mx
import numpy as np
from mxlite import nd


def test_in_place_power_makes_a_new_array_as_in_1x():
    x = nd.array([1, 2, 3])
    same = x
    x **= 2
    np.testing.assert_array_equal(x.asnumpy(), [1, 4, 9])
    np.testing.assert_array_equal(same.asnumpy(), [1, 2, 3])
    x.attach_grad()
    with mx.autograd.record():
        y = x * 1
        kept = y
        y **= 2
        (y + kept).sum().backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [3, 9, 19])
