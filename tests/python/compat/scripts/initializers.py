"""Initializers: builtin, by name, mixed, custom, in parameters and layers."""

import json

import mxnet as mx
import numpy as np
from mxnet import gluon, init, nd
from mxnet.gluon import nn


@init.register
class Ramp(init.Initializer):
    """0, 1, 2, ... times a step."""

    def __init__(self, step=1.0):
        super(Ramp, self).__init__(step=step)
        self.step = step

    def _init_weight(self, name, arr):
        arr[:] = nd.arange(arr.size).reshape(arr.shape) * self.step


net = nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(nn.Dense(2, in_units=3), nn.Dense(1, in_units=2, bias_initializer="ones"))
net.initialize(Ramp(0.5))
print(net[0].weight.data(), net[0].bias.data(), net[1].bias.data())
net.initialize("ramp", force_reinit=True)
print(net[1].weight.data(), Ramp(2).dumps(), json.loads(Ramp(2).dumps())[0])
mixed = init.Mixed([".*bias", ".*dense0_weight", ".*"], [init.Zero(), init.Constant(3), init.One()])
for name in ("dense0_weight", "dense1_weight", "dense0_bias"):
    array = nd.full((2,), 9)
    mixed(init.InitDesc(name), array)
    print(name, array)
net[0].weight.initialize(init.Constant(-1), force_reinit=True)
print(net[0].weight.data())

mx.random.seed(7)
for made, low, high in [
    (init.Uniform(0.3), -0.3, 0.3),
    (init.Xavier(), -((6 / 160) ** 0.5), (6 / 160) ** 0.5),
    (init.Xavier(rnd_type="uniform", factor_type="in", magnitude=2.34), -0.17, 0.17),
]:
    layer = nn.Dense(
        100, in_units=60 if "avg" in json.loads(made.dumps())[1].get("factor_type", "") else 81
    )
    layer.initialize(made)
    values = layer.weight.data().asnumpy()
    print(
        type(made).__name__,
        values.min() >= low * 1.2,
        values.max() <= high * 1.2,
        abs(values.mean()) < 0.02,
        values.std() > 0.05,
    )
layer = nn.Dense(200, in_units=100)
layer.initialize(init.Normal(0.5))
print(abs(layer.weight.data().asnumpy().std() - 0.5) < 0.02)
layer.initialize(init.Orthogonal(scale=1.0), force_reinit=True)
w = layer.weight.data().asnumpy()
print(np.allclose(w.T.dot(w), np.eye(100), atol=1e-4))
layer.initialize(init.MSRAPrelu(), force_reinit=True)
print(layer.weight.data().asnumpy().std() < 0.2)

up = nn.Conv2DTranspose(
    1, 4, strides=2, padding=1, in_channels=1, use_bias=False, weight_initializer=init.Bilinear()
)
up.initialize()
print(up.weight.data())
cell = gluon.Parameter("lstm_bias", shape=(8,), init=init.LSTMBias(forget_bias=1.0))
cell.initialize()
print(cell.data())

desc = init.InitDesc("dense0_weight", attrs={"__init__": init.Constant(5).dumps()})
array = nd.zeros((2,))
init.Uniform()(desc, array)
print(array, desc, desc.attrs["__init__"])
loaded = init.Load({"arg:a_weight": nd.ones((2,)) * 4}, default_init=init.Zero(), verbose=False)
array = nd.zeros((2,))
loaded("a_weight", array)
print(array)
norm = nn.BatchNorm(in_channels=2)
norm.initialize(init.Xavier())
print({k.split("_", 1)[1]: v.data().asnumpy().tolist() for k, v in norm.collect_params().items()})
try:
    nn.Dense(2, in_units=2).initialize("no_such_initializer")
except Exception as error:
    print("refused")
print(init.Zero() == init.Zero(), init.Constant(1) == init.Constant(2), repr(init.One().dumps()))
