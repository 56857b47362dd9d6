"""Blocks of one's own: parameters, scopes, sharing, hooks, saving."""

import os
import tempfile

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import Block, HybridBlock, nn


class CenteredLayer(Block):
    """Subtracts the mean."""

    def forward(self, x):
        return x - x.mean()


print(CenteredLayer()(nd.array([1, 2, 3, 4, 5])))


class Scaled(HybridBlock):
    """A dense layer whose output is multiplied by a learnt factor."""

    def __init__(self, units, in_units=0, **kwargs):
        super(Scaled, self).__init__(**kwargs)
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(units, in_units), init="ones", allow_deferred_init=True
            )
            self.scale = self.params.get("scale", shape=(1,), init=mx.init.Constant(0.5))
            self.offset = self.params.get_constant("offset", nd.array([10.0]))

    def hybrid_forward(self, F, x, weight, scale, offset):
        y = F.FullyConnected(
            x,
            weight,
            no_bias=True,
            num_hidden=weight.shape[0] if hasattr(weight, "shape") and weight.shape else 3,
            flatten=False,
        )
        return F.broadcast_add(F.broadcast_mul(y, scale), offset)


layer = Scaled(3, in_units=2, prefix="scaled_")
layer.initialize()
print(layer(nd.ones((2, 2))))
print(sorted(layer.collect_params().keys()))
print(sorted(layer.collect_params(".*weight|.*scale").keys()))


class Net(nn.Block):
    """Two layers and a shared one."""

    def __init__(self, **kwargs):
        super(Net, self).__init__(**kwargs)
        with self.name_scope():
            self.first = nn.Dense(4, activation="relu")
            self.second = nn.Dense(4, params=self.first.params, activation="tanh", in_units=4)
            self.body = nn.Sequential()
            self.body.add(nn.Dense(2), nn.Lambda("relu"), nn.HybridLambda(lambda F, x: F.abs(x)))

    def forward(self, x):
        return self.body(self.second(self.first(x)))


net = Net(prefix="net_")
print(net)
net.initialize(mx.init.Constant(0.1))
print(net(nd.ones((1, 4))))
print(sorted(net.collect_params().keys()), net.first.weight is net.second.weight)
print(net.first.weight, net.first.weight.shape, net.first.weight.grad_req)
print(net.body[0].bias.data(), len(net.body), [type(child).__name__ for child in net.body])

calls = []
handle = net.first.register_forward_hook(lambda block, inputs, output: calls.append(output.shape))
net.first.register_forward_pre_hook(lambda block, inputs: calls.append("before"))
net(nd.ones((2, 4)))
handle.detach()
net(nd.ones((2, 4)))
print(calls)
net.apply(lambda block: calls.append(type(block).__name__))
print(calls[4:])

with autograd.record():
    out = net(nd.ones((1, 4))).sum()
out.backward()
print(net.first.weight.grad().sum() > 0, net.first.weight.list_ctx())
net.first.weight.set_data(nd.ones((4, 4)))
net.collect_params().setattr("grad_req", "null")
print(net.first.weight.data().sum(), net.body[0].weight.grad_req)
try:
    nn.Dense(3).weight.data()
except Exception as error:
    print("RuntimeError", isinstance(error, RuntimeError))
unready = nn.Dense(3)
unready.initialize()
try:
    unready.weight.data()
except gluon.parameter.DeferredInitializationError:
    print("not initialized yet")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net.params")
    net.save_parameters(path)
    again = Net(prefix="again_")
    again.load_parameters(path)
    print((again(nd.ones((1, 4))) == net(nd.ones((1, 4)))).asnumpy().all())
    print(sorted(nd.load(path)))
    net.collect_params().save(path, strip_prefix="net_")
    print(sorted(nd.load(path)))
    again.collect_params().load(path, restore_prefix="again_")
    try:
        nn.Dense(4, in_units=4).load_parameters(path)
    except Exception as error:
        print("refused", type(error).__name__ != "SystemExit")

hybrid = nn.HybridSequential(prefix="h_")
with hybrid.name_scope():
    hybrid.add(nn.Dense(3, in_units=2), nn.Dropout(0.5), nn.BatchNorm(in_channels=3))
hybrid.initialize(mx.init.One())
eager = hybrid(nd.ones((1, 2)))
hybrid.hybridize()
print(hybrid(nd.ones((1, 2))), (eager - hybrid(nd.ones((1, 2)))).abs().max() < 1e-5)
print(hybrid)
print([p.name for p in hybrid.collect_params().values()])
