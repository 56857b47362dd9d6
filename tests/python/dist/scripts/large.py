"""Large arrays, which are reduced in place, and gradients sent while backward runs."""

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from rank_checks import agree, gradients

hvd.init()
rank, size = hvd.rank(), hvd.size()
COUNT = 600_011

array = mx.nd.empty((COUNT,))
for turn in range(5):
    values = [np.arange(COUNT, dtype="float32") % (7 + r) + turn for r in range(size)]
    array[:] = mx.nd.array(values[rank])
    hvd.allreduce_(array, op=hvd.Sum, name="in_place")
    np.testing.assert_array_equal(array.asnumpy(), np.sum(values, axis=0))
    source = mx.nd.array(values[rank])
    summed = hvd.allreduce(source, op=hvd.Sum, name="fresh")
    np.testing.assert_array_equal(summed.asnumpy(), np.sum(values, axis=0))
    np.testing.assert_array_equal(source.asnumpy(), values[rank])
    np.testing.assert_array_equal(hvd.broadcast(source, 1, name="b").asnumpy(), values[1])
    gathered = hvd.allgather(source, name="g").asnumpy()
    np.testing.assert_array_equal(gathered, np.concatenate(values))


def network():
    """Return a net with gradients of more than a megabyte, the same on all ranks."""
    mx.random.seed(3)
    net = gluon.nn.HybridSequential()
    for _ in range(4):
        net.add(gluon.nn.Dense(600, activation="tanh", in_units=600))
    net.add(gluon.nn.Dense(3, in_units=600))
    net.initialize(mx.init.Xavier())
    return net


hybrid, eager = network(), network()
hybrid.hybridize()
trainer = hvd.DistributedTrainer(hybrid.collect_params(), "sgd", {"learning_rate": 0.1})
loss = gluon.loss.L2Loss()
rng = np.random.default_rng(100 + rank)
for _ in range(4):
    data = mx.nd.array(rng.normal(size=(16, 600)))
    target = mx.nd.array(rng.normal(size=(16, 3)))
    for net in (hybrid, eager):
        with autograd.record():
            value = loss(net(data), target)
        value.backward()
    trainer.allreduce_grads()
    pairs = list(zip(hybrid.collect_params().values(), eager.collect_params().values()))
    plain = enumerate(eager.collect_params().values())
    totals = [hvd.allreduce(p.grad(), op=hvd.Sum, name=f"plain{i}") for i, p in plain]
    agree(gradients(hybrid), totals, 1e-4, 1e-5)
    trainer.update(16)
    for mine, plain in pairs:
        plain.set_data(mine.data())
print("done", rank, flush=True)
