"""Sharded parameters hold the blocks of the array that one process would have."""

import resource
import sys
from pathlib import Path

import mxlite as mx
import mxlite.horovod as hvd
import numpy as np
from mxlite import autograd, gluon
from mxlite.checkpoint.objects import prepare
from mxlite.checkpoint.objects import state_of as checkpoint_state
from mxlite.gluon import HybridBlock
from rank_checks import agree

folder = Path(sys.argv[1])
hvd.init()
rank, size = hvd.rank(), hvd.size()


def bounds(extent, count=size, index=rank):
    edges = np.cumsum([0] + [extent // count + (i < extent % count) for i in range(count)])
    return slice(edges[index], edges[index + 1])


def block(whole, axis):
    return whole[(slice(None),) * (axis % whole.ndim) + (bounds(whole.shape[axis]),)]


def drawn(shape, init, dtype="float32"):
    mx.random.seed(11)
    np.random.seed(11)
    param = gluon.Parameter("a_weight", shape=shape, init=init, dtype=dtype)
    param.initialize()
    return param.data().asnumpy(), mx.nd.random.uniform(shape=(3,)).asnumpy()


# Each rank holds its slice of what one process draws, and later random numbers are the same.
for init in (mx.init.Uniform(), mx.init.Normal(), mx.init.Xavier(), mx.init.Orthogonal(), "zeros"):
    for axis in (0, 1, -1):
        for dtype in ("float32", "float16", "float64"):
            whole, after = drawn((12, 24), init, dtype)
            mx.random.seed(11)
            np.random.seed(11)
            param = gluon.Parameter(
                "a_weight", shape=(12, 24), init=init, dtype=dtype, shard=(axis, None)
            )
            param.initialize()
            assert param.shape == (12, 24) and param.local_shape == block(whole, axis).shape
            np.testing.assert_array_equal(param.data().asnumpy(), block(whole, axis))
            np.testing.assert_array_equal(param.full_data().asnumpy(), whole)
            np.testing.assert_array_equal(mx.nd.random.uniform(shape=(3,)).asnumpy(), after)

# Uneven blocks: the first ranks have one index more.
whole, _ = drawn((7, 5), mx.init.Normal())
mx.random.seed(11)
uneven = gluon.Parameter(
    "a_weight", shape=(7, 5), init=mx.init.Normal(), shard=(0, 0), allow_uneven=True
)
uneven.initialize()
np.testing.assert_array_equal(uneven.data().asnumpy(), block(whole, 0))
np.testing.assert_array_equal(uneven.full_data().asnumpy(), whole)

# Ranks of different seeds: all take the array of the first rank.
mx.random.seed(100 + rank)
other = gluon.Parameter("a_weight", shape=(12, 4), init=mx.init.Normal(), shard=(0, None))
other.initialize()
mx.random.seed(100)
first = gluon.Parameter("a_weight", shape=(12, 4), init=mx.init.Normal())
first.initialize()
np.testing.assert_array_equal(other.data().asnumpy(), block(first.data().asnumpy(), 0))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB


# Arrays of several pieces, and no more memory than the whole array and one block.
if size > 1:
    shape = (6 * 1024, 4098)  # 96 MB
    before = peak()
    large = []
    for seed in (7 + rank, 7):
        for axis in (1, 0):
            mx.random.seed(seed)
            large.append(
                gluon.Parameter("a_weight", shape=shape, init=mx.init.Normal(), shard=(axis, None))
            )
            large[-1].initialize()
            large[-1].data().wait_to_read()
            if len(large) == 1:
                more = peak() - before
                assert more < 96 * (1 + 1 / size) + 40, more
    mx.random.seed(7)
    whole = mx.nd.random.normal(0, 0.01, shape=shape).asnumpy()
    for param, axis in zip(large, (1, 0, 1, 0)):
        np.testing.assert_array_equal(param.data().asnumpy(), block(whole, axis))
    del large, param, whole

# Values: whole arrays and blocks are taken; casts, contexts, gradients.
value = np.arange(48, dtype="float32").reshape(12, 4)
other.set_data(mx.nd.array(value))
np.testing.assert_array_equal(other.data().asnumpy(), block(value, 0))
other.set_data(block(value, 0) + 1)
np.testing.assert_array_equal(other.full_data().asnumpy(), value + 1)
other.cast("float64")
assert other.data().dtype == np.float64 and other.full_data().dtype == np.float64
other.reset_ctx([mx.cpu(0), mx.cpu(1)])
assert other.list_ctx() == [mx.cpu(0), mx.cpu(1)]
np.testing.assert_array_equal(other.data(mx.cpu(1)).asnumpy(), block(value, 0) + 1)
np.testing.assert_array_equal(other.full_data().asnumpy(), value + 1)
other.grad_req = "add"
for _ in range(2):
    with autograd.record():
        y = other.data(mx.cpu(0)) * 3
    y.backward()
assert (other.list_grad()[0].asnumpy() == 6).all()
other.zero_grad()
assert (other.list_grad()[0].asnumpy() == 0).all()
other.grad_req = "null"
assert other.data(mx.cpu(0)).grad is None


class Column(HybridBlock):
    """Dense layer of which each rank computes some outputs; all ranks get all of them."""

    def __init__(self, units, in_units=0, shard=True, **kwargs):
        super().__init__(**kwargs)
        place = (0, None) if shard else None
        self.shard = shard
        with self.name_scope():
            options = {"allow_deferred_init": True, "shard": place}
            self.weight = self.params.get("weight", shape=(units, in_units), **options)
            self.bias = self.params.get("bias", shape=(units,), init="zeros", **options)

    def hybrid_forward(self, F, x, weight, bias):
        y = F.FullyConnected(x, weight, bias, num_hidden=self.bias.local_shape[0])
        return F.contrib.all_gather(y, axis=1) if self.shard else y


x = mx.nd.array(np.random.RandomState(3).uniform(-1, 1, (5, 6)))
results = []
for shard in (False, True):
    for hybridize in (False, True):
        for in_units in (0, 6):
            mx.random.seed(5)
            net = Column(12, in_units, shard, prefix="net_")
            net.initialize(mx.init.Xavier())
            if hybridize:
                net.hybridize()
            for _ in range(2):
                x.attach_grad()
                with autograd.record():
                    y = net(x)
                    loss = (y * y).sum()
                loss.backward()
            weight, bias = net.weight, net.bias
            assert weight.shape == (12, 6), weight.shape
            # Gradients of collectives are those of the sum of all ranks' losses.
            gradients = [p.grad().asnumpy() for p in (weight, bias)]
            gradients = [g / size if shard else block(g, 0) for g in gradients]
            values = [weight.full_data().asnumpy(), y.asnumpy(), *gradients]
            results.append(values)
for values in results[1:]:
    np.testing.assert_array_equal(values[0], results[0][0])
    agree(values, results[0], 1e-5, 1e-6)

# Files hold whole arrays. All ranks write them together and read them in any layout.
path = str(folder / "net.params")
net.save_parameters(path)
net.save(str(folder / "whole"))
net.collect_params().save(str(folder / "dict.params"))
mx.nd.save(str(folder / "array"), {"weight": net.weight.full_data()})
stored = mx.nd.load(path)
np.testing.assert_array_equal(stored["weight"].asnumpy(), values[0])
np.testing.assert_array_equal(mx.nd.load(str(folder / "array"))["weight"].asnumpy(), values[0])
for shard in (True, False):
    for initialize in (True, False):
        again = Column(12, 6 if initialize else 0, shard, prefix="net_")
        if initialize:
            again.initialize()
        again.load_parameters(path)
        np.testing.assert_allclose(again(x).asnumpy(), values[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(again.weight.full_data().asnumpy(), values[0])
        again.load(str(folder / "whole"))
        again.collect_params().load(str(folder / "dict.params"))
        np.testing.assert_array_equal(again.weight.full_data().asnumpy(), values[0])

# Files of a job with another number of ranks.
if (folder / "earlier").exists():
    path = str(folder / "earlier" / "net.params")
    stored = mx.nd.load(path)["weight"].asnumpy()
    again = Column(12, 6, True, prefix="net_")
    again.load_parameters(path)
    np.testing.assert_array_equal(again.weight.data().asnumpy(), block(stored, 0))
    np.testing.assert_allclose(again(x).asnumpy(), values[1], rtol=1e-5, atol=1e-6)

# Export: the symbol is the program of a rank, its parameters are whole.
for uneven in (False, True):
    net2 = Column(12, 6, True, prefix="out_")
    net2.weight.allow_uneven = net2.bias.allow_uneven = uneven
    net2.initialize(mx.init.Normal())
    net2.hybridize()
    wanted = net2(x).asnumpy()
    files = net2.export(str(folder / f"exported{uneven}"))
    block2 = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    np.testing.assert_array_equal(block2(x).asnumpy(), wanted)
    imported = block2.collect_params()["out_weight"]
    assert imported.shape == (12, 6) and imported.local_shape == net2.weight.local_shape
    assert (imported.shard is None) == (size == 1)
    stored = mx.nd.load(files[1])["arg:out_weight"].asnumpy()
    np.testing.assert_array_equal(stored, net2.weight.full_data().asnumpy())

# Checkpoints hold whole arrays, also of gradients that steps collect.
net2.collect_params().setattr("grad_req", "add")
with autograd.record():
    net2(x).sum().backward()
state = checkpoint_state(net2, {})[1]
assert state["params"]["weight"].shape == state["gradients"]["weight"][0].shape == (12, 6)
kept = [net2.weight.data().asnumpy(), net2.weight.grad().asnumpy()]
net2.initialize(force_reinit=True)
net2.collect_params().zero_grad()
prepare(net2, "block", state, "test", {})()
np.testing.assert_array_equal(net2.weight.data().asnumpy(), kept[0])
np.testing.assert_array_equal(net2.weight.grad().asnumpy(), kept[1])

# Attributes.
net.collect_params().setattr("lr_mult", 0.5)
assert net.weight.lr_mult == 0.5 and net.weight.var().name == "net_weight"
same = Column(12, 6, True, prefix="net_", params=net.params)
assert same.weight is net.weight
np.testing.assert_allclose(same(x).asnumpy(), values[1], rtol=1e-5, atol=1e-6)
print("done", rank)
