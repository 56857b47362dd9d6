"""Train a small network with Gluon and save it."""

from __future__ import annotations

import mxlite as mx
import numpy as np
from mxlite import autograd, gluon
from mxlite.gluon import nn


class Net(gluon.HybridBlock):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.HybridSequential()
        self.features.add(nn.Conv2D(8, kernel_size=3, activation="relu"), nn.MaxPool2D())
        self.output = nn.Dense(classes)

    def forward(self, x: mx.nd.NDArray) -> mx.nd.NDArray:
        return mx.nd.softmax(self.output(mx.nd.Dropout(self.features(x), p=0.1)), axis=-1)


def accuracy(net: gluon.HybridBlock, data: mx.nd.NDArray, label: mx.nd.NDArray) -> float:
    output = net(data)
    metric = mx.metric.Accuracy()
    metric.update([label], [output])
    return float(metric.get()[1])


def main() -> None:
    mx.random.seed(1)
    ctx = mx.cpu()
    data = mx.nd.array(np.random.default_rng(0).random((16, 1, 8, 8)), ctx=ctx, dtype="float32")
    label = mx.nd.array([i % 3 for i in range(16)], ctx=ctx)
    net = Net(3)
    net.initialize(mx.init.Xavier(), ctx=ctx)
    net.hybridize(static_alloc=True)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
    for epoch in range(2):
        with autograd.record():
            error = loss(net(data), label).mean()
        error.backward()
        trainer.step(data.shape[0])
        print(epoch, error.asscalar(), f"{float(error.asscalar()):.3f}")
    trainer.set_learning_rate(trainer.learning_rate / 2)
    gradient = net.output.weight.grad().norm().asscalar()
    print(gradient, accuracy(net, data, label))


if __name__ == "__main__":
    main()
