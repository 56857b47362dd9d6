"""A training step on MXNet 1.9.1: a hybridized SymbolBlock with Trainer, or a Module."""

import gluon_step
import mxnet as mx
import peer_values
from network_symbols import network_symbol


def version():
    """Return MXNet's version."""
    return mx.__version__


def _shapes(spec):
    return {name: shape for layer in spec["layers"] for name, shape in layer["params"].values()}


def prepare(spec, variant, dtype, batch):
    """Return ``step(fetch=False)`` and ``wait()``; see ``gluon_step.gluon``."""
    symbol, shapes = network_symbol(mx, spec), _shapes(spec)
    if variant == "module":
        return gluon_step.module(mx, symbol, dtype, batch, spec["size"], shapes)
    net = mx.gluon.SymbolBlock(symbol, mx.sym.var("data"))
    for name, parameter in net.collect_params().items():
        parameter.shape = tuple(shapes[name])
        parameter.initialize(mx.init.Uniform(0.01), ctx=mx.cpu())
        parameter.set_data(mx.nd.array(peer_values.parameter(name, shapes[name])))
    return gluon_step.gluon(mx, net, dtype, batch, spec["size"])
