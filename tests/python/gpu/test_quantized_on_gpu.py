"""Networks of quantized layers on a GPU: int8 stays in channels-last memory between them."""

from __future__ import annotations

import os
from typing import Any

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from mxlite.gluon import HybridBlock
from processes import run_python


class Convolutions(HybridBlock):
    """Two convolutions of int8 data with what quantized networks have around them."""

    def __init__(self, filters: int, channels: int, second: int) -> None:
        super().__init__()
        rng = np.random.RandomState(0)
        numbers = lambda *shape: rng.randint(-127, 128, shape).astype("int8")  # noqa: E731
        with self.name_scope():
            for name, value in (
                ("weight", numbers(filters, channels, 3, 3)),
                ("bias", numbers(filters)),
                ("last", numbers(second, filters, 1, 1)),
                ("low", np.float32([-1])),
                ("high", np.float32([1])),
            ):
                constant = self.params.get_constant(name, nd.array(value, dtype=value.dtype))
                setattr(self, name, constant)
        self.filters, self.second = filters, second

    def hybrid_forward(self, F: Any, x: Any, **p: Any) -> Any:
        q = F.contrib
        ends = [p["low"], p["high"]]
        x, low, high = q.quantize_v2(x, min_calib_range=-1, max_calib_range=1)
        sums = q.quantized_conv(
            x, p["weight"], p["bias"], low, high, *ends, *ends,
            kernel=(3, 3), pad=(1, 1), num_filter=self.filters,
        )  # fmt: skip
        y, low, high = q.requantize(*sums, min_calib_range=-30, max_calib_range=30)
        y, low, high = q.quantized_act(y, low, high, act_type="relu")
        y, low, high = q.quantized_elemwise_add(
            y, y, low, high, low, high, min_calib_range=-40, max_calib_range=40
        )
        y, low, high = q.quantized_pooling(y, low, high, kernel=(2, 2), stride=(2, 2))
        again = q.quantized_conv(
            y, p["last"], low, high, *ends, kernel=(1, 1), num_filter=self.second, no_bias=True
        )
        z, low, high = q.requantize(*again, min_calib_range=-200, max_calib_range=200)
        return sums[0], q.dequantize(z, low, high)


# Whole vectors of channels, padded ones, and filters that are no multiple of 4.
@pytest.mark.parametrize("filters, channels, second", [(32, 16, 8), (20, 3, 8), (10, 5, 7)])
@pytest.mark.parametrize("hybrid", [False, True])
def test_a_network_gives_what_the_cpu_gives(
    filters: int, channels: int, second: int, hybrid: bool
) -> None:
    net = Convolutions(filters, channels, second)
    net.initialize()
    x = nd.array(np.random.RandomState(1).uniform(-1, 1, (2, channels, 8, 6)))
    sums, want = (a.asnumpy() for a in net(x))
    assert sums.dtype == np.int32
    assert np.abs(want).max() > 10
    net.collect_params().reset_ctx(mx.gpu(0))
    net.hybridize(hybrid)
    for _ in range(3):  # a recorded graph, too
        got_sums, got = (a.asnumpy() for a in net(x.as_in_context(mx.gpu(0))))
        # A number may round the other way before the products.
        np.testing.assert_allclose(got_sums, sums, rtol=0, atol=2 * 127)
        np.testing.assert_allclose(got, want, rtol=0, atol=4 * 200 / 127)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shape", [(2, 16, 9, 7), (2, 3, 9, 7), (3, 5, 17), (1, 3, 4, 5, 6)])
def test_sums_of_hybridized_convolutions_are_exact(shape: tuple[int, ...], dtype: str) -> None:
    ones = (1,) * (len(shape) - 2)
    kernel = tuple(3 * n for n in ones)

    class Convolution(HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, w: Any, b: Any, low: Any, high: Any) -> Any:
            return F.contrib.quantized_conv(
                x, w, b, low, high, low, high, low, high,
                kernel=kernel, pad=ones, stride=(*ones[1:], 2), num_filter=8,
            )  # fmt: skip

    rng = np.random.RandomState(2)
    low = 0 if dtype == "uint8" else -128
    weights = [rng.randint(-128, 128, s).astype("int8") for s in ((8, shape[1], *kernel), 8)]
    arrays = [rng.randint(low, low + 256, shape).astype(dtype), *weights]
    arrays += [np.float32([-1]), np.float32([1])]

    def on(ctx: mx.Context) -> list[nd.NDArray]:
        return [nd.array(a, ctx=ctx, dtype=a.dtype) for a in arrays]

    net = Convolution()
    want = [a.asnumpy() for a in net(*on(mx.cpu()))]
    net.hybridize()
    for _ in range(3):
        got = [a.asnumpy() for a in net(*on(mx.gpu(0)))]
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_allclose(got[1:], want[1:], rtol=1e-6)


LIBRARY_CALLS = """
import mxlite as mx
from mxlite import nd

def ones(*shape, dtype="int8"):
    return nd.ones(shape, ctx=mx.gpu(0), dtype=dtype)

low, high = -ones(1, dtype="float32"), ones(1, dtype="float32")
ends = [low, high, low, high]
sums = nd.contrib.quantized_fully_connected(
    ones(64, 64), ones(64, 64), *ends, num_hidden=64, no_bias=True)[0].asnumpy()
assert (sums == 64).all(), sums
sums = nd.contrib.quantized_conv(
    ones(2, 64, 8, 8), ones(64, 64, 3, 3), *ends, kernel=(3, 3), num_filter=64, no_bias=True,
)[0].asnumpy()
assert (sums == 9 * 64).all(), sums
"""


@pytest.mark.skipif(
    "_gpu.so" in os.environ.get("MXLITE_CUDA_LIBRARY", ""), reason="needs cuBLASLt and cuDNN"
)
def test_tensor_cores_take_usual_sizes() -> None:
    error = run_python("-c", LIBRARY_CALLS, environment={"MXLITE_VERBOSE": "dispatch"}).stderr
    for reason in ("no algorithm", "cuDNN has no plan"):
        assert reason not in error
