"""Names of axes of the current mesh in place of process sets: one script runs with any mesh."""

import sys

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import gluon
from mxlite.gluon.contrib import parallel
from mxlite.gluon.contrib.nn import SyncBatchNorm

data, tensor = map(int, sys.argv[1:])
mesh = mx.parallel.mesh(data=data, tensor=tensor)
for make in (
    lambda: parallel.ColumnParallelDense(4, "tensor"),
    lambda: gluon.Parameter("weight", shape=(4, 2), shard=(0, "tensor")),
):
    with pytest.raises(TypeError, match="Mesh.use.*got 'tensor'"):
        make()

with mesh:
    mx.random.seed(3)
    net = gluon.nn.HybridSequential(prefix="net_")
    net.add(
        parallel.VocabParallelEmbedding(9, 8, "tensor", prefix="embedding_"),
        parallel.ColumnParallelDense(12, "tensor", flatten=False, prefix="column_"),
        parallel.RowParallelDense(6, "tensor", in_units=12, flatten=False, prefix="row_"),
        SyncBatchNorm(process_set="data", prefix="norm_"),
        parallel.ColumnParallelDense(6, "tensor", flatten=False, prefix="head_"),
    )
    loss_function = parallel.VocabParallelSoftmaxCELoss(6, "tensor")
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": 0.5}, process_set="data"
    )
    param = gluon.Parameter("weight", shape=(4, 2), shard=(0, "tensor"))
    with mx.parallel.mesh(tensor=1, other=-1):  # a name is looked up when an object is made
        assert gluon.Parameter("b", shape=(4, 2), shard=(0, "tensor")).local_shape == (4, 2)
        with pytest.raises(ValueError, match="one of the mesh's axes, tensor, other, got 'data'"):
            SyncBatchNorm(process_set="data")
    assert gluon.Parameter("c", shape=(4, 2), shard=(0, "tensor")).local_shape == (4 // tensor, 2)
assert param.shard == (0, mesh.group("tensor")) and param.local_shape == (4 // tensor, 2)
with pytest.raises(TypeError, match="Mesh.use"):
    hvd.DistributedTrainer(net.collect_params(), "sgd", process_set="data")
assert mesh.use() is mesh
params = gluon.ParameterDict()
assert params.get("w", shape=(4, 2), shard=(0, "tensor")) is params.get("w", shard=(0, "tensor"))

net.initialize(mx.init.Xavier())
net.hybridize()
random = np.random.RandomState(5)
tokens, labels = random.randint(0, 9, (8, 3)), random.randint(0, 6, (8, 3))
mine = slice(8 // data * mesh.coordinate("data"), 8 // data * (mesh.coordinate("data") + 1))
for _ in range(4):
    with mx.autograd.record():
        loss = loss_function(net(mx.nd.array(tokens[mine])), mx.nd.array(labels[mine]))
    loss.backward()
    trainer.step(8 // data * 3)
total = mx.nd.contrib.all_reduce(loss.sum(), process_set=mesh.group("data")).asscalar()
print(f"loss {total / 24:.5f}", flush=True)
print("done", flush=True)
