"""SyncBatchNorm over two devices of each rank gives what BatchNorm gives for the joined batch."""

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn
from mxlite.gluon.contrib.nn import SyncBatchNorm
from rank_checks import agree, fails, weights

hvd.init()
rank, size = hvd.rank(), hvd.size()
ctx = [mx.cpu(0), mx.cpu(1)]
own = slice(2 * rank, 2 * rank + 2)
random = np.random.RandomState(5)


def make(kind, where, channels=3, **options):
    layer = kind(in_channels=channels, momentum=0.7, epsilon=1e-4, prefix="bn_", **options)
    layer.initialize(ctx=where)
    return layer


def compare(layer, data, heads, rows, mine):
    """Train two steps; the devices' batches differ in size."""
    plain = make(nn.BatchNorm, mx.cpu())
    xs = [mx.nd.array(x, ctx=device) for x, device in zip(data[mine], ctx)]
    whole = mx.nd.array(np.concatenate(data[rows]))
    for x in (*xs, whole):
        x.attach_grad()
    for _ in range(2):
        with autograd.record():
            ys = [layer(x) for x in xs]
            wanted = plain(whole)
        for y, head in zip(ys, heads[mine]):
            y.backward(mx.nd.array(head, ctx=y.ctx))
        wanted.backward(mx.nd.array(np.concatenate(heads[rows])))
    begin = sum(len(x) for x in data[rows][: mine.start - (rows.start or 0)])
    part = slice(begin, begin + sum(len(x) for x in data[mine]))
    got = np.concatenate([y.asnumpy() for y in ys])
    np.testing.assert_allclose(got, wanted.asnumpy()[part], rtol=2e-5, atol=1e-4)
    got = np.concatenate([x.grad.asnumpy() for x in xs])
    np.testing.assert_allclose(got, whole.grad.asnumpy()[part], rtol=2e-5, atol=1e-4)
    for device in ctx:
        for name in ("running_mean", "running_var"):
            got = getattr(layer, name).data(device).asnumpy()
            np.testing.assert_allclose(got, getattr(plain, name).data().asnumpy(), rtol=2e-5)


sizes = [2 + i for i in range(2 * size)]
data = [random.normal(3 + i, 2, (n, 3, 4)).astype("float32") for i, n in enumerate(sizes)]
heads = [random.uniform(-1, 1, (n, 3, 4)).astype("float32") for n in sizes]
compare(make(SyncBatchNorm, ctx), data, heads, slice(0, 2 * size), own)
compare(make(SyncBatchNorm, ctx, num_devices=2 * size), data, heads, slice(0, 2 * size), own)
# As in 1.x, the devices of this process only.
compare(make(SyncBatchNorm, ctx, num_devices=2), data, heads, own, own)

# Deep networks: layers depend on one another across devices and ranks.
net = nn.HybridSequential(prefix="net_")
plain = nn.HybridSequential(prefix="net_")
for block, kind in ((net, SyncBatchNorm), (plain, nn.BatchNorm)):
    for _ in range(3):
        block.add(nn.Dense(6, in_units=6, activation="tanh"), kind(in_channels=6))
mx.random.seed(4)
net.initialize(mx.init.Xavier(), ctx=ctx)
mx.random.seed(4)
plain.initialize(mx.init.Xavier())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore="dist_sync")
reference = gluon.Trainer(plain.collect_params(), "sgd", {"learning_rate": 0.1})
for _ in range(4):
    parts = random.normal(size=(2 * size, 5, 6)).astype("float32")
    with autograd.record():
        losses = [
            (net(mx.nd.array(x, ctx=device)) ** 3).sum() for x, device in zip(parts[own], ctx)
        ]
        wanted = (plain(mx.nd.array(np.concatenate(parts))) ** 3).sum()
    for loss in losses:
        loss.backward()
    wanted.backward()
    trainer.step(10 * size)
    reference.step(10 * size)
for device in ctx:
    agree([p.data(device) for p in net.collect_params().values()], weights(plain), 1e-3, 1e-4)

with autograd.record():
    layer, words = make(SyncBatchNorm, ctx, num_devices=3), f"must be {2 * size} in training, got 3"
    fails(lambda: layer(mx.nd.ones((2, 3))), words, kind=NotImplementedError)
print("done", rank)
