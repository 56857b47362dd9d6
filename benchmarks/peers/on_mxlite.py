"""The network on mxlite: a hybridized block of the model zoo."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import mxlite as mx
import numpy as np
import peer_values
from networks import build

VARIANTS = ("hybrid",)


def version():
    """Return mxlite's version."""
    return mx.__version__


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch and returns the output on the host when asked.

    Parameters
    ----------
    spec : dict
        ``network``, ``size`` and ``layers``.
    variant : str
        One of :data:`VARIANTS`.
    dtype : str
        ``"float32"`` or ``"bfloat16"``.
    batch : int
        Images.

    Returns
    -------
    callable
        ``run(fetch=False)``.
    """
    device = mx.gpu(0) if peer_values.DEVICE == "gpu" else mx.cpu(0)
    net = build(spec["network"])
    inputs = peer_values.inputs(spec, batch)
    data = mx.nd.array(inputs, dtype=inputs.dtype)
    net.infer_shape(data)
    parameters = {} if spec["random"] else net._collect_params_with_prefix()
    for name, parameter in parameters.items():
        parameter.set_data(mx.nd.array(peer_values.parameter(name, parameter.shape)))
    net.collect_params().reset_ctx(device)
    data = data.as_in_context(device)
    if dtype != "float32":
        net.cast(dtype)
        if inputs.dtype == np.float32:
            data = data.astype(dtype)
    net.hybridize(static_alloc=True, static_shape=True)

    def run(fetch=False):
        output = net(data)
        output.wait_to_read()
        return output.astype("float32").asnumpy() if fetch else None

    return run
