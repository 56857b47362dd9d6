"""Trainers whose options differ between ranks: errors on every rank, and the job continues."""

import sys

import mxlite as mx
import mxlite.horovod as hvd
from mxlite import autograd, gluon
from rank_checks import equal, fails, in_step, weights

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
    made = gluon.Trainer(net.collect_params(), optimizer, options, kvstore=kvstore, **trainer)
    if change is not None:
        change(made)
    backward(net)
    before = weights(net)
    words = ("the ranks disagree about how to update", *words)
    fails(lambda: made.step(batch), *words, kind=ValueError, seconds=10, after=in_step)
    equal(weights(net), before)


others = "rank 0" if size == 2 else "ranks 0, 2"
both = f" on {others} and "
on_workers = {"update_on_kvstore": False}
schedule = mx.lr_scheduler.FactorScheduler(7, 0.5)
# Options of rank 1, options of the other ranks, and parts of the error.
for mine, theirs, *words in (
    ({"optimizer": "adam"}, {}, f"optimizer is SGD{both}Adam on rank 1"),
    (
        {"options": {"learning_rate": 0.2, "momentum": 0.9}},
        {"options": {"learning_rate": 0.1}},
        f"learning_rate is 0.1{both}0.2 on rank 1",
        f"momentum is 0{both}0.9 on rank 1",
    ),
    ({"options": {"wd": 1e-3}}, {}, f"wd is 0{both}0.001 on rank 1"),
    ({"options": {"lr_scheduler": schedule}}, {}, f"None{both}FactorScheduler(", "step=7"),
    ({"clip_global_norm": 2.0, **on_workers}, on_workers, f"clip_global_norm is None{both}2 on"),
    (
        {"options": {"momentum": 0.9}, "zero": 1, **on_workers},
        {"options": {"momentum": 0.9}, **on_workers},
        f"zero is 0{both}1 on rank 1",
    ),
    ({"batch": 4}, {"batch": 2}, f"rescale_grad (1 / batch size) is 0.5{both}0.25 on rank 1"),
):
    disagrees(*words, **(mine if odd else theirs))
beta1 = {"beta1": 0.8 if odd else 0.9}
disagrees(f"beta1 is 0.9{both}0.8 on rank 1", optimizer="adam", options=beta1)


def scale_one(trainer):
    if odd:
        trainer._params[1].lr_mult = 3.0


def count_steps(trainer):
    if odd:
        trainer.optimizer.num_update = 12


disagrees(f"lr_mult of parameter 1 is not set{both}3 on rank 1", change=scale_one)
disagrees(f"num_update is 0{both}12 on rank 1", change=count_steps)
if kvstore == "horovod":  # without sharding on a rank, nothing else compares the layouts
    text = f"positions of sharded parameters is none{both}2 (axis 0, {size} shards), 3 (axis 0"
    nets = network(), network(sharded=True)  # all ranks initialize both
    disagrees(text, net=nets[odd], **on_workers)


class Printing(mx.lr_scheduler.FactorScheduler):
    """A scheduler with an attribute that differs between ranks."""

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
for other in hvd.allgather_object(weights(net)):
    equal(other, weights(net))
print("done", rank)
