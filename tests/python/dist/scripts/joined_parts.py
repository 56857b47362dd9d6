"""Hybridized blocks with collectives that run as one task: values, lateness, errors."""

import time

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite.gluon import HybridBlock
from rank_checks import fails

hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()
total = size * (size + 1) // 2


class Block(HybridBlock):
    def __init__(self, forward):
        super().__init__()
        self.forward_ = forward

    def hybrid_forward(self, F, *inputs):
        return self.forward_(F, *inputs)


def hybridized(forward):
    block = Block(forward)
    block.hybridize(static_alloc=True, static_shape=True)
    return block


def full(*shape):
    """Return an array that is already computed, because only then are parts joined."""
    array = mx.nd.full(shape, rank + 1.0)
    array.wait_to_read()
    return array


def tasks_of(call):
    """Return how many tasks the engine gets in a call, after a first call that compiles."""
    mx.nd.waitall()
    call().wait_to_read()
    mx.nd.waitall()
    before = mx._core.engine_stats()["pushed"]
    call().wait_to_read()
    mx.nd.waitall()
    return mx._core.engine_stats()["pushed"] - before


def chain(F, x):
    for _ in range(20):
        x = F.contrib.all_reduce(x * (1 / size))
    return x


def apart(F, x):
    return F.add_n(*(F.contrib.all_reduce(x * (i + 1)) for i in range(9)))


def kinds(F, x):
    y = F.contrib.all_gather(F.contrib.sum_gradient(x) + 1, axis=0)
    y = F.contrib.reduce_scatter(y * 2, axis=0)
    y = F.contrib.all_to_all(y, split_axis=0, concat_axis=0)
    return F.contrib.broadcast(y, root=size - 1) - F.contrib.all_reduce(x, op="max")


mean = total / size
for forward, wanted in ((chain, mean), (apart, 45 * total)):
    for count in (1, 1024, 100000):  # 100000 floats do not fit into slots
        block, x = hybridized(forward), full(count)
        for step in range(6):
            if rank == step % size and step > 2:
                time.sleep(0.005 * step)  # the others wait so long that their tasks end
            np.testing.assert_allclose(block(x).asnumpy(), wanted, rtol=1e-5)
        # A continuation is a task, too, and there is at most one for each of the 20 calls. The
        # divided graph has 40 tasks.
        if count == 1 and forward is chain:
            assert min(tasks_of(lambda b=block, a=x: b(a)) for _ in range(20)) <= 23
x = full(size, 3)
block = hybridized(kinds)
for _ in range(3):
    y = block(x).asnumpy()
    rows = 2 * size * (np.arange(size) + 2)  # row r comes from rank r
    np.testing.assert_allclose(y, np.repeat(rows[:, None] - size, 3, axis=1))

# Results of graphs whose operands are not computed yet, one graph after the other.
block, x = hybridized(chain), full(16)
y = x
for _ in range(50):
    y = block(y)
np.testing.assert_allclose(y.asnumpy(), mean, rtol=1e-4)

# The caller may change its arrays afterwards.
plain = hybridized(lambda F, x: F.contrib.all_reduce(x))
for step in range(50):
    x = full(64)
    y = plain(x)
    x[:] = -1
    y += step
    assert (y.asnumpy() == total + step).all()

# Several graphs in flight, of two process sets in another order on every rank.
if size > 2:
    pair = hvd.add_process_set(hvd.ProcessSet([0, 1]))
    of_pair = hybridized(lambda F, x: F.contrib.all_reduce(x + 1, process_set=pair) * 2)
    x = full(8)
    for step in range(30):
        calls = [lambda: plain(x)] + ([lambda: of_pair(x)] if rank < 2 else [])
        results = [call() for call in (calls if (rank + step) % 2 else calls[::-1])]
        found = sorted(float(r[0].asscalar()) for r in results)
        assert found == sorted([10.0, float(total)][2 - len(calls) :]), found

# Ranks that make other calls in their graphs: all get an error, and the job continues.
other = hybridized(lambda F, x: F.contrib.all_reduce(x, op="max" if rank == 1 else "sum") + 1)
words = ("all_reduce(sum) of float32(4,) on rank", "all_reduce(max) of float32(4,) on rank 1")
fails(lambda: other(full(4)), *words)
assert (plain(full(4)).asnumpy() == total).all()

# A call in the middle that ranks make differently: later calls of the graph fail on all ranks.
middle = hybridized(
    lambda F, x: F.contrib.all_reduce(
        F.contrib.all_reduce(F.contrib.all_reduce(x), op="max" if rank == 1 else "sum") * 2
    )
)
words = ("do not make the same calls in the same order", "while running node")
fails(lambda: middle(full(4)), *words)
assert (plain(full(4)).asnumpy() == total).all()

# An operand that one rank could not compute, and an operator that fails between two calls.
sign = 1.0 if rank else -1.0
factor = hybridized(
    lambda F, x: F.contrib.all_reduce(F.linalg.potrf(F.contrib.all_reduce(x) * sign))
)
fails(lambda: factor(mx.nd.array([[1.0, 0], [0, 1]])), "potrf")
bad = mx.nd.ones((4,))
if rank == size - 1:
    bad = mx.nd.linalg.potrf(mx.nd.array([[-1.0, 0], [0, -1]])).reshape((4,))
    fails(lambda: bad)
fails(lambda: plain(bad), "potrf")
assert (plain(full(4)).asnumpy() == total).all()
print("done", rank)
