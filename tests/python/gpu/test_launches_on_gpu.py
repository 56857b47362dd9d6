"""Numbers of launches; only the emulator of kernels counts them."""

from __future__ import annotations

from collections.abc import Callable

import mxlite as mx
import pytest
from mxlite import nd


@pytest.mark.parametrize("mixed", [False, True])
def test_lamb_takes_two_launches_for_16_weights(launches: Callable[[], int], mixed: bool) -> None:
    weights = 40
    arrays = []
    for i in range(weights):
        for k in range(5 if mixed else 4):  # weight, grad, mean, variance, float32 weight
            dtype = "float16" if mixed and k < 2 else "float32"
            arrays.append(nd.ones((i + 1,), ctx=mx.gpu(0), dtype=dtype))
    ones = [1] * weights
    nd.waitall()
    launches()
    update = nd.contrib.multi_mp_lamb_update if mixed else nd.contrib.multi_lamb_update
    groups = [arrays[k :: 5 if mixed else 4] for k in range(5 if mixed else 4)]
    update(*groups, ones, lrs=[0.1] * weights, wds=[0.1] * weights, out=groups[0])
    nd.waitall()
    assert launches() == 2 * 3  # for 16, 16 and 8 weights
