"""Every collective of arrays on GPUs against NumPy, with one GPU for each process."""

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from rank_checks import fails

EVEN, ODD = hvd.ProcessSet(range(0, 4, 2)), hvd.ProcessSet(range(1, 4, 2))
hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()
gpu = mx.gpu(hvd.local_rank())
rng = np.random.default_rng(11)  # the same on all ranks


def arrays_of_all(shape, dtype):
    """Return an array of every rank; small integers, so that sums are exact in every type."""
    return [rng.integers(0, 3, shape).astype(dtype) for _ in range(size)]


def carried():
    return mx._core.comm_stats()["nccl_tensors"]


def equal(array, expected):
    assert array.ctx == gpu, array.ctx
    np.testing.assert_array_equal(array.asnumpy(), expected)


def check_type(dtype):
    host_type = "float32" if dtype == "bfloat16" else dtype
    for shape in [(1,), (3, 5), (70001,)]:
        arrays = arrays_of_all(shape, host_type)
        mine = mx.nd.array(arrays[rank], ctx=gpu, dtype=dtype)
        before = carried()
        ops = ((hvd.Sum, np.sum), (hvd.Max, np.max), (hvd.Min, np.min), (hvd.Product, np.prod))
        for op, reduce in ops:
            equal(hvd.allreduce(mine, op=op).astype(host_type), reduce(arrays, 0))
        equal(hvd.broadcast(mine, size - 1).astype(host_type), arrays[-1])
        equal(hvd.allgather(mine).astype(host_type), np.concatenate(arrays))
        in_place = mine * 1
        assert hvd.allreduce_(in_place, op=hvd.Sum) is in_place
        equal(in_place.astype(host_type), np.sum(arrays, 0))
        assert carried() == before + (0 if "int16" in dtype else 7), (dtype, before, carried())
    rows = arrays_of_all((2 * size + 1, 3), host_type)
    mine = mx.nd.array(rows[rank], ctx=gpu, dtype=dtype)
    even = mx.nd.array(rows[rank][: 2 * size], ctx=gpu, dtype=dtype)
    first = 0 if rank == 0 else 2 * rank + 1
    own = slice(2 * rank, 2 * rank + 2)
    splits = [3] + [2] * (size - 1)
    begins = np.cumsum([0, *splits])
    received, counts = hvd.alltoall(mine, splits)
    assert counts.asnumpy().tolist() == [splits[rank]] * size
    parts = [r[begins[rank] : begins[rank + 1]] for r in rows]
    for found, wanted in (
        (hvd.reducescatter(mine, op=hvd.Sum), np.sum(rows, 0)[first : 2 * rank + 3]),
        (hvd.reducescatter(even, op=hvd.Sum), np.sum(rows, 0)[own]),
        (received, np.concatenate(parts)),
        (hvd.alltoall(even), np.concatenate([r[own] for r in rows])),
    ):
        equal(found.astype(host_type), wanted)


for name in "float32 float64 float16 bfloat16 uint8 int8 int32 int64".split():
    check_type(name)

# Sums of halves that are rounded: within the error of as many additions.
for name, epsilon in [("float16", 2.0**-11), ("bfloat16", 2.0**-8)]:
    values = [rng.uniform(0.5, 1, 1000).astype("float32") for _ in range(size)]
    rounded = [mx.nd.array(v, dtype=name).astype("float32").asnumpy() for v in values]
    mine = mx.nd.array(values[rank], ctx=gpu, dtype=name)
    total = hvd.allreduce(mine, op=hvd.Sum).astype("float32").asnumpy()
    np.testing.assert_allclose(total, np.sum(rounded, 0), rtol=size * epsilon)

# Averages, factors, many small arrays at once (fused), and arrays that are not computed yet.
ones = mx.nd.ones((5,), ctx=gpu)
np.testing.assert_allclose(
    hvd.allreduce(ones, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3).asnumpy(), 1.5 * size
)
equal(
    hvd.allreduce(mx.nd.full((3,), 7, ctx=gpu, dtype="int32") + rank, name="cut"),
    np.full(3, (7 * size + size * (size - 1) // 2) // size),
)
group = [mx.nd.ones((i + 1,), ctx=gpu) * rank * 2 for i in range(20)]
for i, out in enumerate(hvd.grouped_allreduce(group, op=hvd.Sum, name="group")):
    equal(out, np.full(i + 1, size * (size - 1.0)))
x = mx.nd.ones((300, 300), ctx=gpu) * (rank + 1)
for step in range(10):
    x = hvd.allreduce(x * 2, op=hvd.Average, name=f"chain{step}") - x
everywhere = [float(r + 1) for r in range(size)]
for _ in range(10):
    average = 2 * np.mean(everywhere)
    everywhere = [average - value for value in everywhere]
np.testing.assert_allclose(x.asnumpy(), everywhere[rank], rtol=1e-5)

# Views, arrays without elements, arrays of another GPU, and the CPU's beside them.
table = mx.nd.arange(12, ctx=gpu).reshape((3, 4))
hvd.allreduce_(table[1], op=hvd.Sum)
equal(table, np.where(np.arange(3)[:, None] == 1, size, 1) * np.arange(12).reshape(3, 4))
gathered = hvd.allgather(mx.nd.ones((rank, 3), ctx=gpu) * rank)  # rank 0 gives nothing
equal(gathered, np.repeat(np.arange(size), np.arange(size))[:, None] * [1, 1, 1])
other = mx.gpu((hvd.local_rank() + 1) % mx.num_gpus())
there = hvd.allreduce(mx.nd.ones((4,), ctx=other), op=hvd.Sum, name="other")
assert there.ctx == other and there.asnumpy().tolist() == [size] * 4
both = hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum), hvd.allreduce(ones, op=hvd.Sum)
assert both[0].ctx == mx.cpu() and both[0].asnumpy().tolist() == [size] * 2
equal(both[1], np.full(5, size))
before = carried()
equal(hvd.allreduce(mx.nd.ones((4,), ctx=gpu, dtype="int16"), op=hvd.Sum), np.full(4, size))
assert carried() == before, "NCCL has no 16-bit integers"

# Groups.
if size == 4:
    hvd.add_process_set(EVEN)
    hvd.add_process_set(ODD)
    half = EVEN if rank % 2 == 0 else ODD
    total = hvd.allreduce(ones * rank, op=hvd.Sum, process_set=half)
    equal(total, np.full(5, 2.0 if rank % 2 == 0 else 4.0))
    equal(hvd.broadcast(ones * rank, rank % 2 + 2, process_set=half), np.full(5, rank % 2 + 2.0))
    hvd.remove_process_set(EVEN)
    equal(hvd.allreduce(ones, op=hvd.Sum, name="after"), np.full(5, size))

# Ranks that disagree on the place get an error, and the job continues.
mixed = mx.nd.ones((2,), ctx=gpu if rank else mx.cpu())
fails(lambda: hvd.allreduce(mixed, name="mixed"), "Mismatched devices: the CPU and a GPU")
equal(hvd.allreduce(ones, op=hvd.Sum, name="end"), np.full(5, size))
assert hvd.nccl_built() == 22809 and hvd.cuda_built()
print("done", rank)
