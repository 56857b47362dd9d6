"""Rank 1 is killed between two steps of a job; the others get an error that names it."""

import os
import signal
import sys

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib import parallel
from rank_checks import fails

hvd.init()


class Both(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.contrib.all_gather(F.contrib.all_reduce(x * 2) + 1)


class Chain(gluon.HybridBlock):
    """One task runs all calls of the graph."""

    def hybrid_forward(self, F, x):
        for _ in range(10):
            x = F.contrib.all_reduce(x * 0.5)
        return x


def make_chain():
    net = Chain()
    net.hybridize()
    return lambda: net(mx.nd.ones((4,)))


def make_backward():
    net, x = Both(), mx.nd.ones((4,))
    net.hybridize()
    x.attach_grad()

    def step():
        with autograd.record():
            y = net(x)
        y.backward()
        return x.grad

    return step


def make_sharded():
    net = nn.Dense(4, in_units=3)
    net.weight.shard = (1, None)
    net.initialize()
    trainer = hvd.DistributedTrainer(net.collect_params(), "adam", zero=1)

    def step():
        with autograd.record():
            y = mx.nd.contrib.all_reduce(net(mx.nd.ones((2, net.weight.local_shape[1]))))
        y.backward()
        trainer.step(2)
        return net.bias.data()

    return step


def make_mesh():
    mesh = mx.parallel.mesh(data=2, tensor=2)
    group = mesh.group("tensor")
    net = nn.HybridSequential()
    net.add(parallel.ColumnParallelDense(16, group, in_units=8, activation="relu"))
    net.add(parallel.RowParallelDense(8, group, in_units=16))
    net.initialize()
    net.hybridize()
    options = {"learning_rate": 1e-3}
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", options, process_set=mesh.group("data")
    )

    def step():
        with autograd.record():
            loss = (net(mx.nd.ones((4, 8))) ** 2).mean()
        loss.backward()
        trainer.step(4)
        return loss

    return step


MAKERS = {
    "operator": lambda: lambda: mx.nd.contrib.all_reduce(mx.nd.ones((8,))),
    "chain": make_chain,
    "backward": make_backward,
    "sharded": make_sharded,
    "mesh": make_mesh,
}
step = MAKERS[sys.argv[1]]()


def steps():
    for number in range(1000000):
        if number == 20 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        step().wait_to_read()


fails(steps, "rank 1", seconds=60)
print("done", flush=True)
os._exit(0)
