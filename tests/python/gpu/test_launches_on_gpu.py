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


class Casts(gluon.HybridBlock):
    """Products in float16 with weights in float32, as in mixed precision."""

    def __init__(self, count: int) -> None:
        super().__init__()
        for i in range(count):  # in one block and in several
            shape = (i + 1, 8192 if i % 9 == 0 else 8)
            setattr(self, f"w{i}", self.params.get(f"w{i}", shape=shape, init=mx.init.Normal(1)))

    def forward(self, x: nd.NDArray) -> list[nd.NDArray]:
        weights = [p.data(x.context) for p in self.params.values()]
        return [x * nd.amp_cast(w, dtype="float16") for w in weights]


class Convolutions(gluon.HybridBlock):
    """Convolutions in float16, in whose weights the channels become the last axis."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        for i in range(5):
            shape = (9 + i, 8 + i, 3, 3)
            weight = self.params.get(f"w{i}", shape=shape, dtype=dtype, init=mx.init.Normal(0.1))
            setattr(self, f"w{i}", weight)

    def forward(self, x: nd.NDArray) -> nd.NDArray:
        for i, p in enumerate(self.params.values()):
            w = nd.amp_cast(p.data(x.context), dtype="float16")
            x = nd.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=9 + i, no_bias=True)
        return x


def launches_for_new_weights(
    net: gluon.Block, x: nd.NDArray, launches: Callable[[], int]
) -> tuple[int, nd.NDArray | list[nd.NDArray]]:
    """Return launches that a call needs only because the weights have changed, and its result."""
    net.initialize(ctx=mx.gpu(0))
    net.hybridize()
    net(x)
    for parameter in net.collect_params().values():
        parameter.set_data(parameter.data() + 0.25)
    counts = []
    for _ in range(2):
        nd.waitall()
        launches()
        result = net(x)
        nd.waitall()
        counts.append(launches())
    return counts[0] - counts[1], result


@pytest.mark.parametrize(("weights", "least"), [(40, 1), (130, 2)])
def test_casts_of_many_weights_take_few_launches(
    launches: Callable[[], int], weights: int, least: int
) -> None:
    net = Casts(weights)
    x = nd.full((1,), 3, ctx=mx.gpu(0), dtype="float16")
    count, results = launches_for_new_weights(net, x, launches)
    assert count == least
    for p, result in zip(net.collect_params().values(), results):
        expected = p.data().astype("float16").asnumpy() * np.float16(3)
        np.testing.assert_array_equal(result.asnumpy(), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_weights_of_convolutions_are_rearranged_and_cast_in_one_launch(
    launches: Callable[[], int], dtype: str
) -> None:
    net = Convolutions(dtype)
    x = nd.random.normal(shape=(2, 8, 5, 6), ctx=mx.gpu(0)).astype("float16")
    count, result = launches_for_new_weights(net, x, launches)
    assert count == 1
    net.hybridize(active=False)
    np.testing.assert_allclose(result.asnumpy(), net(x).asnumpy(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("axis", "shape"), [(1, (2, 3, 64, 96)), (3, (2, 16, 16, 12))])
def test_batch_normalization_takes_two_launches(
    launches: Callable[[], int], axis: int, shape: tuple[int, ...]
) -> None:
    """The last of the blocks that sum a channel computes what the second launch needs."""
    gpu = mx.gpu(0)
    x = nd.random.normal(3, 2, shape=shape, ctx=gpu)
    arrays = [make((shape[axis],), ctx=gpu) for make in (nd.ones, nd.zeros, nd.zeros, nd.ones)]
    axes = tuple(i for i in range(4) if i != axis)
    host = x.asnumpy().astype(np.float64)
    expected = host - host.mean(axes, keepdims=True)
    expected /= np.sqrt(host.var(axes, keepdims=True) + 1e-3)
    for _ in range(3):  # the counters of blocks are used again
        nd.waitall()
        launches()
        with autograd.record():
            y = nd.BatchNorm(x, *arrays, axis=axis, fix_gamma=False)
        nd.waitall()
        assert launches() == 2
        np.testing.assert_allclose(y.asnumpy(), expected, atol=1e-4)
