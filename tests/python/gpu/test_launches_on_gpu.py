"""Numbers of launches; only the emulator of kernels counts them."""

from __future__ import annotations

from collections.abc import Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd


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


class DropoutAndSum(gluon.HybridBlock):
    """A residual that is added after Dropout."""

    def forward(self, x: nd.NDArray, y: nd.NDArray) -> nd.NDArray:
        return nd.Dropout(x, p=0.4) + y


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n", [5, 64, 1003])  # the last pack is full or not
def test_dropout_and_addition_take_one_launch(
    launches: Callable[[], int], n: int, dtype: str
) -> None:
    x, y = (nd.array(a).astype(dtype) for a in np.random.RandomState(n).normal(size=(2, n)))
    results = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        net = DropoutAndSum()
        net.hybridize()
        mx.random.seed(5)
        data, added = x.as_in_context(ctx), y.as_in_context(ctx)
        data.attach_grad()
        nd.waitall()
        launches()
        with autograd.record():
            result = net(data, added)
        nd.waitall()
        assert launches() == (ctx == mx.gpu(0))
        result.backward()
        results.append([a.astype("float64").asnumpy() for a in (result, data.grad)])
    np.testing.assert_array_equal(results[1], results[0])
