"""Write mxnet_1_9_1/quantized*: an int8 network with fused layers, its input and its outputs.

Run with MXNet 1.9.1, whose build has oneDNN:

    python tests/data/make_quantized.py tests/data/mxnet_1_9_1
"""

from __future__ import annotations

import sys

import mxnet as mx
import numpy as np
from mxnet.contrib import quantization
from mxnet.gluon import nn


class Residual(mx.gluon.HybridBlock):
    """Two convolutions whose result is added to that of a third one."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.first = nn.Conv2D(4, 1)
            self.second = nn.Conv2D(4, 3, padding=1, use_bias=False)
            self.norm = nn.BatchNorm()
            self.third = nn.Conv2D(4, 3, padding=1)

    def hybrid_forward(self, F, x):  # noqa: N803
        """Return the sum after relu."""
        x = self.first(x)
        y = F.Activation(self.norm(self.second(x)), act_type="relu")
        return F.Activation(self.third(y) + x, act_type="relu")


def main() -> None:
    """Write the files."""
    prefix = f"{sys.argv[1]}/quantized"
    mx.random.seed(1)
    np.random.seed(1)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(Residual(), nn.MaxPool2D(), nn.Conv2D(6, 3, activation="relu"), nn.Flatten())
        net.add(nn.Dense(8, activation="relu"), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = mx.nd.random.uniform(-1, 1, shape=(4, 3, 8, 8))
    with mx.autograd.record():
        net(x)
    floats = net(x)
    made = quantization.quantize_net_v2(
        net, calib_data=mx.io.NDArrayIter(x, batch_size=4), calib_mode="naive"
    )
    quantized = made(x)
    made.export(prefix)
    np.savez_compressed(
        f"{prefix}.npz", x=x.asnumpy(), floats=floats.asnumpy(), quantized=quantized.asnumpy()
    )


if __name__ == "__main__":
    main()
