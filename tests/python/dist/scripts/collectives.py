"""Every collective against NumPy, on any number of ranks."""

import itertools

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from rank_checks import fails

hvd.init()
rank, size = hvd.rank(), hvd.size()
rng = np.random.default_rng(5)  # the same on all ranks


def inputs(shape, dtype):
    """Arrays of all ranks; small integers, so that sums are exact in every type."""
    return [rng.integers(0, 4, shape).astype(dtype) for _ in range(size)]


TYPES = ["float32", "float64", "float16", "uint8", "int8", "int32", "int64"]
for dtype, shape in itertools.product(TYPES, [(1,), (17,), (5, 7), (3, 1, 40), (100, 1001)]):
    arrays = inputs(shape, dtype)
    mine = mx.nd.array(arrays[rank], dtype=dtype)
    total = np.sum(arrays, axis=0).astype(dtype)
    for op, expected in [
        (hvd.Sum, total),
        (hvd.Min, np.min(arrays, axis=0)),
        (hvd.Max, np.max(arrays, axis=0)),
        (hvd.Product, np.prod(arrays, axis=0).astype(dtype)),
    ]:
        np.testing.assert_array_equal(hvd.allreduce(mine, op=op).asnumpy(), expected)
    average = hvd.allreduce(mine, name="average").asnumpy()
    expected = total / size
    if np.dtype(dtype).kind != "f":
        expected = np.trunc(expected)
    np.testing.assert_allclose(average, expected.astype(dtype), rtol=1e-3)
    np.testing.assert_array_equal(mine.asnumpy(), arrays[rank])  # inputs stay unchanged
    np.testing.assert_array_equal(
        hvd.broadcast(mine, size - 1).asnumpy(), arrays[size - 1], strict=True
    )
    inplace = mine.copy()
    assert hvd.allreduce_(inplace, op=hvd.Sum) is inplace
    np.testing.assert_array_equal(inplace.asnumpy(), total)

scaled = hvd.allreduce(mx.nd.ones((3,)), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
np.testing.assert_allclose(scaled.asnumpy(), 1.5 * size)
view = mx.nd.arange(12).reshape((3, 4))
hvd.allreduce_(view[1], op=hvd.Sum)  # a part of a storage
np.testing.assert_array_equal(view.asnumpy()[1], np.arange(4, 8) * size)
np.testing.assert_array_equal(view.asnumpy()[[0, 2]], np.arange(12).reshape(3, 4)[[0, 2]])

group = [mx.nd.ones((i + 1,)) * rank for i in range(5)]
for i, out in enumerate(hvd.grouped_allreduce(group, op=hvd.Sum, name="group")):
    np.testing.assert_array_equal(out.asnumpy(), np.full(i + 1, size * (size - 1) / 2))
assert hvd.grouped_allreduce([]) == []

gathered = hvd.allgather(mx.nd.ones((rank, 3)) * rank).asnumpy()  # rank 0 has no rows
np.testing.assert_array_equal(
    gathered, np.repeat(np.arange(size), np.arange(size))[:, None] * [1, 1, 1]
)
pair = hvd.grouped_allgather([mx.nd.ones((1, 2)) * rank, mx.nd.ones((2,)) * rank])
np.testing.assert_array_equal(pair[1].asnumpy(), np.repeat(np.arange(size), 2))

rows = mx.nd.array(np.arange(size * (size + 1) // 2) + 100 * rank)
received, splits = hvd.alltoall(rows, list(range(1, size + 1)))
begin = rank * (rank + 1) // 2
expected = [100 * r + begin + i for r in range(size) for i in range(rank + 1)]
np.testing.assert_array_equal(received.asnumpy(), expected)
assert splits.dtype == np.int32 and splits.asnumpy().tolist() == [rank + 1] * size
even = hvd.alltoall(mx.nd.ones((2 * size, 2)) * rank)
np.testing.assert_array_equal(even.asnumpy()[:, 0], np.repeat(np.arange(size), 2))

table = np.arange((2 * size + 1) * 3).reshape(-1, 3).astype("float32")
scattered = hvd.reducescatter(mx.nd.array(table), op=hvd.Sum).asnumpy()
first = 0 if rank == 0 else 2 * rank + 1
np.testing.assert_array_equal(scattered, size * table[first : 2 * rank + 3])

thing = {"step": 7, "weights": np.arange(3), "names": ("a", {1, 2}), "array": mx.nd.ones((2,))}
got = hvd.broadcast_object(thing if rank == 0 else None)
assert got["step"] == 7 and got["names"] == ("a", {1, 2}) and got["array"].shape == (2,)
assert hvd.allgather_object({"rank": rank}) == [{"rank": r} for r in range(size)]


class Own:
    """An object that could only be rebuilt by code of the user."""


fails(lambda: hvd.allgather_object(Own()), "Own")
print("done", rank)
