"""Mistakes with sharded parameters are errors on every rank, and the job continues."""

import sys
import time
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import gluon
from mxlite.gluon import Parameter
from rank_checks import fails, in_step, invalid, refused

folder = Path(sys.argv[1])
outside = hvd.ProcessSet([0, 1])
absent = hvd.ProcessSet([0, 2])
early = Parameter("early_weight", shape=(6, 3), shard=(0, outside))
hvd.init(process_sets=[outside])
rank, size = hvd.rank(), hvd.size()
assert size == 3


def made(shape=(6, 3), axis=0, init=None, name="a_weight", **options):
    param = Parameter(name, shape=shape, init=init, shard=(axis, None), **options)
    param.initialize()
    return param


# Ranks that disagree.
invalid(
    lambda: made((6, 3 + rank)),
    "the ranks of process set 0 disagree",
    "'a_weight' of shape (6, 3) and dtype float32, shard axis 0 on rank 0",
    "'a_weight' of shape (6, 5) and dtype float32, shard axis 0 on rank 2",
)
invalid(lambda: made((6, 3), axis=int(rank == 1)), "shard axis 1 on rank 1")
invalid(lambda: made(dtype="float16" if rank == 2 else "float32"), "dtype float16")
invalid(lambda: made(name=f"a{rank}_weight"), "'a1_weight'", "'a2_weight'")
invalid(lambda: made((7, 3), allow_uneven=rank > 0), "allow_uneven=True on rank 1")
invalid(lambda: made((6 + rank, 3)), "disagree")


class Broken(mx.init.Initializer):
    """Fails on one rank."""

    def _init_weight(self, desc, arr):
        if rank == 1:
            raise OSError("no such file")


if rank == 1:
    refused(lambda: made(init=Broken()), "no such file", kind=OSError)
else:
    refused(lambda: made(init=Broken()), "rank 1 cannot make its shard: no such file")

# Mistakes of all ranks.
invalid(
    lambda: made((7, 3)),
    "'a_weight': axis 0 of shape (7, 3) does not divide into 3 equal shards for the ranks 0, 1, 2",
    "allow_uneven=True",
)
invalid(lambda: made((2, 3), allow_uneven=True), "each rank needs at least one")
refused(
    lambda: made((6, 3), axis=2),
    "axis of shard must be -2 to 1 for shape (6, 3), got 2",
    kind=IndexError,
)
invalid(lambda: Parameter("a", shard=(0, absent)), "is not part of the job")
invalid(lambda: Parameter("a", shard=(0, 9)), "process set 9")
refused(
    lambda: Parameter("a", shard=0),
    "shard must be a tuple (axis, process_set), got 0",
    kind=TypeError,
)
refused(
    lambda: Parameter("a", shard=(0.5, None)),
    "axis of shard must be an integer, got 0.5",
    kind=TypeError,
)
refused(lambda: Parameter("a", shard=(0, "all")), "got 'all'", kind=TypeError)
invalid(lambda: Parameter("a", shard=(0, None), stype="row_sparse"), "must be dense, got")
refused(lambda: setattr(made(), "shard", (1, None)), "cannot be changed")
invalid(lambda: made().set_data(mx.nd.ones((5, 3))), "(5, 3) is incompatible")
open_ = Parameter("o_weight", shape=(0, 3), shard=(0, None), allow_deferred_init=True)
open_.initialize()
invalid(lambda: open_.set_data(mx.nd.ones((5, 3))), "does not divide")
open_.set_data(mx.nd.ones((6, 3)))  # the shape of the failed call is forgotten
assert open_.shape == (6, 3)

# A group without this rank: declared before init, the error comes with initialize.
if rank == 2:
    message = "process set 1 of ranks 0, 1 does not contain this process, rank 2"
    invalid(lambda: Parameter("a", shard=(0, outside)), message)
    invalid(early.initialize, message)
else:
    made_early = Parameter("a", shard=(0, 1))
    early.initialize()
    assert early.data().shape == (3, 3)
    in_step()  # rank 2 does it after each error
    in_step()

# A trainer over ranks of which one has the whole parameter.
half = Parameter("half_weight", shape=(4, 3), shard=None if rank == 2 else (0, outside))
half.initialize()
with mx.autograd.record():
    loss = (half.data() * 2).sum()
loss.backward()
trainer = hvd.DistributedTrainer([half], "sgd")
invalid(
    lambda: trainer.step(1),
    "DistributedTrainer: the ranks disagree about Parameter 'half_weight'",
    "2 shards on rank 1; not sharded on rank 2",
)

# A file with another shape.
path = str(folder / f"file{rank}")
mx.nd.save(path, {"weight": mx.nd.ones((5, 3))})
block = gluon.nn.Dense(6, in_units=3, use_bias=False)
block.weight.shard = (0, None)
invalid(lambda: block.load_parameters(path), "expected (6, 3) vs saved (5, 3)")

# An unknown extent of uneven shards.
free = Parameter("a_weight", shape=(0, 3), shard=(0, None), allow_uneven=True)
invalid(lambda: free._set_local_shape((2, 3)), "give the whole shape")

# A call that one rank leaves out.
whole = made()
if rank == 1:
    while len(list(folder.glob("missed*"))) < 2:  # the job's time limit ends this
        time.sleep(0.02)
else:
    fails(whole.full_data, "misses rank 1", seconds=100)
    (folder / f"missed{rank}").touch()
print("done", rank, flush=True)
