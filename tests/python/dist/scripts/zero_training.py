"""Trainers whose optimizer states are divided give the bits of trainers with all states."""

import functools
import sys
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.contrib import amp
from mxlite.gluon import nn
from rank_checks import equal, fails

folder = Path(sys.argv[1])
size = int(sys.argv[2])
first_two = hvd.ProcessSet([0, 1])
hvd.init(process_sets=[first_two] if size > 2 else [])
rank = hvd.rank()


def make_net(dtype="float32", contexts=None):
    mx.random.seed(3)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(17, in_units=6, activation="tanh"), nn.Dense(33, in_units=17))
        net.add(nn.Dense(3, in_units=33))
    net.initialize(mx.init.Xavier(), ctx=contexts or mx.cpu())
    net.cast(dtype)
    net.hybridize()
    return net


def batch(step, index=rank):
    random = np.random.RandomState(1000 * step + index)
    return random.uniform(-1, 1, (4, 6)), random.uniform(-1, 1, (4, 3))


def train(net, trainer, steps, scale=1.0):
    dtype = next(iter(net.collect_params().values())).dtype
    contexts = next(iter(net.collect_params().values())).list_ctx()
    for step in steps:
        losses = []
        with autograd.record():
            for number, ctx in enumerate(contexts):
                x, y = (mx.nd.array(a, ctx=ctx, dtype=dtype) for a in batch(step, rank + number))
                losses.append(((net(x) - y) ** 2).sum())
        autograd.backward(losses)
        trainer.step(scale * 4 * size * len(contexts))


def weights(net):
    return [p.data(p.list_ctx()[-1]).asnumpy() for p in net.collect_params().values()]


def make_trainer(net, optimizer, options, kvstore, **other):
    params = net.collect_params()
    if kvstore == "distributed":
        hvd.broadcast_parameters(params)
        return hvd.DistributedTrainer(params, optimizer, dict(options), **other)
    return gluon.Trainer(params, optimizer, dict(options), kvstore=kvstore, **other)


RUNS = [
    ("sgd", {"learning_rate": 0.1}, {}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}, {"clip_global_norm": 0.1}),
    ("adam", {"learning_rate": 0.01}, {}),
    ("adam", {"learning_rate": 0.01}, {"clip_global_norm": 0.05}),
    ("adamw", {"learning_rate": 0.01, "wd": 0.1}, {}),
    ("lamb", {"learning_rate": 0.01}, {}),
    ("lars", {"learning_rate": 0.1, "momentum": 0.9}, {}),
    ("lbsgd", {"learning_rate": 0.1, "momentum": 0.9, "warmup_strategy": "lars"}, {}),
    ("rmsprop", {"learning_rate": 0.01, "centered": True}, {}),
    ("adagrad", {"learning_rate": 0.1}, {}),
    ("ftrl", {"learning_rate": 0.1}, {}),
    ("signum", {"learning_rate": 0.01}, {}),
]
for number, (optimizer, options, other) in enumerate(RUNS):
    kvstores = ("horovod", "dist_sync") if number < 3 else ("horovod",)
    if not other:
        kvstores += ("distributed",)
    for kvstore in kvstores:
        results = []
        for zero in (0, 1):
            net = make_net()
            update = {} if kvstore == "distributed" else {"update_on_kvstore": False}
            trainer = make_trainer(net, optimizer, options, kvstore, zero=zero, **update, **other)
            train(net, trainer, range(4))
            results.append(weights(net))
            states = trainer._updaters[0].states
            counts = trainer.optimizer.num_update
            assert counts == 4, counts
            if zero and size > 1:
                assert 0 < len(states) < 6, sorted(states)
        equal(results[1], results[0], f"{optimizer} {kvstore} {options}")

# Half precision with float32 copies, schedules, and several contexts of a process.
for dtype, contexts in (("float16", None), ("float32", [mx.cpu(0), mx.cpu(1)])):
    results = []
    for zero in (0, 1):
        net = make_net(dtype, contexts)
        schedule = mx.lr_scheduler.FactorScheduler(1, 0.7, base_lr=0.02)
        options = {"multi_precision": True, "learning_rate": 0.02, "lr_scheduler": schedule}
        trainer = make_trainer(net, "adam", options, "horovod", zero=zero, update_on_kvstore=False)
        train(net, trainer, range(4))
        results.append(weights(net))
    equal(results[1], results[0], dtype)

# States are saved whole: loaded into any trainer they continue with the same bits.
for optimizer, options in (("adam", {"learning_rate": 0.01}), ("lars", {"momentum": 0.9})):
    whole = make_net()
    reference = make_trainer(whole, optimizer, options, "horovod")
    train(whole, reference, range(6))
    net = make_net()
    trainer = make_trainer(net, optimizer, options, "horovod", zero=1)
    train(net, trainer, range(3))
    path, params = str(folder / f"{optimizer}.states"), str(folder / f"{optimizer}.params")
    trainer.save_states(path)
    net.save_parameters(params)
    kept = trainer.state_dict()
    for zero in (0, 1):
        for source in ("file", "dict"):
            again = make_net()
            again.load_parameters(params)
            other = make_trainer(again, optimizer, options, "horovod", zero=zero)
            if source == "file":
                other.load_states(path)
            else:
                other.load_state_dict(kept)
            if size > 1:
                assert (len(other._updaters[0].states) < 6) == bool(zero)
            train(again, other, range(3, 6))
            equal(weights(again), weights(whole), f"{optimizer} from {source}, zero={zero}")

# States that were loaded for a frozen parameter are those of its owner once it is trained.
kept = []
for zero in (0, 1):
    net = make_net()
    trainer = make_trainer(net, "sgd", {"momentum": 0.9}, "horovod", zero=zero)
    train(net, trainer, range(3))
    states = trainer.state_dict()
    trainer = make_trainer(net, "sgd", {"momentum": 0.9}, "horovod", zero=zero)
    first = next(iter(net.collect_params().values()))
    first.grad_req = "null"
    trainer.load_state_dict(states)
    train(net, trainer, range(3, 5))
    first.grad_req = "write"
    train(net, trainer, range(5, 8))
    states = trainer.state_dict()["contexts"][0]["states"]
    kept.append([*weights(net), *(states[i].asnumpy() for i in sorted(states))])
equal(kept[1], kept[0], "frozen parameter")

# States of another number of ranks: rank 0 trains alone with the file of all ranks.
earlier = folder / "earlier"
if earlier.exists():
    results = []
    for zero in (1, 0):
        net = make_net()
        trainer = make_trainer(net, "adam", {"learning_rate": 0.01}, "horovod", zero=zero)
        net.load_parameters(str(earlier / "adam.params"))
        trainer.load_states(str(earlier / "adam.states"))
        assert trainer.optimizer.num_update == 3
        train(net, trainer, range(3, 4))
        results.append(weights(net))
        trainer.save_states(str(folder / f"again{zero}.states"))
    equal(*results, "states of another number of ranks")
    again = [(folder / f"again{zero}.states").read_bytes() for zero in (0, 1)]
    assert again[0] == again[1]

# A loss scale that overflows skips the step on all ranks.
amp.init()
results = []
for zero in (0, 1):
    net = make_net("float16")
    options = {"multi_precision": True, "learning_rate": 0.01}
    trainer = make_trainer(net, "adam", options, "horovod", zero=zero, update_on_kvstore=False)
    amp.init_trainer(trainer)
    for step in range(4):
        x, y = (mx.nd.array(a, dtype="float16") for a in batch(step))
        with autograd.record():
            loss = ((net(x) - y) ** 2).sum() * (1e4 if step == 1 and rank == 0 else 1)
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(4 * size)
    trainer._settle()
    assert trainer.optimizer.num_update < 4
    results.append(weights(net))
equal(results[1], results[0], "loss scale")

# A trainer over all ranks follows one over some: ranks have made different numbers of trainers.
if size > 2:
    results = []
    for zero in (0, 1):
        some, net = make_net(), make_net()
        trainer = hvd.DistributedTrainer(
            some.collect_params(), "adam", process_set=first_two, zero=zero
        )
        train(some, trainer, range(2))
        train(net, make_trainer(net, "adam", {}, "distributed", zero=zero), range(2))
        results.append(weights(some) + weights(net))
    equal(results[1], results[0], "trainers over different ranks")

# Mistakes.
net = make_net()
params = net.collect_params()
for options, kind, words in (
    ({"zero": 2}, ValueError, "zero must be 0 "),
    ({"zero": "1"}, TypeError, "zero must be an integer, got '1'"),
    ({"zero": 1, "update_on_kvstore": True}, ValueError, "use update_on_kvstore=False"),
    ({"zero": 1, "optimizer": "nadam"}, NotImplementedError, "states of Nadam"),
    ({"zero": 1, "optimizer": "sgld"}, NotImplementedError, "states of SGLD"),
):
    options = {"optimizer": "adam", "kvstore": "horovod", **options}
    fails(functools.partial(gluon.Trainer, params, **options), words, kind=kind)
if size > 1:
    fails(gluon.Trainer(params, "adam", zero=1)._ready, "use kvstore='dist_sync'", kind=ValueError)
print("done", rank)
