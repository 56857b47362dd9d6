"""BatchNorm, addition and relu with a bit per element for backward, against the form without."""

from __future__ import annotations

import os

import mxlite as mx
import numpy as np
import pytest
from mxlite import autograd, gluon, nd
from mxlite.gluon import nn

pytestmark = pytest.mark.skipif(
    "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", ""),
    reason="the simulated GPU has the CPU's kernels, which add in another order",
)
# Packs of 8, of 4 and no packs; bytes that two planes share; a last byte that is not full.
SHAPES = [((2, 3, 4, 8), 1), ((2, 3, 4, 3), 1), ((3, 5, 7), 1), ((4, 6, 16), -1), ((5, 3, 12), -1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_values_and_gradients_are_bit_equal(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    channels = shape[axis]
    x, added, head = (rng.normal(size=shape) for _ in range(3))
    factors = [rng.normal(size=channels), rng.normal(size=channels)]
    results = []
    for op in (nd._internal._batch_norm_add_relu, nd._internal._batch_norm_add_relu_bits):
        arrays = [nd.array(a, ctx=mx.gpu(0), dtype="float32").astype(dtype) for a in (x, added)]
        stats = "float64" if dtype == "float64" else "float32"
        gamma, beta = (nd.array(a, ctx=mx.gpu(0), dtype=stats) for a in factors)
        mean, var = nd.zeros(channels, mx.gpu(0), stats), nd.ones(channels, mx.gpu(0), stats)
        variables = [arrays[0], arrays[1], gamma, beta]
        for v in variables:
            v.attach_grad()
        with autograd.record():
            y = op(arrays[0], gamma, beta, mean, var, arrays[1], axis=axis, fix_gamma=False)
        y.backward(nd.array(head, ctx=mx.gpu(0), dtype="float32").astype(dtype))
        results.append([a.astype("float64").asnumpy() for a in (y, *(v.grad for v in variables))])
    for expected, found in zip(*results):
        np.testing.assert_array_equal(found, expected)
    y, data_grad, added_grad = results[1][:3]
    assert (y > 0).any() and (y == 0).any() and (data_grad != 0).any()
    np.testing.assert_array_equal(added_grad != 0, y > 0)


class Residual(gluon.HybridBlock):
    """Two residual blocks; both the second BatchNorm and its addition read the first output."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.norms = nn.HybridSequential()
        self.norms.add(nn.BatchNorm(axis=axis), nn.BatchNorm(axis=axis))

    def forward(self, x: nd.NDArray) -> nd.NDArray:
        for norm in self.norms:
            x = nd.relu(norm(x) + x)
        return x


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-4)])
def test_gradients_of_residual_blocks_are_added(
    shape: tuple[int, ...], axis: int, dtype: str, tolerance: float
) -> None:
    rng = np.random.default_rng(1)
    x, head = rng.normal(size=shape), rng.normal(size=shape)
    results = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        net = Residual(axis)
        net.initialize(ctx=ctx)
        net.cast(dtype)
        if ctx == mx.gpu(0):
            net.hybridize()
        data = nd.array(x, ctx=ctx, dtype=dtype)
        data.attach_grad()
        for _ in range(2):
            with autograd.record():
                y = net(data)
            y.backward(nd.array(head, ctx=ctx, dtype=dtype))
        grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
        results.append([a.asnumpy() for a in (y, data.grad, *grads)])
    assert len(results[0]) == 6
    for expected, found in zip(*results):
        np.testing.assert_allclose(found, expected, tolerance, tolerance)
