"""Collective operators that ranks call differently: errors on every rank, and the job continues."""

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd
from rank_checks import fails, in_step, invalid, refused

pair = hvd.ProcessSet([0, 1])
last = hvd.ProcessSet([2])
hvd.init(process_sets=[pair, last])
rank, size = hvd.rank(), hvd.size()
contrib = mx.nd.contrib
one = mx.nd.ones


# Ranks that disagree; the error names the calls of all ranks.
refused(
    lambda: contrib.all_reduce(one((2 + rank,))),
    "the ranks do not make the same calls in the same order: call ",
    "all_reduce(sum) of float32(2,) on rank 0",
    "all_reduce(sum) of float32(3,) on rank 1",
    "all_reduce(sum) of float32(4,) on rank 2",
)
refused(
    lambda: contrib.all_reduce(one((2,)), op="max" if rank == 1 else "sum"),
    "all_reduce(sum) of float32(2,) on ranks 0, 2 and all_reduce(max) of float32(2,) on rank 1",
)
refused(
    lambda: contrib.all_gather(one((3, 3)), axis=int(rank == 2)),
    "all_gather(axis=0) of float32(3, 3) on ranks 0, 1 and all_gather(axis=1)",
)
refused(lambda: contrib.all_gather(one((3 + rank, 3))), "float32(3, 3) on rank 0")
refused(
    lambda: contrib.all_reduce(one((2,), dtype="float32" if rank else "int32")),
    "int32(2,) on rank 0 and all_reduce(sum) of float32(2,) on ranks 1, 2",
)
refused(
    lambda: contrib.broadcast(one((2,)), root=rank),
    "broadcast(root=0) of float32(2,) on rank 0",
    "broadcast(root=2) of float32(2,) on rank 2",
)
refused(
    lambda: contrib.all_to_all(one((3,))) if rank else contrib.reduce_scatter(one((3,))),
    "reduce_scatter(axis=0, sum) of float32(3,) on rank 0 and "
    "all_to_all(split_axis=0, concat_axis=0) of float32(3,) on ranks 1, 2",
)
# The same holds for a call that only some ranks make.
if rank < 2:
    fails(
        lambda: contrib.all_reduce(one((2 + rank,)), process_set=1),
        "of process set 1 is",
        "float32(3,) on rank 1",
    )
    assert contrib.all_reduce(one((1,)), process_set=1).asscalar() == 2

# A mistake that only one rank makes is an error of the others, too.
if rank == 1:
    invalid(
        lambda: contrib.reduce_scatter(one((4,))),
        "the size of axis 0 must be a multiple of the 3 ranks, got data of shape (4,)",
    )
else:
    refused(
        lambda: contrib.reduce_scatter(one((3,))),
        "rank 1 cannot take part",
        "got data of shape (4,)",
    )
if rank == 0:
    refused(lambda: contrib.all_gather(one((3,)), axis=1), "axis 1", kind=IndexError)
else:
    refused(lambda: contrib.all_gather(one((3,))), "rank 0 cannot take part", "axis 1")
if rank == 2:
    invalid(
        lambda: contrib.all_reduce(one((3,)), out=one((4,))), "out must have shape (3,), got (4,)"
    )
else:
    refused(
        lambda: contrib.all_reduce(one((3,))), "rank 2 cannot take part", "out must have shape (3,)"
    )
# An input that one rank could not compute is an error on all ranks.
broken = one((3,))
if rank == 2:
    broken = mx.nd.contrib.all_reduce(broken, process_set=2)
    bad = mx.nd.linalg.potrf(mx.nd.array([[-1.0, 0], [0, -1]]))
    broken = bad.reshape((4,))[:3]
words = ["potrf"]
if rank != 2:
    words.append("rank 2 cannot take part: an operation before it has failed: ")
refused(lambda: contrib.all_reduce(broken), *words)

# Mistakes of all ranks.
invalid(lambda: contrib.all_reduce(one((2,)), process_set=9), "process set 9")
mine, other = (1, 2) if rank < 2 else (2, 1)
invalid(
    lambda: contrib.all_reduce(one((2,)), process_set=other),
    f"process set {other} does not contain this process, rank {rank}",
)
invalid(lambda: contrib.broadcast(one((2,)), root=3), "(0, 1, 2), got 3")
invalid(
    lambda: contrib.send(one((2,)), destination=rank),
    "destination must be another rank",
    f"got {rank}",
)
invalid(lambda: contrib.recv(one((2,)), source=7), "source must be another rank", "got 7")
invalid(lambda: contrib.reduce_scatter(one((4,))), "multiple of the 3 ranks")
refused(
    lambda: contrib.all_reduce(one((2,), dtype="int32"), op="mean"),
    "'mean'",
    "int32",
    kind=TypeError,
)
x = one((2,))
x.attach_grad()
with autograd.record():
    y = contrib.all_reduce(x, op="max")
fails(y.backward, "op 'max' is not differentiable")

# Messages whose ends differ; other ranks are not concerned.
if rank == 0:
    refused(
        lambda: contrib.send(one((2, 3)), destination=1),
        "message from rank 0 to rank 1 of float32(2, 3) on rank 0",
        "of float32(3, 2) on rank 1",
    )
elif rank == 1:
    refused(lambda: contrib.recv(one((3, 2)), source=0), "float32(2, 3) on rank 0")
else:
    in_step()

# Inputs that become ready in another order on every rank.
slow = mx.nd.random.uniform(shape=(700, 700))
for number in range(6):
    late = mx.nd.dot(slow, slow)[0, :2] * 0
    inputs = [one((2,)) * 1 for _ in range(6)]
    inputs[(rank * 2 + number) % 6] = inputs[0] + late
    sums = [contrib.all_reduce(a * (i + 1)) for i, a in enumerate(inputs)]
    assert [s.asnumpy()[0] for s in sums] == [size * (i + 1) for i in range(6)]
print("done", rank)
