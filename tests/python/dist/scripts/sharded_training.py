"""A sharded network on data x tensor ranks trains as the whole one on the joined batch."""

import sys
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
import pytest
from mxlite import autograd, gluon
from mxlite.contrib import amp
from mxlite.gluon import HybridBlock, nn

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
    """A column-parallel layer, a row-parallel layer, and whole ones around them."""

    def __init__(self, shard, uneven=False):
        super().__init__(prefix="net_")
        self.shard = shard
        units = 13 if uneven else 12
        options = {"allow_uneven": uneven} if shard else {}

        def place(axis):
            return (axis, tensor) if shard else None

        with self.name_scope():
            self.first = nn.Dense(5, in_units=6, activation="tanh")
            self.last = nn.Dense(3, in_units=4)
            self.w1 = self.params.get("w1_weight", shape=(units, 5), shard=place(0), **options)
            self.b1 = self.params.get(
                "b1_bias", shape=(units,), init="zeros", shard=place(0), **options
            )
            self.w2 = self.params.get("w2_weight", shape=(4, units), shard=place(1), **options)

    def hybrid_forward(self, F, x, w1, b1, w2):
        hidden = self.w1.local_shape[0]
        y = F.FullyConnected(self.first(x), w1, b1, num_hidden=hidden)
        y = F.FullyConnected(F.tanh(y), w2, no_bias=True, num_hidden=4)
        if self.shard:
            y = F.contrib.all_reduce(y, process_set=number)
        return self.last(y)


def make_net(shard, uneven=False):
    mx.random.seed(3)
    net = Net(shard, uneven)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def batch(step, index):
    random = np.random.RandomState(1000 * step + index)
    return random.uniform(-1, 1, (4, 6)), random.uniform(-1, 1, (4, 3))


def train(net, trainer, batch_size, steps, indices):
    for step in steps:
        parts = [batch(step, index) for index in indices]
        x, y = (mx.nd.array(np.concatenate(arrays)) for arrays in zip(*parts))
        with autograd.record():
            loss = ((net(x) - y) ** 2).sum()
        loss.backward()
        trainer.step(batch_size)


def whole(net):
    return {name: p.full_data().asnumpy() for name, p in net.collect_params().items()}


def agree(got, wanted, what):
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=2e-6, err_msg=f"{what} {name}")


options_of = {
    "sgd": {"learning_rate": 0.1, "momentum": 0.9},
    "adam": {"learning_rate": 0.01},
    "lamb": {"learning_rate": 0.05, "wd": 0.01, "clip_gradient": 0.5},
    "lars": {"learning_rate": 2, "momentum": 0.9, "wd": 0.01},
}
for optimizer, options in options_of.items():
    for uneven in (False, True):
        reference = make_net(False, uneven)
        plain = gluon.Trainer(reference.collect_params(), optimizer, dict(options))
        train(reference, plain, 4 * data_size, range(4), range(data_size))
        wanted = whole(reference)
        for kvstore in ("horovod", "dist_sync", "distributed"):
            for zero in (0, 1):
                net = make_net(True, uneven)
                params = net.collect_params()
                if kvstore == "distributed":
                    hvd.broadcast_parameters(params)
                    trainer = hvd.DistributedTrainer(params, optimizer, dict(options), zero=zero)
                    batch_size = 4
                else:
                    trainer = gluon.Trainer(
                        params, optimizer, dict(options), kvstore=kvstore, zero=zero
                    )
                    batch_size = 4 * size
                train(net, trainer, batch_size, range(4), [data_index])
                agree(whole(net), wanted, f"{optimizer} {kvstore} zero={zero} {uneven}")
                # All ranks that hold a block have the same bits.
                digests = hvd.allgather_object(
                    {name: p.data().asnumpy().tobytes() for name, p in params.items()}
                )
                for other in range(tensor_index, size, tensor_size):
                    assert digests[other] == digests[rank]
        # Saved states are whole: one process continues with them.
        states, file = str(folder / f"{optimizer}{uneven}.states"), str(folder / "net.params")
        trainer.save_states(states)
        net.save_parameters(file)
        train(net, trainer, batch_size, range(4, 6), [data_index])
        wanted = whole(net)
        reference = make_net(False, uneven)
        plain = gluon.Trainer(reference.collect_params(), optimizer, dict(options))
        reference.load_parameters(file)
        plain.load_states(states)
        plain._optimizer.rescale_grad = 1.0
        train(reference, plain, 4 * data_size, range(4, 6), range(data_size))
        agree(whole(reference), wanted, f"{optimizer} continues in one process")
        again = make_net(True, uneven)
        again.load_parameters(file)
        other = gluon.Trainer(
            again.collect_params(), optimizer, dict(options), kvstore="horovod", zero=1
        )
        other.load_states(states)
        train(again, other, 4 * size, range(4, 6), [data_index])
        agree(whole(again), wanted, f"{optimizer} continues sharded")

# LBSGD compares norms with gradients that are not divided by the batch size: the loss is scaled, so
# that they are those of one process.
for uneven in (False, True):
    results = []
    for shard, zero in ((False, 0), (True, 0), (True, 1)):
        net = make_net(shard, uneven)
        lbsgd = {"learning_rate": 0.05, "momentum": 0.9, "warmup_strategy": "lars", "wd": 0.01}
        kvstore = "horovod" if shard else "device"
        trainer = gluon.Trainer(net.collect_params(), "lbsgd", lbsgd, kvstore=kvstore, zero=zero)
        for step in range(4):
            parts = [batch(step, i) for i in ([data_index] if shard else range(data_size))]
            x, y = (mx.nd.array(np.concatenate(arrays)) for arrays in zip(*parts))
            with autograd.record():
                loss = ((net(x) - y) ** 2).sum() / (tensor_size if shard else 1)
            loss.backward()
            trainer.step(4 * data_size)
        results.append(whole(net))
    for zero, got in enumerate(results[1:]):
        agree(got, results[0], f"lbsgd zero={zero} {uneven}")


class Rows(HybridBlock):
    """A network of matrices, which GroupAdaGrad takes: divided by rows, by columns, and whole."""

    def __init__(self, shard, uneven):
        super().__init__(prefix="rows_")
        units = 13 if uneven else 12
        options = {"allow_uneven": uneven} if shard else {}

        def place(axis):
            return (axis, tensor) if shard else None

        self.shard = shard
        with self.name_scope():
            self.w1 = self.params.get("w1_weight", shape=(units, 6), shard=place(-2), **options)
            self.w2 = self.params.get("w2_weight", shape=(4, units), shard=place(1), **options)
            self.w3 = self.params.get("w3_weight", shape=(3, 4))

    def hybrid_forward(self, F, x, w1, w2, w3):
        hidden = self.w1.local_shape[0]
        y = F.tanh(F.FullyConnected(x, w1, no_bias=True, num_hidden=hidden))
        y = F.FullyConnected(y, w2, no_bias=True, num_hidden=4)
        if self.shard:
            y = F.contrib.all_reduce(y, process_set=number)
        return F.FullyConnected(F.tanh(y), w3, no_bias=True, num_hidden=3)


def rows_net(shard, uneven):
    mx.random.seed(5)
    net = Rows(shard, uneven)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


# The means of squares are those of whole rows.
for uneven in (False, True):
    reference = rows_net(False, uneven)
    group_adagrad = {"learning_rate": 0.1, "clip_gradient": 0.5}
    plain = gluon.Trainer(reference.collect_params(), "groupadagrad", dict(group_adagrad))
    train(reference, plain, 4 * data_size, range(4), range(data_size))
    wanted = whole(reference)
    for zero in (0, 1):
        net = rows_net(True, uneven)
        trainer = gluon.Trainer(
            net.collect_params(), "groupadagrad", dict(group_adagrad), "horovod", zero=zero
        )
        train(net, trainer, 4 * size, range(4), [data_index])
        agree(whole(net), wanted, f"groupadagrad zero={zero} {uneven}")
        states = str(folder / f"rows{uneven}{zero}.states")
        trainer.save_states(states)
        train(net, trainer, 4 * size, range(4, 6), [data_index])
        again = rows_net(False, uneven)  # one process continues with the states
        plain = gluon.Trainer(again.collect_params(), "groupadagrad", dict(group_adagrad))
        for name, param in again.collect_params().items():
            param.set_data(mx.nd.array(wanted[name]))
        plain.load_states(states)
        train(again, plain, 4 * data_size, range(4, 6), range(data_size))
        agree(whole(again), whole(net), f"groupadagrad continues zero={zero} {uneven}")
        other = rows_net(True, uneven)
        divided = gluon.Trainer(
            other.collect_params(), "groupadagrad", dict(group_adagrad), "horovod", zero=1 - zero
        )
        for param in other.collect_params().values():
            param.set_data(mx.nd.array(wanted[param.name]))
        divided.load_states(states)
        train(other, divided, 4 * size, range(4, 6), [data_index])
        agree(whole(other), whole(net), f"groupadagrad continues sharded zero={zero} {uneven}")


def train_halves(net, trainer, steps):
    for step in steps:
        x, y = (mx.nd.array(array, dtype="float16") for array in batch(step, data_index))
        with autograd.record():
            loss = ((net(x) - y) ** 2).sum()
        loss.backward()
        trainer.step(4 * size)


def halves(net):
    options = {"learning_rate": 0.1, "multi_precision": True}
    net.cast("float16")
    return gluon.Trainer(net.collect_params(), "groupadagrad", options, "horovod")


# Halves keep float32 copies of the weights beside the states of their rows.
for uneven in (False, True):
    net = rows_net(True, uneven)
    trainer = halves(net)
    train_halves(net, trainer, range(3))
    before = whole(net)
    states = str(folder / f"halves{uneven}.states")
    trainer.save_states(states)
    train_halves(net, trainer, range(3, 5))
    again = rows_net(True, uneven)
    trainer = halves(again)
    for param in again.collect_params().values():
        param.set_data(mx.nd.array(before[param.name], dtype="float16"))
    trainer.load_states(states)
    train_halves(again, trainer, range(3, 5))
    after = whole(again)
    for name, value in whole(net).items():
        np.testing.assert_array_equal(after[name], value)
        assert (value != before[name]).any()

# Norms of whole parameters in other precisions: bounds, float32 copies, frozen and bare halves.
for dtype, options, limit in (
    ("float32", {"lower_bound": 0.5, "upper_bound": 0.9, "bias_correction": False}, 2e-5),
    ("float64", {}, 2e-6),
    ("float16", {"multi_precision": True}, 4e-3),
):
    results = []
    for shard in (False, True):
        net = make_net(shard)
        net.cast(dtype)
        kvstore = "horovod" if shard else "device"
        lamb = {"learning_rate": 0.05, **options}
        trainer = gluon.Trainer(net.collect_params(), "lamb", lamb, kvstore)
        for step in range(3):
            parts = [batch(step, i) for i in ([data_index] if shard else range(data_size))]
            x, y = (mx.nd.array(np.concatenate(arrays), dtype=dtype) for arrays in zip(*parts))
            with autograd.record():
                loss = ((net(x) - y) ** 2).sum()
            loss.backward()
            trainer.step(4 * size if shard else 4 * data_size)
        results.append(whole(net))
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=limit, atol=limit)

# The norm of all gradients counts every block once.
for scale in (0.01, 100.0):
    results = []
    for shard in (False, True):
        net = make_net(shard)
        kvstore = "horovod" if shard else "device"
        trainer = gluon.Trainer(
            net.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore, clip_global_norm=scale
        )
        batch_size = 4 * size if shard else 4 * data_size
        indices = [data_index] if shard else range(data_size)
        train(net, trainer, batch_size, range(2), indices)
        results.append(whole(net))
    agree(results[1], results[0], f"clip_global_norm={scale}")

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
    trainer = gluon.Trainer(net.collect_params(), optimizer, kvstore="horovod")
    amp.init_trainer(trainer)
    before = whole(net)
    train(net, Poisoned, 4 * size, range(1), [data_index])
    trainer._settle()
    after = whole(net)
    assert all((after[name] == before[name]).all() for name in before)
    assert trainer.optimizer.num_update == 0
    train(net, trainer, 4 * size, range(1), [data_index])
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

    with pytest.raises(NotImplementedError, match="OwnRows needs whole arrays"):
        gluon.Trainer(params, OwnRows(), kvstore="horovod")._ready()

    class Own(mx.optimizer.LAMB):
        """May compute something else from the norms."""

    with pytest.raises(NotImplementedError, match="Own needs whole arrays"):
        gluon.Trainer(params, Own(), kvstore="horovod")._ready()
    wrapped = hvd.DistributedOptimizer(mx.optimizer.create("sgd"))
    with pytest.raises(NotImplementedError, match="DistributedOptimizer needs whole arrays"):
        gluon.Trainer(params, wrapped)._ready()
    with pytest.raises(ValueError, match="some are sharded; use update_on_kvstore=False"):
        gluon.Trainer(params, "sgd", kvstore="dist_sync", update_on_kvstore=True)._ready()
print("done", rank)
