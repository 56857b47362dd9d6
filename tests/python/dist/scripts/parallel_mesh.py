"""Meshes on four ranks: coordinates, groups, and mistakes that are errors on every rank."""

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import gluon
from mxlite.gluon.contrib import parallel
from rank_checks import invalid, refused

mesh = mx.parallel.mesh(data=2, tensor=-1)  # joins the job
rank, size = hvd.rank(), hvd.size()
assert size == 4 and mesh.size == 4 and mesh.rank == rank
assert mesh.axes == {"data": 2, "tensor": 2}
assert mesh.coordinates == {"data": rank // 2, "tensor": rank % 2}
assert mesh.ranks.tolist() == [[0, 1], [2, 3]]
assert mesh.group("tensor").ranks == [rank // 2 * 2, rank // 2 * 2 + 1]
assert mesh.group("data").ranks == [rank % 2, rank % 2 + 2]
assert mesh.peer("data", 1) == (rank + 2 if rank < 2 else None)
assert mesh.peer("tensor", -1) == (rank - 1 if rank % 2 else None)
assert mesh.axis_size("tensor") == 2 and mesh.coordinate("data") == rank // 2
for axis in ("data", "tensor"):
    number = mesh.group(axis).process_set_id
    total = mx.nd.contrib.all_reduce(mx.nd.array([rank]), process_set=number).asscalar()
    assert total == sum(mesh.group(axis).ranks)

# The same sets are used again; an axis of all ranks is the set of all ranks.
again = mx.parallel.mesh(data=2, tensor=2)
assert again.group("data").process_set_id == mesh.group("data").process_set_id
line = mx.parallel.mesh(tensor=4)
assert line.group("tensor").process_set_id == 0
cube = mx.parallel.mesh(data=2, pipe=2, tensor=1)
assert cube.group("tensor").ranks == [rank]
assert cube.coordinates == {"data": rank // 2, "pipe": rank % 2, "tensor": 0}


invalid(lambda: mx.parallel.mesh(data=2, tensor=3), "2 x 3", "4 ranks")
invalid(lambda: mx.parallel.mesh(data=3, tensor=-1), "does not divide the 4 ranks")
invalid(
    lambda: mx.parallel.mesh(data=-1, tensor=-1),
    "at most one axis must have size -1, got data and tensor",
)
invalid(lambda: mx.parallel.mesh(data=0), "the size of axis data must be at least 1")
refused(lambda: mx.parallel.mesh(data="all"), "'all'", "integer", kind=TypeError)
invalid(lambda: mx.parallel.mesh(), "axes must be names and sizes")
invalid(lambda: mesh.group("pipe"), "'pipe'", "data, tensor")
# Ranks that disagree about sizes or order, and mistakes that only one of them makes.
invalid(
    lambda: mx.parallel.mesh(**({"data": 2, "tensor": 2} if rank else {"data": 4})),
    "different axes: data=4 on rank 0; data=2, tensor=2 on ranks 1, 2, 3",
)
invalid(
    lambda: mx.parallel.mesh(
        **({"tensor": 2, "data": 2} if rank == 3 else {"data": 2, "tensor": 2})
    ),
    "tensor=2, data=2 on rank 3",
)
invalid(lambda: mx.parallel.mesh(**({"data": 7} if rank == 2 else {"data": 4})), "data=7 on rank 2")

# Layers: sizes that do not divide, sets without this rank, ranks that disagree.
group = mesh.group("tensor")
invalid(lambda: parallel.ColumnParallelDense(5, group), "units is 5", "2 ranks", "allow")
invalid(lambda: parallel.RowParallelDense(3, group, in_units=5), "in_units is 5")
invalid(lambda: parallel.VocabParallelEmbedding(1, 4, group), "input_dim is 1", "at least")
other = mx.parallel.mesh(a=2, b=2).group("a")
invalid(lambda: parallel.ColumnParallelDense(4, 99), "99")
wrong = hvd.ProcessSet([0, 1, 2])
invalid(lambda: parallel.ColumnParallelDense(4, wrong), "ProcessSet")


def disagree():
    net = parallel.ColumnParallelDense(4 + 2 * (rank % 2), group, in_units=3)
    net.initialize()


invalid(disagree, "disagree", f"on rank {group.ranks[0]}", f"on rank {group.ranks[1]}")
loss = parallel.VocabParallelSoftmaxCELoss(10, group)
invalid(lambda: loss(mx.nd.ones((3, 10)), mx.nd.ones((3,))), "(3, 10)", "pred must have 5 logits")
# Inputs of different shapes on the ranks of a group.
net = parallel.RowParallelDense(3, group, in_units=4)
net.initialize()
refused(
    lambda: net(mx.nd.ones((2 + rank % 2, 2))).wait_to_read(),
    "(2, 3)",
    "(3, 3)",
    f"on rank {group.ranks[1]}",
)
assert np.isfinite(net(mx.nd.ones((2, 2))).asnumpy()).all()

# A trainer that would average over ranks that compute the same loss.
options = (net.collect_params(), "sgd", {"learning_rate": 0.1})
for make in (
    lambda: hvd.DistributedTrainer(*options),
    lambda: hvd.DistributedTrainer(*options, process_set=group),
    lambda: gluon.Trainer(*options, kvstore="horovod"),
):
    invalid(
        lambda make=make: make().step(1),
        "gluon.contrib.parallel",
        f"ranks {group.ranks[0]}, {group.ranks[1]}",
        "mesh.group('data')",
    )

# Trainers take process sets as layers do: None is the set of all ranks, a number one of the sets.
plain = gluon.nn.Dense(2, in_units=2, use_bias=False)
plain.initialize()
for given, ranks in (
    (None, range(size)),
    (mesh.group("data"), mesh.group("data").ranks),
    (mesh.group("data").process_set_id, mesh.group("data").ranks),
):
    trainer = hvd.DistributedTrainer(
        plain.collect_params(), "sgd", {"learning_rate": 1}, process_set=given
    )
    plain.weight.set_data(mx.nd.ones((2, 2)))
    with mx.autograd.record():
        loss = (plain.weight.data() * rank).sum()
    loss.backward()
    trainer.step(1)
    np.testing.assert_array_equal(plain.weight.data().asnumpy(), 1 - np.mean(list(ranks)))
for wrong in ("data", 1.5, True):
    for make in (
        lambda wrong=wrong: hvd.DistributedTrainer(*options, process_set=wrong),
        lambda wrong=wrong: hvd.DistributedOptimizer(mx.optimizer.SGD(), process_set=wrong),
    ):
        refused(make, repr(wrong), "process_set must be a ProcessSet", kind=TypeError)
invalid(lambda: hvd.DistributedTrainer(*options, process_set=77), "process set 77 does not exist")
hvd.broadcast_parameters(net.collect_params(), root_rank=0)
mesh.barrier()
print("done", rank)
