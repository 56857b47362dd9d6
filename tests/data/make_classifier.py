"""Write mxnet_1_9_1/classifier*: a small network as Module saves it, and print its outputs.

Run with MXNet 1.9.1:

    python tests/data/make_classifier.py tests/data/mxnet_1_9_1
"""

from __future__ import annotations

import sys

import mxnet as mx
import numpy as np


def main() -> None:
    """Write the symbol and the parameters."""
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc1")
    net = mx.sym.BatchNorm(net, fix_gamma=False, name="bn")
    net = mx.sym.Activation(net, act_type="relu", name="relu")
    net = mx.sym.FullyConnected(net, num_hidden=3, name="fc2")
    net = mx.sym.SoftmaxOutput(net, name="softmax")
    rng = np.random.RandomState(0)
    shapes, _, states = net.infer_shape(data=(2, 5))
    args = {
        name: mx.nd.array(np.round(rng.randn(*shape) * 4) / 8)
        for name, shape in zip(net.list_arguments(), shapes)
        if name not in ("data", "softmax_label")
    }
    aux = {
        name: mx.nd.array(np.abs(np.round(rng.randn(*shape) * 4) / 8) + 0.5 * ("var" in name))
        for name, shape in zip(net.list_auxiliary_states(), states)
    }
    mx.model.save_checkpoint(f"{sys.argv[1]}/classifier", 1, net, args, aux)
    executor = net.simple_bind(mx.cpu(), data=(2, 5), grad_req="null")
    executor.copy_params_from(args, aux)
    data = mx.nd.array(np.arange(10).reshape(2, 5) / 4 - 1)
    print(executor.forward(data=data)[0].asnumpy().tolist())


main()
