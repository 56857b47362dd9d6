"""The network on mxlite: a hybridized block of the model zoo.

In cells of int8, the variant ``float32`` runs the float network beside it, for the gain of int8.

As a program, writes the quantized network as ONNX: ``--spec FILE --batch N --write-onnx FILE``.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import mxlite as mx
import numpy as np
import peer_values
from networks import build

VARIANTS = ("hybrid", "float32")


def version():
    """Return mxlite's version."""
    return mx.__version__


def _filled(spec, data):
    """Return the network with the parameters that all systems have."""
    net = build(spec["network"])
    net.infer_shape(data)
    parameters = {} if spec["random"] else net._collect_params_with_prefix()
    for name, parameter in parameters.items():
        parameter.set_data(mx.nd.array(peer_values.parameter(name, parameter.shape)))
    return net


def _quantized(net, data):
    """Return the network on int8, with the ranges of this batch."""
    from mxlite.contrib import quantization  # older builds, which two_builds.py runs, lack it

    return quantization.quantize_net_v2(
        net, quantized_dtype="auto", quantize_mode="smart", calib_data=[data], calib_mode="naive",
        quantize_granularity="channel-wise",
    )  # fmt: skip


def write_onnx(spec, batch, path):
    """Write the quantized network for systems that read ONNX."""
    from mxlite import onnx

    inputs = peer_values.inputs(spec, batch)
    data = mx.nd.array(inputs, dtype=inputs.dtype)
    net = _quantized(_filled(spec, data), data)
    onnx.export(net, data, path=path, check=False)


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch and returns the output on the host when asked.

    Parameters
    ----------
    spec : dict
        ``network``, ``size`` and ``layers``.
    variant : str
        One of :data:`VARIANTS`.
    dtype : str
        ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"int8"``.
    batch : int
        Images.

    Returns
    -------
    callable
        ``run(fetch=False)``.
    """
    device = mx.gpu(0) if peer_values.DEVICE == "gpu" else mx.cpu(0)
    inputs = peer_values.inputs(spec, batch)
    data = mx.nd.array(inputs, dtype=inputs.dtype)
    net = _filled(spec, data)
    net.collect_params().reset_ctx(device)
    data = data.as_in_context(device)
    if variant == "float32":
        dtype = variant
    if dtype == "int8":
        net = _quantized(net, data)
    elif dtype != "float32":
        net.cast(dtype)
        if inputs.dtype == np.float32:
            data = data.astype(dtype)
    net.hybridize(static_alloc=True, static_shape=True)

    def run(fetch=False):
        output = net(data)
        output.wait_to_read()
        return output.astype("float32").asnumpy() if fetch else None

    return run


if __name__ == "__main__":
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("--spec", required=True)
    line.add_argument("--batch", type=int, required=True)
    line.add_argument("--write-onnx", required=True)
    options = line.parse_args()
    with open(options.spec, encoding="utf-8") as file:
        write_onnx(json.load(file), options.batch, options.write_onnx)
