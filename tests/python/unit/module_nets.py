"""A small network, its data and its first values, for tests of modules."""

from __future__ import annotations

from typing import Any

import mxlite as mx
import numpy as np

TWO = [mx.cpu(0), mx.cpu(1)]
RNG = np.random.RandomState(0)
X = RNG.randn(22, 5).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.float32) + (X[:, 1] > 0)
NAMES = ["fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"]


class Batches(mx.io.DataIter):
    """Arrays in batches, the last one filled up from the beginning."""

    def __init__(self, data: Any, label: Any, size: int) -> None:
        super().__init__(size)
        self.arrays, self.begin = (data, label), -size
        self.provide_data = [mx.io.DataDesc("data", (size, *data.shape[1:]))]
        self.provide_label = [mx.io.DataDesc("softmax_label", (size,))]

    def reset(self) -> None:
        self.begin = -self.batch_size

    def next(self) -> mx.io.DataBatch:
        self.begin += self.batch_size
        total = len(self.arrays[0])
        if self.begin >= total:
            raise StopIteration
        chosen = np.arange(self.begin, self.begin + self.batch_size) % total
        data, label = ([mx.nd.array(array[chosen])] for array in self.arrays)
        pad = max(0, self.begin + self.batch_size - total)
        return mx.io.DataBatch(data, label, pad=pad)


def batches(size: int = 4) -> Batches:
    return Batches(X, Y, size)


def net(norm: bool = False) -> Any:
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1")
    if norm:
        layer = mx.sym.BatchNorm(layer, name="bn", fix_gamma=False)
    layer = mx.sym.Activation(layer, act_type="relu", name="relu")
    layer = mx.sym.FullyConnected(layer, num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(layer, name="softmax")


def params(norm: bool = False) -> dict[str, Any]:
    found = {
        "fc1_weight": mx.nd.array(np.linspace(-1, 1, 20).reshape(4, 5)),
        "fc1_bias": mx.nd.zeros((4,)),
        "fc2_weight": mx.nd.array(np.linspace(-1, 1, 12).reshape(3, 4)),
        "fc2_bias": mx.nd.zeros((3,)),
    }
    if norm:
        found.update(bn_gamma=mx.nd.ones((4,)), bn_beta=mx.nd.zeros((4,)))
    return found


def bound(size: int = 4, **options: Any) -> Any:
    module = mx.mod.Module(net(), context=options.pop("context", mx.cpu()))
    module.bind([("data", (size, 5))], [("softmax_label", (size,))], **options)
    module.init_params(arg_params=params())
    return module


def fitted(norm: bool = False, **options: Any) -> Any:
    chosen = {
        name: options.pop(name)
        for name in ("context", "fixed_param_names", "compression_params")
        if name in options
    }
    module = mx.mod.Module(net(norm), **chosen)
    module.fit(
        batches(),
        eval_data=batches(),
        num_epoch=2,
        arg_params=params(norm),
        optimizer_params={"learning_rate": 0.5, "momentum": 0.9},
        **options,
    )
    return module


def weight(module: Any, name: str = "fc2_weight") -> Any:
    return module.get_params()[0][name].asnumpy()
