"""Ranks that disagree get an error that names ranks and tensor, and the job continues."""

import mxlite as mx
import mxlite.horovod as hvd

hvd.init(process_sets="dynamic")
rank, size = hvd.rank(), hvd.size()


def fails(what, *words, kind=mx.MXNetError):
    try:
        result = what()
        for array in result if isinstance(result, (list, tuple)) else [result]:
            array.wait_to_read()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise SystemExit(f"no error with {words}")
    assert hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum).asnumpy().tolist() == [size] * 2


one = mx.nd.ones
fails(
    lambda: hvd.allreduce(one((rank + 1, 3)), name="a"),
    "allreduce.a",
    "(1, 3) and (2, 3)",
    "ranks 0 and 1",
)
dtype = "float32" if rank == 0 else "int32"
fails(
    lambda: hvd.allreduce(one((2,), dtype=dtype), name="b"), "Mismatched data types", "allreduce.b"
)
fails(
    lambda: hvd.allreduce(one((2,)), name="c", op=hvd.Sum if rank else hvd.Max), "reduce operations"
)
fails(lambda: hvd.allreduce(one((2,)), prescale_factor=1.0 + rank), "prescale")
fails(lambda: hvd.broadcast(one((2,)), rank), "root ranks")
fails(lambda: hvd.broadcast(one((2,)), size), "root rank")
fails(lambda: hvd.allgather(one((2, 3 + rank))), "allgather tensor shapes")
fails(lambda: hvd.alltoall(one((size,)), [2] * size), "splits")
fails(lambda: hvd.alltoall(one((size,)), [1] * (size + 1)), "splits")
fails(lambda: hvd.alltoall(one((size + 1,))), "multiple", kind=ValueError)
fails(lambda: hvd.alltoall(one((size,)), one((size,))), "int32", kind=ValueError)
fails(lambda: hvd.reducescatter(one((2,)), op=hvd.Max), "Average or hvd.Sum", kind=ValueError)
fails(lambda: hvd.allreduce(one((2,)), op=hvd.Adasum), "Adasum", kind=AssertionError)
fails(lambda: hvd.allreduce(3.0), "NDArray", kind=TypeError)
group = [one((2,)), one((3 + rank,))]
fails(lambda: hvd.grouped_allreduce(group, name="g"), "g_2of2")
fails(lambda: hvd.allreduce(one((2,)), average=True, op=hvd.Sum), "average", kind=ValueError)

# Ranks that are no integers, and process sets that one rank alone wants, or that no job can have.
fails(lambda: hvd.broadcast(one((2,)), 0.5), "rank 0.5 given, an integer", kind=TypeError)
fails(lambda: hvd.ProcessSet([0, 0.5]), "rank 0.5 given, an integer", kind=TypeError)
fails(lambda: hvd.ProcessSet([False, 1]), "rank False given, an integer", kind=TypeError)
fails(lambda: hvd.add_process_set([0, size]), f"the job has {size} processes", kind=ValueError)
fails(
    lambda: hvd.add_process_set([0, size + rank]),
    "Mismatched ranks of the process set",
    kind=ValueError,
)
fails(
    lambda: hvd.add_process_set([0, size] if rank == 0 else [1]),
    "Mismatched ranks",
    kind=ValueError,
)
# Ranks that make different calls, each of which exchanges settings.
part = mx.gluon.Parameter("part_weight", shape=(2 * size, 3), shard=(0, None))
fails(
    lambda: part.initialize() if rank == 0 else mx.parallel.mesh(data=size),
    "make different calls: initialize or load a sharded Parameter on rank 0; mesh on rank 1",
    kind=mx.base.CommunicatorError,
)

# Trainers of other optimizers, which would give each rank other weights.
net = mx.gluon.nn.Dense(1, in_units=2, prefix="dense_")
net.initialize()
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd" if rank else "adam")
with mx.autograd.record():
    loss = net(one((1, 2)))
loss.backward()
words = ("optimizer Adam, zero=0' on rank 0", "optimizer SGD, zero=0' on rank")
fails(lambda: trainer.step(1), *words)

# The same name twice at once: rank 0's second one is refused, the first continues.
if rank == 0:
    first = hvd.allreduce(one((2,)), name="twice", op=hvd.Sum)
    second = hvd.allreduce(one((2,)), name="twice", op=hvd.Sum)
    try:
        second.wait_to_read()
        raise SystemExit("two tensors of one name at once")
    except mx.MXNetError as error:
        assert "same name" in str(error), error
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
try:
    later.wait_to_read()
    raise SystemExit("no error of a rank that has failed")
except mx.MXNetError as error:
    assert rank == 0 or "rank 0 could not compute" in str(error), error
print("done", rank)
