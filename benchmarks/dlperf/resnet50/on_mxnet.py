"""ResNet-50 v1.5 on MXNet 1.9.1: the layer list as a SymbolBlock."""

import mxnet as mx
import peer_values
from network_symbols import network_symbol

from . import on_gluon, recipe


def _horovod():
    try:
        import horovod.mxnet as hvd
    except ImportError as error:
        raise ImportError(
            "several ranks of MXNet need Horovod: HOROVOD_WITH_MXNET=1 "
            f".venv-mxnet/bin/pip install horovod ({error})"
        ) from error
    return hvd


def prepare(spec, variant):
    """Return the training; see ``on_mxlite.prepare``."""
    if spec["ranks"] > 1:
        _horovod()  # before anything is built
    shapes = recipe.shapes(spec)
    net = mx.gluon.SymbolBlock(network_symbol(mx, spec), mx.sym.var("data"))
    for name, parameter in net.collect_params().items():
        parameter.shape = tuple(shapes[name])
        parameter.initialize(mx.init.Uniform(0.01), ctx=mx.cpu())
        parameter.set_data(mx.nd.array(peer_values.parameter(name, shapes[name])))
    return on_gluon.Training(mx, net, spec, _horovod)
