"""A training step on mxlite: a hybridized block of the model zoo with Trainer, or a Module."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gluon_step
import mxlite as mx
import peer_values
from network_symbols import network_symbol
from scoring.networks import build


def version():
    """Return mxlite's version."""
    return mx.__version__


def _keep_all(block):
    if isinstance(block, mx.gluon.nn.Dropout):
        block._rate = 0.0


def prepare(spec, variant, dtype, batch):
    """Return ``step(fetch=False)`` and ``wait()``; see ``gluon_step.gluon``.

    Parameters
    ----------
    spec : dict
        ``network``, ``size``, ``layers``, and ``keeps_all`` where dropout has a rate of 0.
    variant : str
        ``"hybrid"`` or ``"module"``.
    dtype : str
        ``"float32"``, or a half type with float32 master weights.
    batch : int
        Images.

    Returns
    -------
    tuple of callable
        ``step`` and ``wait``.
    """
    if variant == "module":
        shapes = dict(pair for layer in spec["layers"] for pair in layer["params"].values())
        return gluon_step.module(mx, network_symbol(mx, spec), dtype, batch, spec["size"], shapes)
    net = build(spec["network"])
    if spec.get("keeps_all"):
        net.apply(_keep_all)
    net.infer_shape(mx.nd.zeros((1, 3, spec["size"], spec["size"])))
    for name, parameter in net._collect_params_with_prefix().items():
        parameter.set_data(mx.nd.array(peer_values.parameter(name, parameter.shape)))
    return gluon_step.gluon(mx, net, dtype, batch, spec["size"])
