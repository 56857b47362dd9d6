"""Several GPUs in one process, and operators that a device lacks."""

from __future__ import annotations

import os

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from processes import run_python

needs_two = pytest.mark.skipif(mx.num_gpus() < 2, reason="needs two GPUs")
STAND_IN = "fake_gpu" in os.environ.get("MXLITE_CUDA_LIBRARY", "")


@needs_two
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
def test_sums_arrive_on_all_devices(dtype: str) -> None:
    values = [np.arange(1000).reshape(10, 100) % 7 + i for i in range(2)]
    arrays = [nd.array(v, ctx=mx.gpu(i), dtype=dtype) for i, v in enumerate(values)]
    doubled = [a * 2 for a in arrays]  # not computed yet when the sum is requested
    mx._core.sum_on_devices(doubled)
    for i, array in enumerate(doubled):
        assert array.ctx == mx.gpu(i)
        np.testing.assert_array_equal((array + 1).asnumpy(), 2 * (values[0] + values[1]) + 1)


@needs_two
def test_repeated_sums_use_the_same_group() -> None:
    arrays = [nd.ones((4,), ctx=mx.gpu(i)) for i in range(2)]
    for _ in range(3):
        mx._core.sum_on_devices(arrays)
    for array in arrays:
        np.testing.assert_array_equal(array.asnumpy(), np.full(4, 8.0))


@needs_two
@pytest.mark.parametrize("name", ["device", "local_allreduce_device"])
def test_stores_sum_on_the_devices(name: str) -> None:
    store = mx.kv.create(name)
    store.init("w", nd.zeros((3,)))
    for step in range(3):
        grads = [nd.full((3,), i + 1 + step, ctx=mx.gpu(i)) for i in range(2)]
        store.pushpull("w", grads, out=grads)
        for i, grad in enumerate(grads):
            assert grad.ctx == mx.gpu(i)
            np.testing.assert_array_equal(grad.asnumpy(), np.full(3, 3.0 + 2 * step))
        elsewhere = nd.zeros((3,), ctx=mx.cpu())
        store.pull("w", out=elsewhere)
        np.testing.assert_array_equal(elsewhere.asnumpy(), np.full(3, 3.0 + 2 * step))


@needs_two
def test_stores_with_an_optimizer_give_all_devices_the_new_weight() -> None:
    store = mx.kv.create("device")
    store.init(3, nd.ones((4,)))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    for step in range(1, 3):
        store.push(3, [nd.ones((4,), ctx=mx.gpu(i)) for i in range(2)])
        weights = [nd.zeros((4,), ctx=mx.gpu(i)) for i in range(2)]
        store.pull(3, out=weights)
        for weight in weights:
            np.testing.assert_allclose(weight.asnumpy(), np.full(4, 1.0 - step))


@needs_two
def test_sums_want_one_like_array_for_each_device() -> None:
    one = nd.ones((4,), ctx=mx.gpu(0))
    with pytest.raises(mx.base.ShapeError, match=r"\(4,\).*\(5,\)"):
        mx._core.sum_on_devices([one, nd.ones((5,), ctx=mx.gpu(1))])
    with pytest.raises(ValueError, match=r"got two arrays on gpu\(0\)"):
        mx._core.sum_on_devices([one, nd.ones((4,), ctx=mx.gpu(0))])
    with pytest.raises(ValueError, match=r"got an array on cpu\(0\)"):
        mx._core.sum_on_devices([one, nd.ones((4,), ctx=mx.cpu())])


@pytest.mark.skipif(not STAND_IN, reason="the simulated GPU can leave a kernel out")
def test_operators_without_a_kernel_say_so() -> None:
    script = """
import mxlite as mx
x = mx.nd.ones((2,), ctx=mx.gpu(0))
try:
    mx.nd.relu(x)
except NotImplementedError as error:
    assert isinstance(error, mx.base.NotSupportedError)
    print(error)
assert (x + 1).sum().asscalar() == 4  # the device continues
"""
    text = run_python("-c", script, environment={"MXLITE_FAKE_GPU_WITHOUT": "relu"}).stdout
    assert "relu: no CUDA kernel was written for relu" in text
    assert "as_in_context(mx.cpu())" in text
