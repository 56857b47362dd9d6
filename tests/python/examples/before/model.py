"""Writes the files of an exported network with eight inputs."""

import mxlite as mx

_net = mx.gluon.nn.Dense(2)
_net.initialize()
_net.hybridize()
_net(mx.nd.ones((1, 8)))
_net.export("model")
