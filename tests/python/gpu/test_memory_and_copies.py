"""Devices, memory, copies between host and devices, errors."""

from __future__ import annotations

import gc

import mxlite as mx
import numpy as np
import pytest
from mxlite import nd
from processes import run_python

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"]


def values(dtype: str, *shape: int) -> nd.NDArray:
    return nd.array(np.arange(int(np.prod(shape))).reshape(shape) % 7, dtype=dtype, ctx=mx.cpu())


def test_devices_are_counted_and_described() -> None:
    assert mx.num_gpus() >= 1
    assert mx.context.num_gpus() == mx.num_gpus()
    free, total = mx.context.gpu_memory_info(0)
    assert 0 < free <= total
    assert mx._core.gpu_properties(0)["name"]
    with pytest.raises(mx.base.DeviceError, match=r"gpu\(99\).*this machine has"):
        nd.zeros((2,), ctx=mx.gpu(99))


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_survive_the_way_there_and_back(dtype: str) -> None:
    host = values(dtype, 3, 5)
    there = host.as_in_context(mx.gpu(0))
    assert there.ctx == mx.gpu(0)
    assert there.dtype == host.dtype
    np.testing.assert_array_equal(there.asnumpy(), host.asnumpy())
    np.testing.assert_array_equal(there.as_in_context(mx.cpu()).asnumpy(), host.asnumpy())


def test_numpy_arrays_may_change_after_they_were_given() -> None:
    source = np.arange(100000, dtype="float32")
    array = nd.array(source, ctx=mx.gpu(0))
    source[:] = -1
    assert array.asnumpy()[-1] == 99999


@pytest.mark.parametrize("target", ["float16", "int32", "float64"])
def test_copyto_converts_on_the_way(target: str) -> None:
    host = values("float32", 4, 3)
    there = nd.zeros((4, 3), dtype=target, ctx=mx.gpu(0))
    host.copyto(there)
    np.testing.assert_array_equal(there.asnumpy().astype("float32"), host.asnumpy())
    back = nd.zeros((4, 3), dtype="float32", ctx=mx.cpu())
    there.copyto(back)
    np.testing.assert_array_equal(back.asnumpy(), host.asnumpy())


def test_memory_that_nothing_uses_is_freed_after_it_was_allocated() -> None:
    # The last block is freed first, while the copy stream of the simulated GPU still fills the
    # first one. The blocks are so large that free unmaps them.
    program = """
import mxlite as mx
like = mx.nd.zeros((9_000_000,), ctx=mx.gpu(0))
like.wait_to_read()
blocks = [mx._core.comm_empty(like) for _ in range(6)]
while blocks:
    blocks.pop()
print((like.as_in_context(mx.cpu()) + 1).sum().asscalar())
"""
    assert float(run_python("-c", program, timeout=60).stdout) == 9_000_000


def test_views_are_copied_as_what_they_show() -> None:
    host = values("float32", 6, 5)
    there = host.as_in_context(mx.gpu(0))
    np.testing.assert_array_equal(there[2:4].asnumpy(), host.asnumpy()[2:4])
    strided = there._strided_view((3, 5), (10, 1), 5)
    np.testing.assert_array_equal(strided.asnumpy(), host.asnumpy()[1::2])
    np.testing.assert_array_equal(strided.as_in_context(mx.cpu()).asnumpy(), host.asnumpy()[1::2])
    there[1:3] = 9
    expected = host.asnumpy()
    expected[1:3] = 9
    np.testing.assert_array_equal(there.asnumpy(), expected)
    there[:] = np.ones((6, 5))
    assert there.asnumpy().sum() == 30


def test_arrays_of_two_devices_are_copied_and_not_mixed() -> None:
    if mx.num_gpus() < 2:
        pytest.skip("one GPU")
    a = values("float32", 4, 4).as_in_context(mx.gpu(0))
    b = a.as_in_context(mx.gpu(1))
    np.testing.assert_array_equal(b.asnumpy(), a.asnumpy())
    with pytest.raises(mx.base.DeviceError, match="as_in_context"):
        a + b


def test_mixing_host_and_device_names_both() -> None:
    with pytest.raises(mx.base.DeviceError, match=r"gpu\(0\).*cpu\(0\)"):
        nd.ones((2,), ctx=mx.gpu(0)) + nd.ones((2,), ctx=mx.cpu())


def test_memory_in_use_follows_the_arrays() -> None:
    array = nd.zeros((1 << 20,), ctx=mx.gpu(0))
    array.wait_to_read()
    # Memory of earlier arrays may be freed at any time; that makes no difference for what follows.
    with_array = mx.runtime.memory_stats(mx.gpu(0))["in_use"]
    assert with_array >= 4 << 20
    del array
    gc.collect()
    nd.waitall()
    mx.gpu(0).empty_cache()
    nd.zeros((1,), ctx=mx.gpu(0)).asnumpy()
    assert mx.runtime.memory_stats(mx.gpu(0))["in_use"] <= with_array - (4 << 20) + 512


def test_a_long_queue_reads_what_was_written_in_order() -> None:
    total = nd.zeros((1000,), ctx=mx.gpu(0))
    for i in range(300):
        total += nd.array(np.full(1000, i, "float32"), ctx=mx.gpu(0))
        if i % 50 == 0:
            total = total.as_in_context(mx.cpu()).as_in_context(mx.gpu(0))
    assert total.asnumpy()[7] == sum(range(300))


def test_errors_of_operators_stay_with_their_results() -> None:
    bad = mx._core.op("_raise_async")
    array = bad(nd.ones((2,), ctx=mx.gpu(0)))
    after = array + 1
    with pytest.raises(mx.base.MXNetError):
        after.asnumpy()
    assert nd.ones((2,), ctx=mx.gpu(0)).asnumpy().sum() == 2


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_files_hold_arrays_of_any_device(dtype: str, tmp_path) -> None:
    host = values(dtype, 3, 4)
    nd.save(str(tmp_path / "a.params"), {"a": host.as_in_context(mx.gpu(0))})
    loaded = nd.load(str(tmp_path / "a.params"))["a"]
    np.testing.assert_array_equal(loaded.asnumpy(), host.asnumpy())


def test_dlpack_shares_device_memory() -> None:
    array = values("float32", 3, 4).as_in_context(mx.gpu(0))
    assert array.__dlpack_device__() == (2, 0)
    again = mx._core.from_dlpack(array.__dlpack__())
    again[:] = 5
    assert array.asnumpy().sum() == 60


def test_random_numbers_equal_those_of_the_cpu() -> None:
    for draw in (
        lambda ctx: nd.random.uniform(shape=(1000,), ctx=ctx),
        lambda ctx: nd.random.normal(shape=(1001,), ctx=ctx),
        lambda ctx: nd.random.randint(0, 100, shape=(10,), ctx=ctx),
    ):
        mx.random.seed(7)
        on_cpu = draw(mx.cpu(0)).asnumpy()
        mx.random.seed(7)
        np.testing.assert_allclose(draw(mx.gpu(0)).asnumpy(), on_cpu, rtol=1e-5, atol=1e-6)


def test_out_of_memory_says_what_was_asked_and_used() -> None:
    _, total = mx.context.gpu_memory_info(0)
    with pytest.raises(MemoryError, match=r"bytes requested, .* in use, .* cached, limit"):
        nd.zeros((4 * total,), dtype="uint8", ctx=mx.gpu(0)).wait_to_read()
    assert nd.ones((2,), ctx=mx.gpu(0)).asnumpy().sum() == 2
