"""The network on OpenVINO: CPU plug-in, latency hint, float32 or bfloat16 by precision hint.

On int8, ``latency`` runs the network that mxlite quantized, ``static`` that of ``static_int8``.
"""

import io
import os

import openvino
import peer_values

VARIANTS = ("latency", "static")


def version():
    """Return OpenVINO's version."""
    return openvino.__version__


def _model(spec, variant, batch):
    if variant == "latency":
        return spec["onnx"]
    import static_int8  # needs ONNX Runtime, which the other variant does not

    return io.BytesIO(static_int8.model(spec, batch))


def prepare(spec, variant, dtype, batch):
    """Return a function that runs one batch; see ``on_mxlite.prepare``."""
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(_model(spec, variant, batch)),
        "CPU",
        {
            "INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]),
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bfloat16" else "f32",
        },
    )
    request = compiled.create_infer_request()
    data = openvino.Tensor(peer_values.inputs(spec, batch))
    request.set_input_tensor(data)

    def run(fetch=False):
        request.infer()
        return request.get_output_tensor().data.copy() if fetch else None

    return run
