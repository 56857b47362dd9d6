"""Train a symbol with Module.fit."""

from __future__ import annotations

import mxlite as mx
import numpy as np


def network(classes: int) -> mx.sym.Symbol:
    data = mx.sym.Variable("data")
    hidden = mx.sym.FullyConnected(data, num_hidden=16, name="fc1")
    active = mx.sym.Activation(hidden, act_type="relu", name="relu1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(active, num_hidden=classes), name="softmax")


def main() -> None:
    generator = np.random.default_rng(0)
    data = generator.random((32, 8)).astype("float32")
    label = generator.integers(0, 3, 32).astype("float32")
    train = mx.io.NDArrayIter(data, label, batch_size=8, shuffle=True)
    module = mx.mod.Module(network(3), data_names=["data"], label_names=["softmax_label"])
    module.fit(
        train,
        eval_metric=["acc", "ce"],
        optimizer="sgd",
        optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
        initializer=mx.init.Xavier(),
        batch_end_callback=mx.callback.Speedometer(8, 2),
        num_epoch=2,
    )
    for name, value in module.score(train, "acc"):
        print(name, value)
    train.reset()
    outputs = module.predict(train)
    print(outputs.shape, outputs.asnumpy().mean())
    arg_params, _ = module.get_params()
    print(sorted(arg_params))


if __name__ == "__main__":
    main()
