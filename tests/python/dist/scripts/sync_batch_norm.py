"""SyncBatchNorm over ranks gives what BatchNorm gives for the joined batch."""

import sys

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import autograd
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import SyncBatchNorm
from rank_checks import agree, fails

several = int(sys.argv[1]) > 1
some = hvd.ProcessSet([0])
hvd.init(process_sets=[some] if several else None)
rank, size = hvd.rank(), hvd.size()


def batches(shape, dtype="float32", mean=3.0, even=False):
    """Return the data and head gradients of all ranks; their sizes differ."""
    random = np.random.RandomState(5)
    rows = [shape[0] + (0 if even else index) for index in range(size)]
    data = [random.normal(mean + r, 2, (n, *shape[1:])).astype(dtype) for r, n in enumerate(rows)]
    heads = [random.uniform(-1, 1, (n, *shape[1:])).astype(dtype) for n in rows]
    return data, heads


def run(layer, data, heads, steps=2):
    x = mx.nd.array(data, dtype=data.dtype)
    x.attach_grad()
    for _ in range(steps):
        with autograd.record():
            y = layer(x)
        y.backward(mx.nd.array(heads, dtype=heads.dtype))
    running = [layer.running_mean.data().asnumpy(), layer.running_var.data().asnumpy()]
    return [y.asnumpy(), x.grad.asnumpy()], [layer.gamma.grad(), layer.beta.grad()], running


def make(kind, channels, hybridize, dtype="float32", **options):
    layer = kind(in_channels=channels, momentum=0.7, epsilon=1e-4, prefix="bn_", **options)
    layer.initialize()
    if channels:
        random = np.random.RandomState(1)
        layer.gamma.set_data(mx.nd.array(random.uniform(0.5, 2, channels)))
        layer.beta.set_data(mx.nd.array(random.uniform(-1, 1, channels)))
    layer.cast(dtype)
    layer.hybridize(hybridize)
    return layer


def compare(shape, hybridize, channels=None, tolerance=2e-5, **other):
    data, heads = batches(shape, **other)
    channels = shape[1] if channels is None else channels
    layer = make(SyncBatchNorm, channels, hybridize, data[0].dtype)
    mine, factors, running = run(layer, data[rank], heads[rank])
    joined = make(nn.BatchNorm, channels, False, data[0].dtype)
    wanted, wanted_factors, wanted_running = run(
        joined, np.concatenate(data), np.concatenate(heads)
    )
    begin = sum(len(part) for part in data[:rank])
    for got, want in zip(mine, wanted):
        scale = max(1.0, np.abs(want).max())
        part = want[begin : begin + len(data[rank])]
        np.testing.assert_allclose(got, part, rtol=tolerance, atol=tolerance * scale)
    for got, want in zip(factors, wanted_factors):
        total = mx.nd.contrib.all_reduce(got).asnumpy()
        scale = max(1.0, np.abs(want.asnumpy()).max())
        np.testing.assert_allclose(
            total, want.asnumpy(), rtol=tolerance, atol=tolerance * scale * 5
        )
    agree(running, wanted_running, tolerance, 1e-6)
    # Inference needs no other rank.
    if rank == 0:
        x = mx.nd.array(data[0], dtype=data[0].dtype)
        np.testing.assert_allclose(
            layer(x).asnumpy(), joined(x).asnumpy(), rtol=1e-3, atol=tolerance * 50
        )


for hybridize in (False, True):
    for shape in ((4, 3), (2, 5, 7), (3, 4, 5, 6), (1, 2, 3, 2, 2)):
        compare(shape, hybridize)
    compare((4, 3, 2), hybridize, channels=0)
    compare((4, 3, 2), hybridize, dtype="float64", tolerance=1e-5)
    compare((8, 3, 5), hybridize, dtype="float16", tolerance=4e-3)
    compare((8, 3, 5), hybridize, mean=1000.0, tolerance=2e-3)

# A mean that is large beside the deviation loses no more than BatchNorm does.
layer = make(SyncBatchNorm, 2, True)
data = (1e4 + np.random.RandomState(rank).uniform(-1, 1, (64, 2))).astype("float32")
_, _, running = run(layer, data, np.ones_like(data), steps=1)
everything = np.concatenate(hvd.allgather_object(data)).astype("float64")
np.testing.assert_allclose(running[1], 0.7 + 0.3 * everything.var(0), rtol=1e-3)

# The function, its statistics, a fixed gamma and a process set of one rank.
x = mx.nd.array(np.random.RandomState(rank).normal(1, 2, (6, 3)))
gamma, beta = mx.nd.ones(3) * 5, mx.nd.zeros(3)
gamma.attach_grad()
moving = [mx.nd.zeros(3), mx.nd.ones(3)]
with autograd.record():
    y, mean, var = mx.nd.contrib.SyncBatchNorm(
        x, gamma, beta, *moving, eps=1e-5, output_mean_var=True, ndev=size, key="bn",
        process_set=hvd.global_process_set,
    )  # fmt: skip
y.backward()
everything = np.concatenate(hvd.allgather_object(x.asnumpy()))
np.testing.assert_allclose(mean.asnumpy(), everything.mean(0), rtol=1e-5)
np.testing.assert_allclose(var.asnumpy(), everything.var(0), rtol=1e-5)
wanted = (x.asnumpy() - everything.mean(0)) / np.sqrt(everything.var(0) + 1e-5)
np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(moving[0].asnumpy(), 0.1 * everything.mean(0), rtol=1e-5)
assert (gamma.grad.asnumpy() == 0).all()
out = mx.nd.zeros((6, 3))
with autograd.train_mode():
    options = {"key": "bn", "eps": 1e-5, "process_set": 0}
    mx.nd.contrib.SyncBatchNorm(x, gamma, beta, *moving, out=out, **options)
np.testing.assert_allclose(out.asnumpy(), wanted, rtol=1e-4, atol=1e-5)
if rank == 0 and several:
    with autograd.train_mode():
        y = mx.nd.contrib.SyncBatchNorm(x, gamma, beta, *moving, key="bn", eps=1e-5, process_set=1)
    own = x.asnumpy()
    wanted = (own - own.mean(0)) / np.sqrt(own.var(0) + 1e-5)
    np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-4, atol=1e-5)

# A network with several layers, and num_devices.
net = nn.HybridSequential(prefix="net_")
net.add(nn.Conv2D(4, 3, in_channels=2), SyncBatchNorm(num_devices=size), nn.Activation("relu"))
net.add(SyncBatchNorm(num_devices=1), nn.Dense(2))
net.initialize()
net.hybridize()
for _ in range(2):
    with autograd.record():
        loss = net(mx.nd.random.uniform(shape=(3, 2, 5, 5))).sum()
    loss.backward()
loss.wait_to_read()

# Mistakes.
x = mx.nd.ones((2, 3))
with autograd.record():
    with pytest.raises(NotImplementedError, match=f"num_devices must be {size} in training, got 9"):
        make(SyncBatchNorm, 3, False, num_devices=9)(x)
    with pytest.raises(ValueError, match="process set 7"):
        make(SyncBatchNorm, 3, False, process_set=7)(x)
    if rank > 0:
        with pytest.raises(ValueError, match="does not contain this process"):
            make(SyncBatchNorm, 3, False, process_set=some)(x)
    options = {"key": "bn", "process_set": 0}
    with pytest.raises(ValueError, match="at least one element"):
        mx.nd.contrib.SyncBatchNorm(mx.nd.zeros((0, 3)), gamma, beta, *moving, **options)
    with pytest.raises(
        ValueError, match=r"gamma must have shape \(4,\) for data of shape \(2, 4\)"
    ):
        mx.nd.contrib.SyncBatchNorm(mx.nd.ones((2, 4)), gamma, beta, *moving, **options)
    with pytest.raises(TypeError, match="dtype of gamma must be .* for data of float64"):
        mx.nd.contrib.SyncBatchNorm(x.astype("float64"), gamma, beta, *moving, **options)
    if several:
        layer = make(SyncBatchNorm, 3 + rank, False)
        fails(lambda: layer(mx.nd.ones((2, 3 + rank))), "do not make the same calls")
print("done", rank)
