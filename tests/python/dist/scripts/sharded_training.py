"""A sharded network on data x tensor ranks trains as the whole one on the joined batch."""

import itertools
import sys
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.contrib import amp
from mxlite.gluon import HybridBlock, nn
from rank_checks import fails

folder, tensor_size = Path(sys.argv[1]), int(sys.argv[2])
count = int(sys.argv[3])
data_size = count // tensor_size
tensor_sets = [
    hvd.ProcessSet(range(d * tensor_size, (d + 1) * tensor_size)) for d in range(data_size)
]
data_sets = [hvd.ProcessSet(range(t, count, tensor_size)) for t in range(tensor_size)]
given = [s for s in tensor_sets + data_sets if len(s.ranks) < count]
hvd.init(process_sets=given)
rank, size = hvd.rank(), hvd.size()
assert size == count
data_index, tensor_index = divmod(rank, tensor_size)
tensor = tensor_sets[data_index] if tensor_size < count else hvd.global_process_set
number = tensor.process_set_id


class Net(HybridBlock):
    """Parameters that are divided by rows and by columns, and others; matrices only if asked.

    GroupAdaGrad takes matrices only.
    """

    def __init__(self, shard, uneven=False, matrices=False):
        super().__init__(prefix="net_")
        self.shard, self.matrices = shard, matrices
        units = 13 if uneven else 12

        def get(name, shape, axis, **options):
            if shard:
                options.update(shard=(axis, tensor), allow_uneven=uneven)
            return self.params.get(name, shape=shape, **options)

        with self.name_scope():
            self.last = nn.Dense(3, in_units=4, use_bias=not matrices)
            self.w2 = get("w2_weight", (4, units), 1)
            if matrices:
                self.w1 = get("w1_weight", (units, 6), -2)
            else:
                self.first = nn.Dense(5, in_units=6, activation="tanh")
                self.w1 = get("w1_weight", (units, 5), 0)
                self.b1 = get("b1_bias", (units,), 0, init="zeros")

    def hybrid_forward(self, F, x, w1, w2, b1=None):
        hidden = self.w1.local_shape[0]
        if self.matrices:
            y = F.FullyConnected(x, w1, no_bias=True, num_hidden=hidden)
        else:
            y = F.FullyConnected(self.first(x), w1, b1, num_hidden=hidden)
        y = F.FullyConnected(F.tanh(y), w2, no_bias=True, num_hidden=4)
        if self.shard:
            y = F.contrib.all_reduce(y, process_set=number)
        return self.last(F.tanh(y) if self.matrices else y)


def make_net(shard, uneven=False, matrices=False, dtype="float32"):
    mx.random.seed(3)
    net = Net(shard, uneven, matrices)
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    net.hybridize()
    return net


def make_trainer(net, optimizer, options, kvstore="horovod", **more):
    """Return a trainer; that of a whole network sums over no other rank."""
    params, kvstore = net.collect_params(), kvstore if net.shard else "device"
    if kvstore == "distributed":
        hvd.broadcast_parameters(params)
        return hvd.DistributedTrainer(params, optimizer, dict(options), **more)
    return gluon.Trainer(params, optimizer, dict(options), kvstore=kvstore, **more)


def batch(step, index):
    random = np.random.RandomState(1000 * step + index)
    return random.uniform(-1, 1, (4, 6)), random.uniform(-1, 1, (4, 3))


def train(net, trainer, steps, batch_size=None, divisor=1):
    """Train with the batch of this rank, or with those of all ranks if the network is whole."""
    dtype = net.w1.dtype
    batch_size = batch_size or 4 * (size if net.shard else data_size)
    for step in steps:
        parts = [batch(step, i) for i in ([data_index] if net.shard else range(data_size))]
        x, y = (mx.nd.array(np.concatenate(arrays), dtype=dtype) for arrays in zip(*parts))
        with autograd.record():
            loss = ((net(x) - y) ** 2).sum() / divisor
        loss.backward()
        trainer.step(batch_size)


def whole(net):
    return {name: p.full_data().asnumpy() for name, p in net.collect_params().items()}


def same(got, wanted, what, rtol=2e-5, atol=2e-6):
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol, atol, err_msg=f"{what} {name}")


def continued(shard, states, values, optimizer, options, uneven, **more):
    """Return what a trainer makes of saved states and values in two more steps."""
    net = make_net(shard, uneven, optimizer == "groupadagrad")
    trainer = make_trainer(net, optimizer, options, **more)
    for name, param in net.collect_params().items():
        param.set_data(mx.nd.array(values[name]))
    trainer.load_states(states)
    if not shard:
        trainer._optimizer.rescale_grad = 1.0
    train(net, trainer, range(4, 6))
    return whole(net)


RUNS = [
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9}),
    ("adam", {"learning_rate": 0.01}),
    ("lamb", {"learning_rate": 0.05, "wd": 0.01, "clip_gradient": 0.5}),
    ("lars", {"learning_rate": 2, "momentum": 0.9, "wd": 0.01}),
    ("groupadagrad", {"learning_rate": 0.1, "clip_gradient": 0.5}),  # means of whole rows
]
for (optimizer, options), uneven in itertools.product(RUNS, (False, True)):
    matrices = optimizer == "groupadagrad"
    reference = make_net(False, uneven, matrices)
    train(reference, make_trainer(reference, optimizer, options), range(4))
    wanted = whole(reference)
    kvstores = ("horovod",) if matrices else ("dist_sync", "distributed", "horovod")
    for kvstore, zero in itertools.product(kvstores, (0, 1)):
        what = f"{optimizer} {kvstore} zero={zero} {uneven}"
        net = make_net(True, uneven, matrices)
        trainer = make_trainer(net, optimizer, options, kvstore, zero=zero)
        train(net, trainer, range(4), 4 if kvstore == "distributed" else None)
        same(whole(net), wanted, what)
        # All ranks with the same block have the same bits.
        params = net.collect_params().items()
        digests = hvd.allgather_object({n: p.data().asnumpy().tobytes() for n, p in params})
        for other in range(tensor_index, size, tensor_size):
            assert digests[other] == digests[rank]
        if kvstore != "horovod":
            continue
        # Saved states are whole: one process continues with them, and trainers of either kind.
        states, values = str(folder / f"{optimizer}{uneven}{zero}.states"), whole(net)
        trainer.save_states(states)
        train(net, trainer, range(4, 6))
        run = (states, values, optimizer, options, uneven)
        same(continued(False, *run), whole(net), f"{what} continues in one process")
        same(continued(True, *run, zero=1 - zero), whole(net), f"{what} continues sharded")

# LBSGD compares norms with gradients that are not divided by the batch size: the loss is scaled, so
# that they are those of one process.
lbsgd = {"learning_rate": 0.05, "momentum": 0.9, "warmup_strategy": "lars", "wd": 0.01}
for uneven in (False, True):
    results = []
    for shard, zero in ((False, 0), (True, 0), (True, 1)):
        net = make_net(shard, uneven)
        trainer = make_trainer(net, "lbsgd", lbsgd, zero=zero)
        train(net, trainer, range(4), 4 * data_size, tensor_size if shard else 1)
        results.append(whole(net))
    for zero, got in enumerate(results[1:]):
        same(got, results[0], f"lbsgd zero={zero} {uneven}")

# Halves keep float32 copies of the weights beside the states of their rows.
halves = {"learning_rate": 0.1, "multi_precision": True}
for uneven in (False, True):
    net, again = (make_net(True, uneven, True, "float16") for _ in range(2))
    trainer = make_trainer(net, "groupadagrad", halves)
    train(net, trainer, range(3))
    before = whole(net)
    states = str(folder / f"halves{uneven}.states")
    trainer.save_states(states)
    train(net, trainer, range(3, 5))
    trainer = make_trainer(again, "groupadagrad", halves)
    for param in again.collect_params().values():
        param.set_data(mx.nd.array(before[param.name], dtype="float16"))
    trainer.load_states(states)
    train(again, trainer, range(3, 5))
    after = whole(again)
    for name, value in whole(net).items():
        np.testing.assert_array_equal(after[name], value)
        assert (value != before[name]).any()

# Norms of whole parameters in other precisions (bounds, float32 copies, frozen and bare halves),
# and the norm of all gradients, which counts every block once.
bounds = {"lower_bound": 0.5, "upper_bound": 0.9, "bias_correction": False}
for dtype, optimizer, options, more, rtol, atol in (
    ("float32", "lamb", {"learning_rate": 0.05, **bounds}, {}, 2e-5, 2e-5),
    ("float64", "lamb", {"learning_rate": 0.05}, {}, 2e-6, 2e-6),
    ("float16", "lamb", {"learning_rate": 0.05, "multi_precision": True}, {}, 4e-3, 4e-3),
    ("float32", "sgd", {"learning_rate": 0.5}, {"clip_global_norm": 0.01}, 2e-5, 2e-6),
    ("float32", "sgd", {"learning_rate": 0.5}, {"clip_global_norm": 100.0}, 2e-5, 2e-6),
):
    results = []
    for shard in (False, True):
        net = make_net(shard, dtype=dtype)
        train(net, make_trainer(net, optimizer, options, **more), range(3))
        results.append(whole(net))
    same(results[1], results[0], f"{optimizer} {dtype} {more}", rtol, atol)

# An overflow in the block of one rank skips the step on all ranks.
amp.init()


class Poisoned:
    """Steps of the trainer with an infinite gradient on one rank."""

    @staticmethod
    def step(batch_size):
        if rank == size - 1:
            net.w1.grad()[:] = np.inf
        trainer.step(batch_size)


for optimizer in ("adam", "lamb"):
    net = make_net(True)
    trainer = make_trainer(net, optimizer, {})
    amp.init_trainer(trainer)
    before = whole(net)
    train(net, Poisoned, range(1))
    trainer._settle()
    after = whole(net)
    assert all((after[name] == before[name]).all() for name in before)
    assert trainer.optimizer.num_update == 0
    train(net, trainer, range(1))
    trainer._settle()
    assert trainer.optimizer.num_update == 1
    assert all((value != before[name]).any() for name, value in whole(net).items())

# Mistakes.
if tensor_size > 1:
    net = make_net(True)
    params = net.collect_params()

    class OwnRows(mx.optimizer.contrib.GroupAdaGrad):
        """May compute something else from the rows."""

        def update(self, index, weight, grad, state):
            super().update(index, weight, grad, state)

    class Own(mx.optimizer.LAMB):
        """May compute something else from the norms."""

    wrapped = hvd.DistributedOptimizer(mx.optimizer.create("sgd"))
    for optimizer, kvstore, kind, words, more in (
        (OwnRows(), "horovod", NotImplementedError, "OwnRows needs whole arrays", {}),
        (Own(), "horovod", NotImplementedError, "Own needs whole arrays", {}),
        (wrapped, "device", NotImplementedError, "DistributedOptimizer needs whole arrays", {}),
        (
            "sgd",
            "dist_sync",
            ValueError,
            "some are sharded; use update_on_kvstore=False",
            {"update_on_kvstore": True},
        ),
    ):
        trainer = gluon.Trainer(params, optimizer, kvstore=kvstore, **more)
        fails(trainer._ready, words, kind=kind)
print("done", rank)
