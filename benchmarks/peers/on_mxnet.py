"""The network on MXNet 1.9.1: a SymbolBlock, hybridized, plain or fused by its oneDNN backend."""

import mxnet as mx
import peer_values
from network_symbols import network_symbol

VARIANTS = ("hybrid", "fused")


def version():
    """Return MXNet's version."""
    return mx.__version__


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch; see ``on_mxlite.prepare``."""
    net = mx.gluon.SymbolBlock(network_symbol(mx, spec), mx.sym.var("data"))
    inputs = peer_values.inputs(spec, batch)
    data = mx.nd.array(inputs, dtype=inputs.dtype)
    shapes = {name: shape for layer in spec["layers"] for name, shape in layer["params"].values()}
    for name, parameter in net.collect_params().items():
        parameter.shape = tuple(shapes[name])
        parameter.initialize(mx.init.Uniform(0.01), ctx=mx.cpu())
        if not spec["random"]:
            parameter.set_data(mx.nd.array(peer_values.parameter(name, shapes[name])))
    if variant == "fused":
        net.optimize_for(data, backend="MKLDNN", static_alloc=True, static_shape=True)
    else:
        net.hybridize(static_alloc=True, static_shape=True)

    def run(fetch=False):
        output = net(data)
        output.wait_to_read()
        return output.asnumpy() if fetch else None

    return run
