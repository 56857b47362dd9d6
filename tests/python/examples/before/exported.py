"""Writes the files of an exported network, as MXNet 1.x does."""

import mxlite as mx
import mxlite.onnx

_net = mx.gluon.nn.HybridSequential()
_net.add(mx.gluon.nn.Conv2D(2, 3, strides=8), mx.gluon.nn.Dense(2))
_net.initialize()
_net.hybridize()
_net(mx.nd.ones((1, 3, 224, 224)))
_net.export("net")
