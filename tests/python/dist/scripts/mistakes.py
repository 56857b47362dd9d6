"""Ranks that disagree get an error that names ranks and tensor, and the job continues."""

import mxlite as mx
import mxlite.horovod as hvd
from rank_checks import fails, invalid, refused

hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()


one = mx.nd.ones
refused(
    lambda: hvd.allreduce(one((rank + 1, 3)), name="a"),
    "allreduce.a",
    "(1, 3) and (2, 3)",
    "ranks 0 and 1",
)
dtype = "float32" if rank == 0 else "int32"
refused(
    lambda: hvd.allreduce(one((2,), dtype=dtype), name="b"), "Mismatched data types", "allreduce.b"
)
refused(
    lambda: hvd.allreduce(one((2,)), name="c", op=hvd.Sum if rank else hvd.Max), "reduce operations"
)
refused(lambda: hvd.allreduce(one((2,)), prescale_factor=1.0 + rank), "prescale")
refused(lambda: hvd.broadcast(one((2,)), rank), "root ranks")
refused(lambda: hvd.broadcast(one((2,)), size), "root must be a rank")
refused(lambda: hvd.allgather(one((2, 3 + rank))), "allgather tensor shapes")
refused(lambda: hvd.alltoall(one((size,)), [2] * size), "splits")
refused(lambda: hvd.alltoall(one((size,)), [1] * (size + 1)), "splits")
invalid(lambda: hvd.alltoall(one((size + 1,))), "multiple")
invalid(lambda: hvd.alltoall(one((size,)), one((size,))), "int32")
invalid(lambda: hvd.reducescatter(one((2,)), op=hvd.Max), "Average or hvd.Sum")
refused(lambda: hvd.allreduce(one((2,)), op=hvd.Adasum), "Adasum", kind=AssertionError)
refused(lambda: hvd.allreduce(3.0), "NDArray", kind=TypeError)
group = [one((2,)), one((3 + rank,))]
refused(lambda: hvd.grouped_allreduce(group, name="g"), "g_2of2")
invalid(lambda: hvd.allreduce(one((2,)), average=True, op=hvd.Sum), "average")

# Ranks that are no integers, and process sets that one rank alone wants, or that no job can have.
refused(lambda: hvd.broadcast(one((2,)), 0.5), "rank must be an integer, got 0.5", kind=TypeError)
refused(lambda: hvd.ProcessSet([0, 0.5]), "rank must be an integer, got 0.5", kind=TypeError)
refused(lambda: hvd.ProcessSet([False, 1]), "rank must be an integer, got False", kind=TypeError)
invalid(lambda: hvd.add_process_set([0, size]), f"the job has {size} processes")
invalid(lambda: hvd.add_process_set([0, size + rank]), "Mismatched ranks of the process set")
invalid(lambda: hvd.add_process_set([0, size] if rank == 0 else [1]), "Mismatched ranks")
# Ranks that make different calls, each of which exchanges settings.
part = mx.gluon.Parameter("part_weight", shape=(2 * size, 3), shard=(0, None))
refused(
    lambda: part.initialize() if rank == 0 else mx.parallel.mesh(data=size),
    "make different calls: initialize or load a sharded Parameter on rank 0; mesh on rank 1",
    kind=mx.base.CommunicatorError,
)

# Trainers with different optimizers, which would give each rank different weights.
net = mx.gluon.nn.Dense(1, in_units=2, prefix="dense_")
net.initialize()
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd" if rank else "adam")
with mx.autograd.record():
    loss = net(one((1, 2)))
loss.backward()
words = ("optimizer Adam, zero=0' on rank 0", "optimizer SGD, zero=0' on rank")
refused(lambda: trainer.step(1), *words)

# The same name twice at once: rank 0's second one is refused, the first continues.
if rank == 0:
    first = hvd.allreduce(one((2,)), name="twice", op=hvd.Sum)
    second = hvd.allreduce(one((2,)), name="twice", op=hvd.Sum)
    fails(lambda: second, "same name")
    hvd.broadcast(one((1,)), 0, name="go").wait_to_read()
else:
    hvd.broadcast(one((1,)), 0, name="go").wait_to_read()
    first = hvd.allreduce(one((2,)), name="twice", op=hvd.Sum)
assert first.asnumpy().tolist() == [size] * 2

# A tensor that could not be computed: the others get the error at once.
if rank == 0:
    broken = mx.nd.ones((2,))
    hvd.allreduce_(broken, name="odd")
else:
    broken = hvd.allreduce(mx.nd.ones((3,)), name="odd")
later = hvd.allreduce(broken if rank == 0 else mx.nd.ones((2,)), name="later")
fails(lambda: later, "rank 0 could not compute" if rank else "")
print("done", rank)
