"""Trainers whose options differ between ranks: errors on every rank, and the job continues."""

import sys
import time

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import autograd, gluon

kvstore = sys.argv[1]
hvd.init()
rank, size = hvd.rank(), hvd.size()
odd = rank == 1


def network(sharded=False):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.Dense(2 * size, in_units=4))
    if sharded:
        net[1].weight.shard = (0, None)
        net[1].bias.shard = (0, None)
    mx.random.seed(5)
    net.initialize()
    return net


def backward(net):
    with autograd.record():
        x = net[0](mx.nd.ones((2, 3)) * (rank + 1))
        loss = sum((p.data() * p.data()).sum() for p in net[1].collect_params().values())
        loss = loss + (x * x).sum()
    loss.backward()


def disagrees(*words, optimizer="sgd", options=None, net=None, change=None, batch=1, **trainer):
    """Check the error of a first step; the job then continues."""
    net = net or network()
    # The same names of parameters on all ranks.
    made = gluon.Trainer(net.collect_params(), optimizer, options, kvstore=kvstore, **trainer)
    if change is not None:
        change(made)
    backward(net)
    before = [param.data().asnumpy() for param in net.collect_params().values()]
    begin = time.monotonic()
    with pytest.raises(ValueError, match="the ranks disagree about how to update") as caught:
        made.step(batch)
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))
    assert time.monotonic() - begin < 10
    for param, value in zip(net.collect_params().values(), before):
        np.testing.assert_array_equal(param.data().asnumpy(), value)
    total = hvd.allreduce(mx.nd.ones((2,)), op=hvd.Sum)
    np.testing.assert_array_equal(total.asnumpy(), size)


others = "rank 0" if size == 2 else "ranks 0, 2"
both = f" on {others} and "
disagrees(
    f"optimizer is 'SGD'{both}'Adam' on rank 1".replace("'", ""), optimizer="adam" if odd else "sgd"
)
disagrees(
    f"learning_rate is 0.1{both}0.2 on rank 1",
    f"momentum is 0{both}0.9 on rank 1",
    options={"learning_rate": 0.2, "momentum": 0.9} if odd else {"learning_rate": 0.1},
)
disagrees(f"wd is 0{both}0.001 on rank 1", options={"wd": 1e-3 if odd else 0})
disagrees(
    f"beta1 is 0.9{both}0.8 on rank 1", optimizer="adam", options={"beta1": 0.8 if odd else 0.9}
)
disagrees(
    f"lr_scheduler is None{both}FactorScheduler(",
    "step=7",
    options={"lr_scheduler": mx.lr_scheduler.FactorScheduler(7, 0.5)} if odd else None,
)
disagrees(
    f"clip_global_norm is None{both}2 on rank 1",
    clip_global_norm=2.0 if odd else None,
    update_on_kvstore=False,
)
disagrees(
    f"zero is 0{both}1 on rank 1",
    options={"momentum": 0.9},
    zero=int(odd),
    update_on_kvstore=False,
)
disagrees(f"rescale_grad (1 / batch size) is 0.5{both}0.25 on rank 1", batch=4 if odd else 2)


def scale_one(trainer):
    if odd:
        trainer._params[1].lr_mult = 3.0


disagrees(f"lr_mult of parameter 1 is not set{both}3 on rank 1", change=scale_one)


def count_steps(trainer):
    if odd:
        trainer.optimizer.num_update = 12


disagrees(f"num_update is 0{both}12 on rank 1", change=count_steps)
if kvstore == "horovod":  # without sharding on a rank, nothing else compares the layouts
    text = f"positions of sharded parameters is none{both}2 (axis 0, {size} shards), 3 (axis 0"
    sharded = network(sharded=True)
    plain = network()
    disagrees(text, net=sharded if odd else plain, update_on_kvstore=False)


class Printing(mx.lr_scheduler.FactorScheduler):
    """A scheduler that keeps what differs between ranks."""

    def __init__(self, *args, verbose, **kwargs):
        super().__init__(*args, **kwargs)
        self.verbose = verbose


# Ranks that agree, among them numbers of other types, train the same weights. One rank reads the
# learning rate, which changes its scheduler.
net = network()
rate = 1 if odd else 1.0
options = {
    "learning_rate": rate,
    "momentum": 0.9,
    "begin_num_update": 100,
    "lr_scheduler": Printing(30, 0.5, base_lr=1, verbose=odd),
}
trainer = gluon.Trainer(net.collect_params(), "sgd", options, kvstore=kvstore)
if odd:
    assert trainer.learning_rate < 1
for _ in range(2):
    backward(net)
    trainer.step(size)
weights = np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])
all_weights = hvd.allgather(mx.nd.array(weights[None])).asnumpy()
np.testing.assert_array_equal(all_weights, np.broadcast_to(weights, all_weights.shape))
print("done", rank)
