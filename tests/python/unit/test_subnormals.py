"""Kernels of heavy arithmetic take subnormal numbers as 0, every other operator keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import mxlite as mx
import numpy as np
import pytest
from mxlite import gluon, nd

TINY = 1e-40  # subnormal in float32 and bfloat16
N = 200_003  # elements that every thread shares


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = mx._core.cpu_threads()
    mx._core.set_cpu_threads(request.param)
    yield
    mx._core.set_cpu_threads(before)


def tiny(*shape: int) -> nd.NDArray:
    return nd.array(np.full(shape, TINY, np.float32))


def count_zeros(x: nd.NDArray) -> int:
    """Count zeros by their bits: NumPy's own comparison may depend on flags of the processor."""
    return int((x.astype("float32").asnumpy().view(np.uint32) & 0x7FFFFFFF == 0).sum())


def convolution(kernel: int, groups: int = 1, op: Any = nd.Convolution) -> Callable[[], Any]:
    weight = nd.ones((32, 32 // groups, kernel, kernel))
    options = {"num_filter": 32, "num_group": groups, "no_bias": True}
    return lambda: op(tiny(4, 32, 30, 30), weight, kernel=(kernel, kernel), **options)


def hybrid(block: gluon.HybridBlock, *shape: int) -> Callable[[], Any]:
    def run() -> Any:
        block.initialize(mx.init.One(), force_reinit=True)
        block.hybridize()
        return block(tiny(*shape))

    return run


def lstm() -> Any:
    layer = gluon.rnn.RNN(64, activation="relu")
    layer.initialize(mx.init.Constant(1e-3))
    return layer(tiny(5, 32, 64))


def attention() -> Any:
    query = nd.ones((2, 4, 64, 32))
    return nd.contrib.dot_product_attention(query, query, tiny(2, 4, 64, 32))


def sgd() -> Any:
    weight = tiny(N)
    nd.sgd_update(weight, tiny(N), lr=0.5, out=weight)
    return weight


def adam_means() -> Any:
    mean = tiny(N)
    nd.adam_update(nd.ones((N,)), nd.zeros((N,)), mean, nd.ones((N,)), lr=0.1)
    return mean


def data_gradient() -> Any:
    data, weight = nd.ones((4, 32, 30, 30)), nd.ones((32, 32, 3, 3))
    data.attach_grad()
    with mx.autograd.record():
        out = nd.Convolution(data, weight, kernel=(3, 3), num_filter=32, no_bias=True)
    out.backward(tiny(*out.shape))
    return data.grad


FLUSHING = {
    "dot": lambda: nd.dot(tiny(256, 256), nd.ones((256, 256))),
    "dot of few elements": lambda: nd.dot(tiny(4, 4), nd.ones((4, 4))),
    "dot with a vector": lambda: nd.dot(tiny(2048, 512), nd.ones((512,))),
    "batch_dot": lambda: nd.batch_dot(tiny(8, 64, 64), nd.ones((8, 64, 64))),
    "linalg.gemm2": lambda: nd.linalg.gemm2(tiny(256, 256), nd.ones((256, 256))),
    "FullyConnected": lambda: nd.FullyConnected(
        tiny(256, 128), nd.ones((64, 128)), num_hidden=64, no_bias=True
    ),
    "Convolution 1 x 1": convolution(1),
    "Convolution 3 x 3": convolution(3),
    "depthwise Convolution": convolution(3, groups=32),
    "Deconvolution": convolution(3, op=nd.Deconvolution),
    "gradient of a Convolution": data_gradient,
    "BatchNorm": lambda: nd.BatchNorm(
        tiny(8, 32, 30, 30), *(f((32,)) for f in (nd.ones, nd.zeros, nd.zeros, nd.ones))
    ),
    "L2Normalization": lambda: nd.L2Normalization(tiny(512, 512), eps=1.0),
    "RNN": lstm,
    "attention": attention,
    "sgd_update": sgd,
    "adam_update": adam_means,
    "hybridized Dense": hybrid(gluon.nn.Dense(64, use_bias=False), 256, 128),
    "hybridized Conv2D": hybrid(gluon.nn.Conv2D(32, 3, padding=1, use_bias=False), 4, 32, 30, 30),
    "hybridized first layer": hybrid(gluon.nn.Conv2D(16, 3, use_bias=False), 4, 3, 64, 64),
}

KEEPING = {
    "product with a number": lambda: tiny(N) * 1,
    "sum": lambda: tiny(N) + tiny(N),
    "relu": lambda: nd.relu(tiny(N)),
    "exp": lambda: nd.exp(nd.full((N,), -95.0)),
    "Activation": lambda: nd.Activation(tiny(N), act_type="softsign"),
    "maximum": lambda: nd.maximum(tiny(N), nd.full((N,), -1.0)),
    "comparison": lambda: tiny(N) > 0,
    "cast": lambda: nd.full((N,), TINY, dtype="float64").astype("float32"),
    "sum of rows": lambda: tiny(1000, 1000).sum(axis=1),
    "argmax": lambda: nd.concat(nd.zeros((900, 900)), tiny(900, 1), dim=1).argmax(axis=1),
    "hybridized chain": hybrid(
        gluon.nn.HybridLambda(lambda F, x: F.sqrt(F.square(F.sqrt(F.relu(x * 2))) * 0.5)), N
    ),
}


@pytest.mark.parametrize("name", FLUSHING)
def test_heavy_kernels_flush_in_every_thread(name: str, threads: None) -> None:
    for _ in range(2):
        out = FLUSHING[name]()
        assert count_zeros(out) == out.size
        check_caller()
        after = tiny(N) * 1  # runs in the same threads
        assert count_zeros(after) == 0


@pytest.mark.parametrize("name", KEEPING)
def test_other_operators_keep_subnormal_numbers_in_every_thread(name: str, threads: None) -> None:
    nd.dot(tiny(256, 256), nd.ones((256, 256))).wait_to_read()  # must restore the flags
    out = KEEPING[name]()
    assert count_zeros(out) == 0
    check_caller()


def check_caller() -> None:
    """Operators on small arrays run in this thread, which has to keep its flags."""
    assert np.float32(TINY) * np.float32(0.5) != 0
    assert (nd.array([TINY]) * 1).asscalar() == np.float32(TINY)


def test_flags_are_those_of_every_kernel_of_a_graph(threads: None) -> None:
    class Net(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dense = gluon.nn.Dense(512, use_bias=False, flatten=False)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            halves = F.exp(x) * 0.5  # chain of element-wise operators
            return self.dense(halves), halves, self.dense(F.ones_like(x) * 1e-3) * 1e-38

    net = Net()
    net.initialize(mx.init.Constant(1e-3))
    net.hybridize()
    for _ in range(3):
        product, halves, scaled = net(nd.full((400, 512), -94.0))
        assert count_zeros(product) == product.size
        assert count_zeros(halves) == 0
        assert count_zeros(scaled) == 0


def test_nan_and_infinity_pass_through_kernels_that_flush() -> None:
    x = np.full((64, 64), TINY, np.float32)
    x[0, 0], x[1, 1] = np.nan, np.inf
    out = nd.dot(nd.array(x), nd.ones((64, 64))).asnumpy()
    assert np.isnan(out[0]).all()
    assert np.isinf(out[1]).all()
    assert (out[2:] == 0).all()


def test_subnormal_float16_is_normal_in_products() -> None:
    x = nd.full((64, 64), 6e-8, dtype="float16")
    out = nd.dot(x, nd.ones((64, 64), dtype="float16")).asnumpy()
    np.testing.assert_array_equal(out, np.float16(64) * np.float16(6e-8))
